import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { gateway } from './stage.ts';

/** Names that are nobody's but the test's, so that nothing else says something about them. */
const headerName = fc
  .stringMatching(/^[Xx]-[A-Za-z0-9!#$%&'*+.^_`|~-]{1,12}$/)
  .filter((name) => !/^x-(amzn|forwarded)/i.test(name));
const headerValue = fc
  .string({
    unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
    maxLength: 40,
  })
  .map((value) => value.trim());
const headers = fc.array(fc.tuple(headerName, headerValue), { maxLength: 8 });

const text = fc.string({ unit: 'grapheme', maxLength: 20 });
const query = fc.array(fc.tuple(text, text), { maxLength: 6 });
/** A percent sign does not survive being decoded twice, and what follows a question mark is lost: see the routes' tests. */
const segment = text.filter((one) => one !== '' && !/[%?/]/.test(one));

const body = fc.oneof(
  fc.record({
    type: fc.constantFrom('application/json', 'text/plain'),
    bytes: text.map((one) => Buffer.from(one)),
  }),
  fc.record({
    type: fc.constantFrom('application/octet-stream', 'application/pdf', 'text/plain'),
    bytes: fc.uint8Array({ maxLength: 300 }).map((one) => Buffer.from(one)),
  }),
);

function joined(pairs: readonly (readonly [string, string])[], nameOf = (name: string) => name) {
  const values = new Map<string, string[]>();
  for (const [name, value] of pairs) values.set(nameOf(name), [...(values.get(nameOf(name)) ?? []), value]);
  return Object.fromEntries([...values].map(([name, list]) => [name, list.join(',')]));
}

describe('any request', () => {
  it('arrives in its event as it was sent', async () => {
    const api = await gateway({ routes: ['POST /things/{id}/{rest+}'] });
    const request = fc.record({
      headers,
      query,
      id: segment,
      rest: fc.array(segment, { minLength: 1, maxLength: 3 }),
      body,
    });
    await fc.assert(
      fc.asyncProperty(request, async ({ headers, query, id, rest, body }) => {
        const encoded = (one: string) => encodeURIComponent(one);
        const rawQuery = query.map(([name, value]) => `${encoded(name)}=${encoded(value)}`).join('&');
        const path = `/things/${encoded(id)}/${rest.map(encoded).join('/')}`;
        const answer = await api.send({
          method: 'POST',
          path: `${path}?${rawQuery}`,
          headers: [['Content-Type', body.type], ...headers],
          body: body.bytes,
        });
        expect(answer.status).toBe(200);
        const event = api.events.at(-1);
        expect(event.rawPath).toBe(`/things/${id}/${rest.join('/')}`);
        expect(event.pathParameters).toEqual({ id, rest: rest.join('/') });
        expect(event.rawQueryString).toBe(rawQuery);
        expect(event.queryStringParameters ?? {}).toEqual(joined(query));
        expect(event.headers).toMatchObject(joined(headers, (name) => name.toLowerCase()));
        const { body: told = '', isBase64Encoded } = event;
        expect(Buffer.from(told, isBase64Encoded ? 'base64' : 'utf8')).toEqual(body.bytes);
      }),
      { numRuns: 150 },
    );
  });
});
