import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { failure, isAlive, MEETING, returned, stage, TIMEOUT_MS, temporaryFolder } from './stage.ts';

/** Does what the event says. */
const OBEDIENT = `
  export const handler = async ({ does }) => {
    if (does) console.log('doing ' + does);
    if (does === 'wait') await new Promise((resolve) => setInterval(resolve, 2 ** 30));
    if (does === 'spin') for (;;) {}
    if (does === 'starve') await new Promise(() => {});
    if (does === 'exit') process.exit(3);
    if (does === 'leave') process.exit();
    if (does === 'die') process.kill(process.pid, 'SIGKILL');
    if (does === 'throw later') await new Promise(() => setTimeout(() => { throw new RangeError('out of hand'); }));
    if (does === 'reject') await new Promise(() => setInterval(() => Promise.reject('not held')));
    return process.pid;
  };`;

function obedient(options: Parameters<typeof stage>[1] = {}) {
  const staged = stage({ f: OBEDIENT }, { maxEnvironments: 1, ...options });
  return { ...staged, does: (what: string) => staged.pool.invoke('f', JSON.stringify({ does: what })) };
}

const TIMED_OUT = /^RequestId: [0-9a-f-]{36} Error: Task timed out after 29\.00 seconds$/;

describe('a handler that is out of time', () => {
  it.each(['wait', 'spin'])('is killed and answered as a timeout: %s', async (what) => {
    const { does, call, told, timers } = obedient();
    const pid = await call();
    const late = does(what);
    await told(`doing ${what}`);
    expect(timers.fire(TIMEOUT_MS)).toBe(1);
    expect(failure(await late)).toEqual({
      error: 'Timeout',
      errorType: 'Sandbox.Timedout',
      errorMessage: expect.stringMatching(TIMED_OUT),
    });
    expect(isAlive(Number(pid))).toBe(false);
    expect(await call()).not.toBe(pid);
  });

  it('is killed also when its process was stopped', async () => {
    const { pool, does, call, timers } = obedient();
    const pid = await call();
    expect(pool.kill('f', 'SIGSTOP')).toBe(1);
    const late = does('wait');
    expect(timers.fire(TIMEOUT_MS)).toBe(1);
    expect(failure(await late).error).toBe('Timeout');
    expect(isAlive(Number(pid))).toBe(false);
    await call();
  });

  it('stays a timeout though its answer was on its way, and is dead when that is told', async () => {
    const code = `
      import { writeFileSync } from 'node:fs';
      export const handler = async ({ done }) => {
        if (done) setTimeout(() => writeFileSync(done, ''), 20);
        return process.pid;
      };`;
    const { pool, call, timers, folder } = stage({ f: code });
    const pid = Number(await call());
    const done = `${folder}/done`;
    const late = pool.invoke('f', JSON.stringify({ done }));
    await expect.poll(() => timers.waiting).toContain(TIMEOUT_MS);
    // Nothing is read meanwhile: the answer is in the pipe when the time is over.
    while (!existsSync(done)) spawnSync('sleep', ['0.01']);
    timers.fire(TIMEOUT_MS);
    expect(failure(await late).error).toBe('Timeout');
    expect(isAlive(pid)).toBe(false);
  });

  it('is killed by real time too', async () => {
    const real = { after: (ms: number, act: () => void) => clearTimeout.bind(null, setTimeout(act, ms)) };
    const { pool } = stage({ f: { code: OBEDIENT, timeoutMs: 100 } }, { timers: real });
    const { error, errorMessage } = failure(await pool.invoke('f', '{"does":"wait"}'));
    expect([error, errorMessage]).toEqual(['Timeout', expect.stringContaining('after 0.10 seconds')]);
  });

  it('has the time that its module needed on top', async () => {
    const code = `
      import { existsSync } from 'node:fs';
      console.log('initialising');
      while (!existsSync(process.env.GO)) await new Promise((resolve) => setTimeout(resolve, 5));
      ${OBEDIENT}`;
    const go = `${temporaryFolder()}/go`;
    const { pool, timers, told } = stage(
      { f: { code, environment: { GO: go } } },
      { initMs: 11, waitMs: 22 },
    );
    const answered = pool.invoke('f', '{"does":"wait"}');
    await told('initialising');
    expect(timers.waiting).toEqual([22, 11]);
    writeFileSync(go, '');
    await told('doing wait');
    expect(timers.waiting).toEqual([TIMEOUT_MS]);
    timers.fire(TIMEOUT_MS);
    expect(failure(await answered).error).toBe('Timeout');
  });
});

