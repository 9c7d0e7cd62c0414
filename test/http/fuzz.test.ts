import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MalformedEvent, UnstorableReply, UnsupportedEvent } from '../../lib/http/errors.ts';
import { operationOf } from '../../lib/http/operation.ts';
import { renderReply } from '../../lib/http/render.ts';
import { readReply } from '../../lib/http/reply.ts';
import { type EventSource, readEvent } from '../../lib/http/request.ts';
import { allOf, iamPrincipal, jwtClaim, lambdaAuthorizer } from '../../lib/http/tenant.ts';
import { alb, albMultiValue, functionUrl, httpApi, restApi } from './events.ts';

const json = fc.jsonValue({ maxDepth: 3 });

/** Names that JSON may hold and that trip code which trusts them. */
const name = fc.oneof(
  fc.constantFrom(
    '__proto__',
    'constructor',
    'toString',
    'length',
    'statusCode',
    'headers',
    'body',
    'cookies',
  ),
  fc.constantFrom(
    'multiValueHeaders',
    'isBase64Encoded',
    'claims',
    'jwt',
    'iam',
    'http',
    'elb',
    'Records',
    'info',
  ),
  fc.string({ maxLength: 6 }),
);
const object = fc.dictionary(name, json, { maxKeys: 5 });
const anything = fc.oneof(json, object, fc.array(object, { maxLength: 2 }));

/** A real event with one part, at any depth, replaced by anything. */
const damaged = fc
  .tuple(
    fc.constantFrom(httpApi, functionUrl, restApi, alb, albMultiValue).map((event) => event()),
    fc.array(fc.nat(), { minLength: 1, maxLength: 4 }),
    fc.oneof(anything, fc.constant(undefined)),
  )
  .map(([event, turns, replacement]) => {
    let at: Record<string, unknown> = event;
    for (const [depth, turn] of turns.entries()) {
      const names = Object.keys(at);
      const chosen = names[turn % names.length];
      if (chosen === undefined) break;
      const inside = at[chosen];
      const isLast = depth === turns.length - 1 || typeof inside !== 'object' || inside === null;
      if (isLast) {
        at[chosen] = replacement;
        break;
      }
      at = inside as Record<string, unknown>;
    }
    return event;
  });

function readOrRefuse(event: unknown): void {
  try {
    const request = readEvent(event);
    expect(typeof request.method).toBe('string');
    expect(request.body).toBeInstanceOf(Uint8Array);
    for (const [key, values] of request.headers) {
      expect(key).toBe(key.replace(/[A-Z]/g, (letter) => letter.toLowerCase()));
      expect(values.length).toBeGreaterThan(0);
      expect(values.every((value) => typeof value === 'string')).toBe(true);
    }
    expect(request.query.flat().every((part) => typeof part === 'string')).toBe(true);
    operationOf(request);
    for (const resolve of [
      jwtClaim('sub'),
      lambdaAuthorizer('sub'),
      iamPrincipal(),
      allOf(jwtClaim('sub')),
    ]) {
      const tenant = resolve(request);
      expect(tenant === undefined || (typeof tenant === 'string' && tenant !== '')).toBe(true);
    }
  } catch (error) {
    if (!(error instanceof UnsupportedEvent || error instanceof MalformedEvent)) throw error;
  }
}

