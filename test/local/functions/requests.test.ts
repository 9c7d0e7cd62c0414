import { expect, it } from 'vitest';
import { FunctionUnknown } from '../../../lib/local/functions/errors.ts';
import { EVENT_MAX_BYTES, RESPONSE_MAX_BYTES } from '../../../lib/local/functions/limits.ts';
import { failure, MEETING, returned, stage } from './stage.ts';

it('runs one request at a time in an environment', async () => {
  const code = `
    let running = 0;
    export const handler = async () => {
      running += 1;
      await new Promise((resolve) => setTimeout(resolve, 5));
      const seen = running;
      running -= 1;
      return { seen, pid: process.pid };
    };`;
  const { call } = stage({ f: code }, { maxEnvironments: 1 });
  const answers = await Promise.all(Array.from({ length: 8 }, () => call()));
  expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
  expect(answers[0]).toMatchObject({ seen: 1 });
});

it('runs parallel requests in environments of their own, and then the one that was used last', async () => {
  const { call, pool, folder, reports } = stage({ f: MEETING });
  const count = 3;
  const pids = await Promise.all(Array.from({ length: count }, () => call({ folder, count })));
  expect(new Set(pids).size).toBe(count);
  expect([...pool.pids('f')].sort()).toEqual([...pids].sort());

  const answered = reports.filter(({ message }) => message === 'returned').map(({ fields }) => fields);
  expect(answered).toHaveLength(count);
  const last = await call();
  expect(pids).toContain(last);
  for (let calls = 0; calls < 5; calls += 1) expect(await call()).toBe(last);
  expect(pool.pids('f')).toHaveLength(count);
});

it('gives a handler its event and the context that Lambda gives', async () => {
  const code = `export const handler = async (event, context) =>
    ({ event, context, left: context.getRemainingTimeInMillis() });`;
  const hour = 3_600_000;
  const inAnHour = Date.now() + hour;
  const { pool } = stage({ f: { code, memoryMb: 256, timeoutMs: 1_000 } }, { clock: () => inAnHour });
  const { event, context, left } = returned(await pool.invoke('f', '{"a":"€"}')) as {
    event: unknown;
    context: Record<string, string>;
    left: number;
  };
  expect(event).toEqual({ a: '€' });
  expect(context).toEqual({
    awsRequestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
    invokedFunctionArn: 'arn:aws:lambda:us-east-1:000000000000:function:f',
    functionName: 'f',
    functionVersion: '$LATEST',
    memoryLimitInMB: '256',
    logGroupName: '/aws/lambda/f',
    logStreamName: expect.stringMatching(/^\d{4}\/\d\d\/\d\d\/\[\$LATEST\][0-9a-f]{32}$/),
  });
  // The deadline was set by the pool's clock, an hour ahead: it is what the time that is left is counted to.
  expect(left).toBeGreaterThan(hour / 2);
  expect(left).toBeLessThanOrEqual(hour + 1_000);
});

it.each([
  ['nothing', 'async () => {}', null],
  ['a value', 'async () => ({ statusCode: 204 })', { statusCode: 204 }],
  ['a value without a promise', '() => 7', 7],
  ['an undefined member', 'async () => ({ a: undefined, b: [undefined] })', { b: [null] }],
])('answers %s as JSON', async (_, handler, expected) => {
  const { call } = stage({ f: `export const handler = ${handler};` });
  expect(await call()).toEqual(expected);
});

it.each([
  ['an error', 'throw new TypeError("no such thing")', 'TypeError', 'no such thing'],
  ['a text', 'throw "odd"', 'string', 'odd'],
  ['nothing', 'throw undefined', 'undefined', 'undefined'],
  [
    'an error that cannot be read',
    'throw Object.defineProperty(new Error(), "message", { get() { throw 1 } })',
    'handled',
    'What was thrown cannot be read.',
  ],
  [
    'a result that is no JSON',
    'const a = {}; a.a = a; return a',
    'Runtime.JSONStringifyError',
    'Unable to stringify response body',
  ],
])('tells of a handler that throws %s, and goes on with its environment', async (_, code, type, message) => {
  const body = `async ({ fails }) => { if (!fails) return process.pid; ${code}; }`;
  const { pool, call } = stage({ f: `export const handler = ${body};` });
  const pid = await call();
  expect(failure(await pool.invoke('f', '{"fails":true}'))).toEqual({
    error: 'Unhandled',
    errorType: type,
    errorMessage: message,
    trace: expect.any(Array),
  });
  expect(await call()).toBe(pid);
});

it('carries the largest event and the largest response, and refuses what is a byte larger', async () => {
  const code = `export const handler = async ({ text = '', answer }) => answer ? 'x'.repeat(answer) : text.length;`;
  const { pool, call } = stage({ f: code });
  const frame = '{"text":""}'.length;
  const largest = JSON.stringify({ text: 'x'.repeat(EVENT_MAX_BYTES - frame) });
  expect(returned(await pool.invoke('f', largest))).toBe(EVENT_MAX_BYTES - frame);
  const answer = await pool.invoke('f', JSON.stringify({ answer: RESPONSE_MAX_BYTES - 2 }));
  expect(answer.kind === 'returned' && answer.payload.length).toBe(RESPONSE_MAX_BYTES);

  expect(failure(await pool.invoke('f', largest.replace('x', 'xx'))).errorType).toBe(
    'RequestTooLargeException',
  );
  expect(failure(await pool.invoke('f', JSON.stringify({ answer: RESPONSE_MAX_BYTES - 1 })))).toEqual({
    error: 'Unhandled',
    errorType: 'Function.ResponseSizeTooLarge',
    errorMessage:
      'Response payload size (6291557 bytes) exceeded maximum allowed payload size (6291556 bytes).',
  });
  expect(await call()).toBe(0);
  expect(pool.pids('f')).toHaveLength(1);
});

it('says of a function that there is none which there are', async () => {
  const { pool } = stage({ f: MEETING, g: MEETING });
  const unknown = 'There is no function "h"; the templates have f, g.';
  await expect(pool.invoke('h', '{}')).rejects.toThrow(FunctionUnknown);
  await expect(pool.invoke('h', '{}')).rejects.toThrow(unknown);
  await expect(pool.prewarm(['f', 'h'])).rejects.toThrow(unknown);
  expect(() => pool.invokeLater('h', '{}')).toThrow(unknown);
  expect(() => pool.kill('h')).toThrow(unknown);
  expect(pool.names).toEqual(['f', 'g']);
  expect(pool.pids('f')).toEqual([]);
});

it('does not start with a function whose code is missing', () => {
  expect(() => stage({ f: { code: '', codeDir: '/nowhere/at/all' } })).toThrow(
    'The code of f should be in the folder /nowhere/at/all, and there is none; synthesise the app again.',
  );
});