describe('an environment that dies under a request', () => {
  it.each([
    ['exit', 'Runtime exited with error: exit status 3'],
    ['leave', 'Runtime exited without providing a reason'],
    ['die', 'Runtime exited with error: signal: killed'],
    // Nothing is left that could end its waiting; on Lambda, Node then ends as well.
    ['starve', 'Runtime exited without providing a reason'],
  ])('is answered as a crash, and replaced: %s', async (what, message) => {
    const { does, call } = obedient();
    const pid = await call();
    expect(failure(await does(what))).toEqual({
      error: 'Crash',
      errorType: 'Runtime.ExitError',
      errorMessage: expect.stringMatching(new RegExp(`^RequestId: [0-9a-f-]{36} Error: ${message}$`)),
    });
    expect(await call()).not.toBe(pid);
  });

  it.each([
    ['throw later', 'RangeError', 'out of hand'],
    ['reject', 'Runtime.UnhandledPromiseRejection', 'not held'],
  ])('by an error that nobody catches tells which: %s', async (what, errorType, errorMessage) => {
    const { does, call } = obedient();
    const pid = await call();
    expect(failure(await does(what))).toMatchObject({ error: 'Unhandled', errorType, errorMessage });
    expect(await call()).not.toBe(pid);
  });

  it('because it was killed is answered as a crash, and the next request works', async () => {
    const { pool, does, call, told } = obedient();
    const crashed = does('wait');
    await told('doing wait');
    const [pid] = pool.pids('f');
    expect(pool.kill('f')).toBe(1);
    expect(failure(await crashed).errorMessage).toContain('signal: killed');
    expect(await call()).not.toBe(pid);
    expect(pool.kill('f')).toBe(1);
    expect(pool.kill('f')).toBe(0);
  });
});

describe('an environment that dies while it is idle', () => {
  it('takes no request with it, though nobody has noticed yet', async () => {
    const { call } = obedient();
    const pid = Number(await call());
    process.kill(pid, 'SIGKILL');
    // In the same tick: the pool still takes it for idle, and hands it the request.
    expect(await call()).not.toBe(pid);
  });

  it('was one of several: the request goes to one that lives', async () => {
    const count = 3;
    const { pool, folder } = stage({ f: MEETING });
    const meet = () => pool.invoke('f', JSON.stringify({ folder, count }));
    const pids = (await Promise.all(Array.from({ length: count }, meet))).map(returned);
    for (const pid of pids.slice(1)) process.kill(Number(pid), 'SIGKILL');
    const answers = await Promise.all(Array.from({ length: count }, () => pool.invoke('f', '{}')));
    for (const pid of pids.slice(1)) expect(answers.map(returned)).not.toContain(pid);
  });
});