describe('whatever arrives, readEvent reads it or says why not', () => {
  it('anything JSON can hold', () => {
    fc.assert(fc.property(anything, readOrRefuse), { numRuns: 5_000 });
  });

  it('a real event with a part replaced, and the event is never changed', () => {
    fc.assert(
      fc.property(damaged, (event) => {
        const before = structuredClone(event);
        readOrRefuse(event);
        expect(event).toEqual(before);
      }),
      { numRuns: 5_000 },
    );
  });

  it('any query string, which is never lost and never throws', () => {
    const rawQueryString = fc.string({
      unit: fc.constantFrom('%', '4', '1', 'F', 'e', '&', '=', '+', 'é', '\ud800'),
    });
    fc.assert(
      fc.property(rawQueryString, (text) => {
        const { query } = readEvent(httpApi({ rawQueryString: text }));
        expect(query.length).toBe(text.split('&').filter((part) => part !== '').length);
      }),
      { numRuns: 2_000 },
    );
  });

  it('any query that URLSearchParams wrote comes back as it was', () => {
    const pairs = fc.array(
      fc.tuple<[string, string]>(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' })),
      {
        maxLength: 5,
      },
    );
    fc.assert(
      fc.property(pairs, (given) => {
        const rawQueryString = new URLSearchParams(given).toString();
        const expected = [...new URLSearchParams(rawQueryString)];
        expect(readEvent(httpApi({ rawQueryString })).query).toEqual(expected);
      }),
      { numRuns: 1_000 },
    );
  });

  it.each([
    ['a deep body', { ...httpApi(), body: nested(100_000) }],
    ['a deep claim', httpApi({ requestContext: { authorizer: { jwt: { claims: { sub: nested(5) } } } } })],
    ['a megabyte of escapes', httpApi({ rawQueryString: '%'.repeat(1_000_000) })],
    ['a megabyte of half a character', httpApi({ rawQueryString: '%E2'.repeat(300_000) })],
    ['a hundred thousand parameters', httpApi({ rawQueryString: 'a=1&'.repeat(100_000) })],
    ['a hundred thousand values', restApi({ multiValueHeaders: { 'X-A': Array(100_000).fill('v') } })],
    ['a deep event', nested(100_000)],
  ])('hostile: %s', (_, event) => {
    readOrRefuse(event);
  });
});

function nested(depth: number): unknown {
  return JSON.parse(`${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`);
}

const source = fc.constantFrom<EventSource>('http-api', 'function-url', 'rest-api', 'alb');
const response = fc.record(
  {
    statusCode: fc.oneof(fc.integer({ min: 90, max: 610 }), json),
    headers: fc.oneof(fc.dictionary(name, fc.oneof(fc.string(), json)), json),
    multiValueHeaders: fc.oneof(fc.dictionary(name, fc.array(fc.string())), json),
    cookies: fc.oneof(fc.array(fc.string()), json),
    body: fc.oneof(fc.string(), fc.base64String(), json),
    isBase64Encoded: fc.oneof(fc.boolean(), json),
  },
  { requiredKeys: [] },
);

describe('whatever a handler returns, readReply reads it or says why not', () => {
  it('anything JSON can hold, anything JavaScript can, and anything like a response', () => {
    fc.assert(
      fc.property(
        fc.oneof(response, anything, fc.anything()),
        source,
        fc.boolean(),
        (result, from, multi) => {
          try {
            const reply = readReply(result, from);
            expect(reply.status).toBeGreaterThanOrEqual(200);
            expect(reply.status).toBeLessThanOrEqual(599);
            const rendered = renderReply(reply, { source: from, multiValueHeaders: multi });
            const bytes = Buffer.from(rendered.body, rendered.isBase64Encoded ? 'base64' : 'utf8');
            expect(bytes.equals(reply.body)).toBe(true);
          } catch (error) {
            if (!(error instanceof UnstorableReply)) throw error;
          }
        },
      ),
      { numRuns: 10_000 },
    );
  });

  it('no refusal quotes what was returned', () => {
    const secret = 'c4rd-4242';
    const hiding = fc.dictionary(name, fc.constantFrom<unknown>(secret, [secret], { [secret]: secret }, 7), {
      maxKeys: 5,
    });
    fc.assert(
      fc.property(fc.oneof(hiding, fc.constant(secret), fc.constant([secret])), source, (result, from) => {
        try {
          readReply(result, from);
        } catch (error) {
          expect((error as Error).message).not.toContain(secret);
          expect((error as Error).cause).toBeUndefined();
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