describe('a module that cannot be loaded', () => {
  it.each([
    ['throws', 'throw new TypeError("no table");', 'TypeError', 'no table'],
    [
      'needs one that is not there',
      'import { createRequire } from "node:module"; createRequire(import.meta.url)("./gone");',
      'Runtime.ImportModuleError',
      'Error: Cannot find module',
    ],
    ['is no JavaScript', 'export const = 1;', 'Runtime.UserCodeSyntaxError', 'SyntaxError: Unexpected token'],
    [
      'exports something else',
      'export const run = 1;',
      'Runtime.HandlerNotFound',
      'index.handler is undefined',
    ],
    ['exports no function', 'export const handler = 1;', 'Runtime.HandlerNotFound', 'is not a function'],
    [
      'has a handler with a callback, which Lambda refuses from Node 24 on',
      'export const handler = (event, context, callback) => callback(null, 1);',
      'Runtime.CallbackHandlerDeprecated',
      'removed support for callback-based function handlers',
    ],
  ])('because it %s is what the request is told', async (_, code, errorType, errorMessage) => {
    const { pool } = stage({ f: code });
    const told = failure(await pool.invoke('f', '{}'));
    expect(told).toMatchObject({ error: 'Unhandled', errorType });
    expect(told.errorMessage).toContain(errorMessage);
  });

  it.each([
    ['index', 'Runtime.MalformedHandlerName'],
    ['../index.handler', 'Runtime.MalformedHandlerName'],
    ['other.handler', 'Runtime.ImportModuleError'],
  ])('because the handler is %s is what the request is told', async (handler, errorType) => {
    const { pool } = stage({ f: { code: OBEDIENT, handler } });
    expect(failure(await pool.invoke('f', '{}')).errorType).toBe(errorType);
  });

  it('is loaded anew for the next request, each time in a new environment', async () => {
    const code = `
      import { appendFileSync, readFileSync } from 'node:fs';
      appendFileSync(process.env.LOG, process.pid + ' ');
      if (readFileSync(process.env.LOG, 'utf8').split(' ').length < 4) throw new Error('not yet');
      export const handler = async () => 'at last';`;
    const log = `${temporaryFolder()}/log`;
    writeFileSync(log, '');
    const { pool, call } = stage({ f: { code, environment: { LOG: log } } });
    for (const tries of [1, 2]) {
      expect(failure(await pool.invoke('f', '{}')).errorMessage).toBe('not yet');
      expect(readFileSync(log, 'utf8').split(' ')).toHaveLength(tries + 1);
    }
    expect(await call()).toBe('at last');
    expect(new Set(readFileSync(log, 'utf8').trim().split(' ')).size).toBe(3);
  });

  it('answers every request that waits for it', async () => {
    const { pool } = stage({ f: 'throw new Error("never");' }, { maxEnvironments: 2 });
    const answers = await Promise.all(Array.from({ length: 5 }, () => pool.invoke('f', '{}')));
    expect(answers.map((answer) => failure(answer).errorMessage)).toEqual(Array(5).fill('never'));
  });

  it('is reported when nobody waits for it', async () => {
    const { pool, told } = stage({ f: 'throw new Error("never");' });
    await pool.prewarm(['f']);
    expect(await told('could not be started')).toMatchObject({
      level: 'error',
      source: 'f',
      kind: 'platform',
      message: 'could not be started: Error: never',
    });
    expect(pool.pids('f')).toHaveLength(0);
  });

  it('because it exits is a crash', async () => {
    const { pool } = stage({ f: 'process.exit(9); export const handler = async () => 1;' });
    expect(failure(await pool.invoke('f', '{}'))).toMatchObject({
      error: 'Crash',
      errorType: 'Runtime.ExitError',
      errorMessage: expect.stringContaining('exit status 9'),
    });
  });

  it('in the time that Lambda gives is killed', async () => {
    const code =
      'console.log("initialising"); await new Promise((r) => setInterval(r, 2 ** 30)); export const handler = async () => 1;';
    const { pool, told, timers } = stage({ f: code });
    const late = pool.invoke('f', '{}');
    await told('initialising');
    const pids = pool.pids('f');
    expect(timers.fire(10_000)).toBe(1);
    expect(failure(await late)).toMatchObject({
      error: 'Timeout',
      errorMessage: expect.stringContaining('10.00 seconds'),
    });
    expect(pids).toHaveLength(1);
  });

  it('because it was killed meanwhile is a crash, and the next request works', async () => {
    const code = `console.log('initialising'); ${OBEDIENT}`;
    const { pool, told, call } = stage({ f: code });
    const crashed = pool.invoke('f', '{}');
    expect(pool.kill('f')).toBe(1);
    expect(failure(await crashed)).toMatchObject({
      error: 'Crash',
      errorMessage: expect.stringContaining('signal: killed'),
    });
    await call();
    await told('initialising');
  });

  it('because nobody could say where its endpoints are is what the request is told', async () => {
    const { pool } = stage({ f: OBEDIENT }, { endpoints: new RangeError('not listening yet') });
    const answers = await Promise.all([pool.invoke('f', '{}'), pool.invoke('f', '{}')]);
    expect(answers.map(failure)).toMatchObject(Array(2).fill({ errorMessage: 'not listening yet' }));
  });
});
