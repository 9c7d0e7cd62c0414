import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { InvalidArgument, RecordUnreadable, StoreRefused, StoreUnavailable } from '../../lib/core/errors.ts';
import { defaultPolicy, expiryAfter } from '../../lib/core/policy.ts';
import type { LedgerRecord } from '../../lib/core/record.ts';
import { scopePk } from '../../lib/core/scope.ts';
import { NotExecuted, WritesRefused } from '../../lib/effects/errors.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import type { TransactWrite } from '../../lib/ledger/table.ts';
import {
  KeyExpired,
  KeyReused,
  OperationInProgress,
  OperationNotExecuted,
  OperationUnavailable,
  OutcomeUnknown,
  ResultNotJson,
} from '../../lib/middleware/operation-errors.ts';
import { type CallContext, type ProtectOptions, protect } from '../../lib/middleware/protect.ts';
import type { LogEntry } from '../../lib/observe/log.ts';
import type { Sample } from '../../lib/observe/metrics.ts';
import { useTable } from '../support/table.ts';

interface Payment {
  readonly order: string;
  readonly customer?: string;
  readonly amount?: number;
}

const opaque = { effects: 'opaque', onUnknown: 'park' } as const;
const transactional = { effects: 'transactional' } as const;

const refOf = ({ order, customer = 'customer-1' }: Payment, operation = 'charge') =>
  scopePk({ tenant: customer, operation, key: order });

/** A protected function that keeps what it did, said and measured. */
function stage<R, W = unknown>(
  fn: (input: Payment, context: CallContext<W>, run: number) => R | Promise<R>,
  options: Partial<ProtectOptions<Payment, R, W>> = transactional,
) {
  const ledger = (options.ledger ?? memoryLedger<W>()) as Ledger<W>;
  const logged: LogEntry[] = [];
  const measured: Sample[] = [];
  const ran: Payment[] = [];
  const call = protect<Payment, R, W>(
    async (input, context) => {
      ran.push(input);
      return fn(input, context, ran.length);
    },
    {
      operation: 'charge',
      tenant: ({ customer = 'customer-1' }) => customer,
      key: ({ order }) => order,
      log: (entry) => logged.push(entry),
      metrics: (sample) => measured.push(sample),
      ...options,
      ledger,
    },
  );
  const read = (input: Payment): Promise<LedgerRecord | undefined> => ledger.read(refOf(input));
  return { call, ran, logged, measured, ledger, read };
}

function payment(more: Partial<Payment> = {}): Payment {
  return { order: randomUUID(), amount: 500, ...more };
}

/** What a promise was rejected with, typed. */
async function errorOf<E extends Error>(
  promise: Promise<unknown>,
  type: abstract new (...args: never[]) => E,
) {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(type);
  return error as E;
}

function gate() {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

afterEach(() => {
  vi.useRealTimers();
});

describe('a protected call', () => {
  it('runs once per key, and every caller gets the first result', async () => {
    const { call, ran } = stage((_, __, run) => ({ receipt: run }));
    const input = payment();
    expect([await call(input), await call(input), await call(input)]).toEqual([
      { receipt: 1 },
      { receipt: 1 },
      { receipt: 1 },
    ]);
    expect(ran).toHaveLength(1);
  });

  it('gives every caller a copy of its own: no mutation reaches another', async () => {
    const kept = { lines: [{ amount: 500 }] };
    const { call } = stage(() => kept);
    const input = payment();
    const first = await call(input);
    const second = await call(input);
    for (const { lines } of [kept, first, second]) lines.push({ amount: -1 });
    expect(await call(input)).toEqual({ lines: [{ amount: 500 }] });
  });

  it('runs one of 50 concurrent duplicates, and gives all of them its result if they wait', async () => {
    const { call, ran } = stage((_, __, run) => run, { ...transactional, inFlight: 'wait' });
    const input = payment();
    expect(new Set(await Promise.all(Array.from({ length: 50 }, () => call(input))))).toEqual(new Set([1]));
    expect(ran).toHaveLength(1);
  });

  it('stays with the key it was called with, even if the function changes its input', async () => {
    const { call, ran } = stage((input) => {
      Object.assign(input, { order: 'another', amount: 0 });
      return 'paid';
    });
    const input = payment();
    await call({ ...input });
    expect(await call({ ...input })).toBe('paid');
    expect(ran).toHaveLength(1);
  });

  it('keeps tenants and operations apart', async () => {
    const ledger = memoryLedger();
    const charge = stage(() => 'charged', { ...transactional, ledger });
    const refund = stage(() => 'refunded', { ...transactional, ledger, operation: 'refund' });
    const input = payment();
    expect(await charge.call(input)).toBe('charged');
    expect(await refund.call(input)).toBe('refunded');
    expect(await charge.call({ ...input, customer: 'customer-2' })).toBe('charged');
    expect(charge.ran).toHaveLength(2);
  });

  const nothing: readonly unknown[] = ['', ' ', undefined, null, 0, Number.NaN, {}, Promise.resolve('key')];
  const templates = ['undefined', 'null', 'NaN', '[object Object]', '[object Promise]'];
  for (const name of ['key', 'tenant'] as const) {
    it(`without a ${name} does not run: nobody shares a constant`, async () => {
      for (const value of [...nothing, ...templates]) {
        const { call, ran } = stage(() => 'paid', { ...transactional, [name]: () => value });
        const { message } = await errorOf(call(payment()), InvalidArgument);
        expect(message).toContain(`the ${name} selector returned`);
        expect(ran).toEqual([]);
      }
    });
  }

  it('with a key over 255 characters does not run, and does not repeat the key', async () => {
    const { call, ran } = stage(() => 'paid');
    const { message } = await errorOf(call(payment({ order: 'k'.repeat(256) })), InvalidArgument);
    expect(message).toMatch(/the key has 256 characters; expected at most 255/);
    expect(message).not.toContain('kkk');
    expect(ran).toEqual([]);
    expect(await call(payment({ order: 'k'.repeat(255) }))).toBe('paid');
  });

  it('selects key and tenant once', async () => {
    const key = vi.fn(({ order }: Payment) => order);
    const tenant = vi.fn(() => 'customer-1');
    const { call } = stage(() => 'paid', { ...transactional, key, tenant });
    await call(payment());
    expect([key.mock.calls.length, tenant.mock.calls.length]).toEqual([1, 1]);
  });
});

describe('the same key', () => {
  it('with another input is KeyReused, and nothing runs', async () => {
    const { call, ran } = stage(() => 'paid');
    const input = payment();
    await call(input);
    const error = await errorOf(call({ ...input, amount: 900 }), KeyReused);
    expect(error).toMatchObject({ name: 'KeyReused', remedy: 'fix-code', operationRef: refOf(input) });
    expect(error.message).not.toContain(input.order);
    expect(ran).toHaveLength(1);
  });

  it('tells apart numbers that differ in the last digit of a double', async () => {
    const { call } = stage(() => 'paid');
    const input = payment({ amount: 0.3 });
    await call(input);
    await errorOf(call({ ...input, amount: 0.1 + 0.2 }), KeyReused);
  });

  it('with its members in another order, or with undefined ones, is the same call', async () => {
    const { call, ran } = stage(() => 'paid');
    await call({ order: 'one', amount: 5, customer: 'c' });
    await call({ customer: 'c', amount: 5, order: 'one', note: undefined } as Payment);
    expect(ran).toHaveLength(1);
  });

  it('is compared by the chosen part alone', async () => {
    const { call, ran } = stage(() => 'paid', {
      ...transactional,
      fingerprint: ({ amount }) => ({ amount }),
    });
    const input = { ...payment(), trace: new Map([['a', 1]]) };
    await call(input);
    await call({ ...input, trace: new Map() } as Payment);
    await errorOf(call({ ...input, amount: 1 }), KeyReused);
    expect(ran).toHaveLength(1);
  });

  it('is not taken for another where JSON would flatten the input: such a call does not run', async () => {
    for (const [value, says] of [
      [new Map([['amount', 5]]), /input\.more is an instance of Map/],
      [new Date(0), /input\.more is an instance of Date/],
      [Number.NaN, /input\.more is NaN/],
      [5n, /input\.more is a bigint/],
    ] as const) {
      const { call, ran, read } = stage(() => 'paid');
      const input = { ...payment(), more: value } as Payment;
      const { message } = await errorOf(call(input), InvalidArgument);
      expect(message).toMatch(says);
      expect(message).toContain('fingerprint: (input) =>');
      expect(ran).toEqual([]);
      expect(await read(input)).toBeUndefined();
    }
  });

  it('is not compared by a part that is not there', async () => {
    const { call, ran } = stage(() => 'paid', { ...transactional, fingerprint: () => undefined });
    expect((await errorOf(call(payment()), InvalidArgument)).message).toMatch(
      /fingerprint returned undefined/,
    );
    expect(ran).toEqual([]);
  });
});

describe('a result', () => {
  const shared = { currency: 'EUR' };
  const results: readonly unknown[] = [
    ...[null, false, 0, -1.5, 1e21, 5e-324, '', 'text', [], {}, [[]], [null]],
    { unicode: 'naïve 日本 🎉', lone: '\ud800', control: '\u0000\u2028', 'a b': 1 },
    JSON.parse('{"__proto__": {"a": 1}, "constructor": 2, "\\u0061\\"": 3}'),
    { one: shared, two: shared },
    Object.assign(Object.create(null), { bare: true }),
    'x'.repeat(5 * 1024 * 1024),
  ];
  for (const result of results) {
    it(`comes back as it was: ${(JSON.stringify(result) ?? '').slice(0, 60)}`, async () => {
      const { call, ran } = stage(() => result);
      const input = payment();
      const copies = [await call(input), await call(input)].map((copy) => JSON.stringify(copy));
      expect(copies).toEqual([JSON.stringify(result), JSON.stringify(result)]);
      expect(ran).toHaveLength(1);
    });
  }

  it('may be undefined, which is neither null nor a missing result', async () => {
    const { call, ran, read } = stage(() => undefined);
    const input = payment();
    expect([await call(input), await call(input)]).toEqual([undefined, undefined]);
    expect(ran).toHaveLength(1);
    expect(await read(input)).toMatchObject({ status: 'completed', response: { status: 204, length: 0 } });
  });

  it('is stored as a JSON reply', async () => {
    const { call, read } = stage(() => ({ receipt: 7 }));
    const input = payment();
    await call(input);
    expect(await read(input)).toMatchObject({
      status: 'completed',
      response: { status: 200, headers: [['content-type', 'application/json']], length: 13 },
    });
  });

  it('looks the same to the first caller as to all others, where JSON leaves something out', async () => {
    const { call } = stage(() => ({ note: undefined, zero: -0 }));
    const input = payment();
    for (const copy of [await call(input), await call(input)]) {
      expect(Object.keys(copy)).toEqual(['zero']);
      expect(Object.is(copy.zero, 0)).toBe(true);
    }
  });

  class Money {
    readonly amount = 5;
  }
  const cyclic: { self?: unknown } = {};
  cyclic.self = { list: [cyclic] };
  let deep: unknown = 1;
  for (let level = 0; level < 100_000; level += 1) deep = [deep];
  const refused: readonly (readonly [kind: string, result: unknown, says: RegExp])[] = [
    ['a Date', { paid: { at: new Date(0) } }, /result\.paid\.at is an instance of Date/],
    ['NaN', [1, Number.NaN], /result\[1\] is NaN/],
    ['Infinity', -Infinity, /result is -Infinity/],
    ['a bigint', { 'the amount': 5n }, /result\["the amount"\] is a bigint/],
    ['a function', { send() {} }, /result\.send is a function/],
    ['a symbol', Symbol('paid'), /result is a symbol/],
    ['undefined in a list', [undefined], /result\[0\] is undefined/],
    ['a hole in a list', new Array(2), /result\[0\] is undefined/],
    ['a cycle', cyclic, /result\.self\.list\[0\] is cyclic/],
    ['a Map', { by: new Map() }, /result\.by is an instance of Map/],
    ['bytes', Buffer.from('x'), /result is an instance of Buffer/],
    ['an Error', new RangeError('no'), /result is an instance of RangeError/],
    ['an instance of a class', [new Money()], /result\[0\] is an instance of Money/],
    ['an instance of a class without a name', new (class {})(), /result is an instance of a class/],
    ['a list of its own class', new (class Lines extends Array {})(), /result is an instance of Lines/],
    ['a list with a member', Object.assign([1], { total: 1 }), /result\.total is a member of an array/],
    ['a member named by a symbol', { [Symbol('hidden')]: 1 }, /result has a member whose name is a symbol/],
    ['what is nested too deep', deep, /is nested more than 256 levels deep/],
    ['more than 6 MB', 'é'.repeat(3 * 1024 * 1024), /result has 6291458 bytes as JSON; at most 6291456/],
  ];
  for (const [kind, result, says] of refused) {
    it(`that is not JSON (${kind}) is refused with the place; a transactional call was not, an opaque one is unknown`, async () => {
      const input = payment();
      const released = stage((_, __, run) => (run === 1 ? result : 'paid'), transactional);
      const error = await errorOf(released.call(input), ResultNotJson);
      expect(error.message).toMatch(says);
      expect(error).toMatchObject({ remedy: 'fix-code', operationRef: refOf(input) });
      expect((await released.read(input))?.status).toBe('failed_retryable');
      expect(await released.call(input)).toBe('paid');

      const unknown = stage(() => result, opaque);
      expect((await errorOf(unknown.call(input), ResultNotJson)).message).toMatch(says);
      await errorOf(unknown.call(input), OutcomeUnknown);
      expect(unknown.ran).toHaveLength(1);
    });
  }

  it('that somebody else in the process makes JSON change is refused', async () => {
    // As old libraries do, for themselves and for everybody.
    Object.defineProperty(Array.prototype, 'toJSON', { value: () => 'a list', configurable: true });
    try {
      const { call } = stage(() => ({ lines: [1] }));
      expect((await errorOf(call(payment()), ResultNotJson)).message).toMatch(
        /result is not the same after JSON/,
      );
    } finally {
      Reflect.deleteProperty(Array.prototype, 'toJSON');
    }
  });

  it('that is not JSON takes the writes of its attempt with it', async () => {
    const ledger = memoryLedger<string>();
    const { call } = stage<unknown, string>(
      (_, { once }) => {
        once.write('a row');
        return new Date();
      },
      { ...transactional, ledger },
    );
    await errorOf(call(payment()), ResultNotJson);
    expect(ledger.written).toEqual([]);
  });

  it('that somebody else settled with a failure is not returned as one of ours, and not run again', async () => {
    for (const [status, body] of [
      [402, '{"declined":true}'],
      [200, 'not JSON'],
    ] as const) {
      const { call, ran, ledger, read } = stage(() => Promise.reject(new Error('timeout')), opaque);
      const input = payment();
      await errorOf(call(input), Error);
      const record = await read(input);
      if (record?.status !== 'unknown') throw new Error('not unknown');
      const reply = { status, headers: [], body: Buffer.from(body), base64: false };
      const now = Date.now();
      const expiry = expiryAfter(defaultPolicy, now);
      await ledger.settle(record, { to: 'completed', reply, now, ...expiry });
      expect((await errorOf(call(input), RecordUnreadable)).message).toContain(refOf(input));
      expect(ran).toHaveLength(1);
    }
  });
});

describe('a call that may not run', () => {
  it('because another one is running says when to come back', async () => {
    const { open, opened } = gate();
    const { call, ran } = stage(() => opened);
    const input = payment();
    const first = call(input);
    const error = await errorOf(call(input), OperationInProgress);
    expect(error).toMatchObject({
      remedy: 'retry-same-key',
      retryAfterMs: 1_000,
      operationRef: refOf(input),
    });
    open();
    await first;
    await call(input);
    expect(ran).toHaveLength(1);
  });

  it('because its outcome is unknown says whether waiting helps', async () => {
    const { call, ran, ledger, read } = stage(() => Promise.reject(new Error('timeout')), opaque);
    const input = payment();
    await expect(call(input)).rejects.toThrow('timeout');
    const open = await errorOf(call(input), OutcomeUnknown);
    expect(open).toMatchObject({ parked: false, remedy: 'retry-same-key', operationRef: refOf(input) });
    expect(open.retryAfterMs).toBeGreaterThan(1_000);
    const record = await read(input);
    if (record?.status !== 'unknown') throw new Error('not unknown');
    await ledger.watch(record, { ...record.due, parkedAt: Date.now() });
    expect(await errorOf(call(input), OutcomeUnknown)).toMatchObject({
      parked: true,
      remedy: 'inspect-record',
      retryAfterMs: undefined,
    });
    expect(ran).toHaveLength(1);
  });

  it('because its result is no longer kept says so, or runs as new, as was chosen', async () => {
    for (const afterExpiry of ['gone', 'execute'] as const) {
      let now = 1_900_000_000_000;
      const clock = () => now;
      const ledger = memoryLedger({ clock });
      const { call, ran } = stage(() => 'paid', { ...transactional, ledger, clock, afterExpiry });
      const input = payment();
      await call(input);
      now += 25 * 3_600_000;
      if (afterExpiry === 'execute') expect(await call(input)).toBe('paid');
      else
        expect(await errorOf(call(input), KeyExpired)).toMatchObject({
          remedy: 'inspect-record',
          operationRef: refOf(input),
        });
      expect(ran).toHaveLength(afterExpiry === 'execute' ? 2 : 1);
    }
  });

  it('because its outcome is still being delivered is in progress', async () => {
    const { call, ran, ledger, read } = stage(async (input) => {
      // As an HTTP handler does that shares the operation's name, and defers.
      const mine = await read(input);
      if (mine?.status !== 'in_progress') throw new Error('not in progress');
      const reply = { status: 202, headers: [], body: Buffer.from('"soon"'), base64: false };
      await ledger.accept(mine, { now: Date.now(), reply, outbox: [{ type: 'charge', payload: '{}' }] });
      return 'paid';
    });
    const input = payment();
    for (let time = 0; time < 2; time += 1) {
      expect((await errorOf(call(input), OperationInProgress)).operationRef).toBe(refOf(input));
    }
    expect(ran).toHaveLength(1);
  });
});

describe('when the store does not answer', () => {
  const silence = () => Promise.reject(new StoreUnavailable('silence'));

  it('nothing runs, and the caller is to come back with the same key', async () => {
    const { call, ran, measured } = stage(() => 'paid', {
      ...transactional,
      ledger: { ...memoryLedger(), reserve: silence },
    });
    const input = payment();
    const error = await errorOf(call(input), StoreUnavailable);
    expect(error).toBeInstanceOf(OperationUnavailable);
    expect(error).toMatchObject({
      remedy: 'retry-same-key',
      operationRef: refOf(input),
      retryAfterMs: 1_000,
    });
    expect(ran).toEqual([]);
    expect(measured.at(-1)?.metrics['store.error.count']).toBe(1);
  });

  it('or refuses, nothing runs, and the refusal keeps its own remedy', async () => {
    const refusal = new StoreRefused('no such table');
    const { call, ran } = stage(() => 'paid', {
      ...transactional,
      ledger: { ...memoryLedger(), reserve: () => Promise.reject(refusal) },
    });
    expect(await errorOf(call(payment()), StoreRefused)).toBe(refusal);
    expect(ran).toEqual([]);
  });

  for (const options of [transactional, opaque]) {
    it(`after the function has succeeded, nobody is told what the record may not say (${options.effects})`, async () => {
      const ledger = memoryLedger();
      const { call, ran } = stage(() => 'paid', { ...options, ledger: { ...ledger, complete: silence } });
      const input = payment();
      await errorOf(call(input), OperationUnavailable);
      await errorOf(call(input), OperationInProgress);
      expect(ran).toHaveLength(1);
    });

    it(`after it has taken the result, the record is asked and answers (${options.effects})`, async () => {
      const ledger = memoryLedger();
      const complete: typeof ledger.complete = async (...args) => {
        await ledger.complete(...args);
        return silence();
      };
      const { call } = stage(() => 'paid', { ...options, ledger: { ...ledger, complete } });
      expect(await call(payment())).toBe('paid');
    });
  }

  it('or refuses, the failure of the function is not masked', async () => {
    for (const failure of [new StoreUnavailable('silence'), new StoreRefused('no permission')]) {
      const ledger = { ...memoryLedger(), release: () => Promise.reject(failure) };
      const { call, logged } = stage(() => Promise.reject(new Error('card declined')), {
        ...transactional,
        ledger,
      });
      await expect(call(payment())).rejects.toThrow('card declined');
      expect(logged.at(-1)).toMatchObject({ decision: 'open' });
    }
  });

  it('a result whose completion is refused is nobody to claim: the record stays as it is', async () => {
    const refusal = new StoreRefused('item too large');
    const ledger = memoryLedger();
    const broken = { ...ledger, complete: () => Promise.reject(refusal) };
    for (const options of [transactional, opaque]) {
      const { call, read } = stage(() => 'paid', { ...options, ledger: broken });
      const input = payment();
      expect(await errorOf(call(input), StoreRefused)).toBe(refusal);
      expect((await read(input))?.status).toBe('in_progress');
    }
  });
});

describe('a function', () => {
  it('commits what it writes with its result, once', async () => {
    const ledger = memoryLedger<string>();
    const { call } = stage<string, string>(
      (_, { once }) => {
        once.write('a row');
        return once.operationId;
      },
      { ...transactional, ledger },
    );
    const input = payment();
    expect(await call(input)).toBe(await call(input));
    expect(ledger.written).toEqual(['a row']);
  });

  it('that writes after it has ended is told, since that would be lost', async () => {
    let late = (): void => {};
    const { call } = stage((_, { once }) => {
      late = () => once.write('a row');
    });
    await call(payment());
    expect(() => late()).toThrow(/once\.write came after the handler had ended/);
  });

  it('gets its own refused write to handle, and the key may be retried', async () => {
    const refuse = vi.fn((writes: readonly string[]) =>
      writes.map((write, index) => ({ write, index, code: 'ConditionalCheckFailed', message: '', item: {} })),
    );
    const commit = (writes: readonly string[]) => (refuse.mock.calls.length > 0 ? undefined : refuse(writes));
    const ledger = memoryLedger<string>({ commit });
    const { call } = stage<string, string>(
      (_, { once }) => {
        once.write('a row');
        return 'paid';
      },
      { ...transactional, ledger },
    );
    const input = payment();
    const { reasons } = await errorOf(call(input), WritesRefused);
    expect(reasons).toMatchObject([{ write: 'a row', code: 'ConditionalCheckFailed' }]);
    expect(await call(input)).toBe('paid');
  });

  it('that throws may run again if it is transactional, and is unknown if it is opaque', async () => {
    const fails = (_: Payment, __: unknown, run: number) => {
      if (run === 1) throw new Error('card declined');
      return 'paid';
    };
    const input = payment();
    const again = stage(fails, transactional);
    await expect(again.call(input)).rejects.toThrow('card declined');
    expect(await again.call(input)).toBe('paid');
    const never = stage(fails, opaque);
    await expect(never.call(input)).rejects.toThrow('card declined');
    await errorOf(never.call(input), OutcomeUnknown);
    expect(never.ran).toHaveLength(1);
  });

  it('that throws NotExecuted may run again, even if it is opaque', async () => {
    const { call } = stage((_, __, run) => {
      if (run === 1) throw new NotExecuted('the provider was never called');
      return 'paid';
    }, opaque);
    const input = payment();
    const error = await errorOf(call(input), OperationNotExecuted);
    expect(error).toMatchObject({
      message: 'the provider was never called',
      remedy: 'retry-same-key',
      operationRef: refOf(input),
    });
    expect(await call(input)).toBe('paid');
  });

  it('that throws NotExecuted speaks for itself, not for the protected function that called it', async () => {
    const refused = { ...memoryLedger(), release: () => Promise.reject(new StoreRefused('no permission')) };
    for (const ledger of [memoryLedger(), refused]) {
      const inner = stage(() => Promise.reject(new NotExecuted('no stock')), { ...opaque, ledger });
      const outer = stage(async (input) => {
        // Here the outer one has charged a card.
        await inner.call(input);
      }, opaque);
      const input = payment();
      await expect(outer.call(input)).rejects.toThrow('no stock');
      await errorOf(outer.call(input), OutcomeUnknown);
      expect(outer.ran).toHaveLength(1);
    }
  });

  it('may not write through once if it is opaque, and may not defer at all', async () => {
    const writes = stage((_, { once }) => once.write('a row'), opaque);
    await expect(writes.call(payment())).rejects.toThrow(/refused with effects: 'opaque'/);
    const defers = stage((_, { once }) => (once as unknown as { defer(): void }).defer());
    await expect(defers.call(payment())).rejects.toThrow(/once\.defer\(\) answers an HTTP request early/);
  });

  it('whose key another attempt completed returns that result, not its own', async () => {
    let now = 1_900_000_000_000;
    const clock = () => now;
    const { open, opened } = gate();
    const { call, ran, measured } = stage(
      async (_, __, run) => {
        if (run === 1) await opened;
        return `attempt ${run}`;
      },
      { ...transactional, clock, ledger: memoryLedger({ clock }) },
    );
    const input = payment();
    const late = call(input);
    while (ran.length === 0) await Promise.resolve();
    now += 60_000;
    expect(await call(input)).toBe('attempt 2');
    open();
    expect(await late).toBe('attempt 2');
    expect(measured.at(-1)?.metrics['fenced']).toBe(1);
  });
});

describe('the deadline', () => {
  it('with under a second left refuses to start, and zero is no time rather than no limit', async () => {
    const clock = () => 1_900_000_000_000;
    const withLeft = (leftMs: number) =>
      stage(() => 'paid', {
        ...transactional,
        clock,
        ledger: memoryLedger({ clock }),
        remaining: () => leftMs,
      });
    for (const leftMs of [999, 1, 0, -5]) {
      const { call, ran, read } = withLeft(leftMs);
      const input = payment();
      const error = await errorOf(call(input), StoreUnavailable);
      expect(error).toMatchObject({ operationRef: refOf(input), retryAfterMs: 1_000 });
      expect(ran).toEqual([]);
      expect(await read(input)).toBeUndefined();
    }
    expect(await withLeft(1_000).call(payment())).toBe('paid');
  });

  it('has to be a time: a call without one would hold its key for ever', async () => {
    for (const left of [Number.NaN, Number.POSITIVE_INFINITY, 25 * 3_600_000, undefined, '5000']) {
      const { call, ran } = stage(() => 'paid', { ...transactional, remaining: () => left as number });
      await errorOf(call(payment()), InvalidArgument);
      expect(ran).toEqual([]);
    }
  });

  it('is the end of the lease, plus its margin', async () => {
    for (const [options, ms] of [
      [{ deadlineMs: 3_000 }, 3_000],
      [{ remaining: () => 7_000 }, 7_000],
      [{}, 29_000],
    ] as const) {
      const now = 1_900_000_000_000;
      const clock = () => now;
      let leaseUntil = 0;
      const { call, read } = stage(
        async (input) => {
          const record = await read(input);
          leaseUntil = record?.status === 'in_progress' ? record.leaseUntil : 0;
        },
        { ...transactional, clock, ledger: memoryLedger({ clock }), ...options },
      );
      await call(payment());
      expect(leaseUntil).toBe(now + ms + 5_000);
    }
  });

  it('that came near while the key was claimed leaves the function unstarted and the key free', async () => {
    let now = 1_900_000_000_000;
    const clock = () => now;
    for (const options of [transactional, opaque]) {
      const ledger = memoryLedger({ clock });
      const reserve: typeof ledger.reserve = async (...args) => {
        const reserved = await ledger.reserve(...args);
        now += 9_500; // The store was slow.
        return reserved;
      };
      const { call, ran, read } = stage(() => 'paid', {
        ...options,
        clock,
        deadlineMs: 10_000,
        ledger: { ...ledger, reserve },
      });
      const input = payment();
      await errorOf(call(input), OperationUnavailable);
      expect(ran).toEqual([]);
      expect((await read(input))?.status).toBe('failed_retryable');
    }
  });

  it('aborts the signal in time; an opaque call is unknown from then on, unless it still finishes', async () => {
    vi.useFakeTimers();
    const { open, opened } = gate();
    let signal: AbortSignal | undefined;
    const { call, read } = stage(
      async (_, { once }) => {
        signal = once.signal;
        await opened;
        return 'just in time';
      },
      { ...opaque, deadlineMs: 10_000 },
    );
    const input = payment();
    const running = call(input);
    await vi.advanceTimersByTimeAsync(9_249);
    expect(signal?.aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(signal?.aborted).toBe(true);
    await vi.advanceTimersByTimeAsync(249);
    expect((await read(input))?.status, 'it may stop, and say so').toBe('in_progress');
    await vi.advanceTimersByTimeAsync(1);
    expect((await read(input))?.status).toBe('unknown');
    open();
    expect(await running).toBe('just in time');
    expect(await call(input)).toBe('just in time');
  });

  it('aborts the signal of a transactional call, which stays in progress', async () => {
    vi.useFakeTimers();
    const { call, read } = stage(
      (_, { once }) =>
        new Promise((_resolve, reject) => {
          once.signal.addEventListener('abort', () => reject(new Error('stopped')));
        }),
      { ...transactional, deadlineMs: 2_000 },
    );
    const input = payment();
    const running = expect(call(input)).rejects.toThrow('stopped');
    await vi.advanceTimersByTimeAsync(1_500);
    await running;
    expect((await read(input))?.status).toBe('failed_retryable');
  });

  it('stops being watched when the function has ended', async () => {
    vi.useFakeTimers();
    const { call } = stage(() => 'paid', opaque);
    await call(payment());
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('options', () => {
  const sound = {
    ledger: memoryLedger(),
    operation: 'charge',
    tenant: () => 'customer-1',
    key: () => 'order-1',
    ...transactional,
  };
  const make = (options: object, fn: unknown = async () => 'paid') =>
    protect(fn as () => Promise<string>, { ...sound, ...options } as ProtectOptions<unknown, string>);

  const wrong: readonly (readonly [options: object, says: RegExp])[] = [
    [{ ledger: undefined }, /protect\(\) needs ledger, for example ledger: dynamoDbLedger/],
    [{ ledger: null }, /protect\(\) needs ledger/],
    [{ operation: undefined }, /protect\(\) needs operation, for example operation: 'charge'/],
    [{ operation: ' ' }, /protect\(\) needs operation/],
    [{ operation: 'WEBHOOK bank' }, /operation is "WEBHOOK bank"; expected a name that does not begin/],
    [{ tenant: 'customer-1' }, /protect\(\) needs tenant/],
    [{ key: undefined }, /protect\(\) needs key, for example key: \(input\) => input.orderId/],
    [{ keys: () => 'a' }, /protect\(\) has no option keys\. Did you mean key\?/],
    [{ required: false }, /has no option required/],
    [{ validate: () => [] }, /has no option validate/],
    [{ concurrency: 1 }, /has no option concurrency/],
    [{ effects: undefined }, /protect\(\) is opaque.*or write onUnknown: 'park'/],
    [{ effects: 'steps', complete: 'auto' }, /protect\(\) has no option complete/],
    [{ inFlight: 'accept' }, /inFlight: 'accept' is an HTTP 202; write 'reject' or 'wait'/],
    [{ inFlight: 'queue' }, /inFlight is "queue"/],
    [{ waitMs: 5 }, /waitMs needs inFlight: 'wait'/],
    [{ goneSeconds: 5 }, /goneSeconds needs afterExpiry: 'gone'/],
    [{ retentionSeconds: 60 }, /retentionSeconds is 60; expected a whole number of at least 3600/],
    [{ deadlineMs: 999 }, /deadlineMs is 999; expected milliseconds from 1000 to 86400000/],
    [{ deadlineMs: Number.NaN }, /deadlineMs is NaN/],
    [{ deadlineMs: 2 ** 31 }, /deadlineMs is 2147483648/],
    [{ deadlineMs: 5_000, remaining: () => 5_000 }, /deadlineMs or remaining, not both/],
    [{ remaining: 5_000 }, /remaining is a number; expected a function/],
    [{ fingerprint: 'amount' }, /fingerprint is "amount"; expected a function/],
    [{ clock: 5 }, /clock is 5; expected a function/],
  ];
  for (const [options, says] of wrong) {
    it(`that are wrong fail at construction, saying what to write: ${Object.keys(options)} ${says}`, () => {
      expect(() => make(options)).toThrow(InvalidArgument);
      expect(() => make(options)).toThrow(says);
    });
  }

  it('that are no options fail at construction', () => {
    for (const options of [undefined, null, [], 'charge']) {
      expect(() => protect(async () => 'paid', options as never)).toThrow(
        /protect\(\) takes an object of options; received/,
      );
    }
  });

  it('without a function to protect fail at construction', () => {
    expect(() => make({}, { handler: 1 })).toThrow(/takes an async function first; received an object/);
  });

  it('may make the retention depend on the result', async () => {
    const { call, read } = stage((_, __, run) => ({ run, days: 2 }), {
      ...transactional,
      retentionSeconds: ({ days }) => days * 86_400,
    });
    const input = payment();
    await call(input);
    const record = await read(input);
    if (record?.status !== 'completed') throw new Error('not completed');
    expect(record.expiresAt - record.completedAt).toBe(2 * 86_400_000);
  });

  it('that give no valid retention for a result cost nobody the result: the default is kept, and it is told', async () => {
    const nonsense = () => {
      throw new Error('no idea');
    };
    for (const retentionSeconds of [() => 5, () => Date.now(), () => Number.NaN, nonsense]) {
      const { call, read, logged } = stage(() => 'paid', { ...opaque, retentionSeconds });
      const input = payment();
      expect(await call(input)).toBe('paid');
      const record = await read(input);
      if (record?.status !== 'completed') throw new Error(`the record is ${record?.status}`);
      expect(record.expiresAt - record.completedAt).toBe(86_400_000);
      expect(logged).toContainEqual(
        expect.objectContaining({ decision: 'retention_refused', level: 'error' }),
      );
    }
  });
});

describe('what is observed', () => {
  it('tells each decision in one line and one sample, never with the key, the input or the result', async () => {
    const { call, logged, measured } = stage((_, __, run) => `receipt-${run}`);
    const input = payment({ order: `very-secret-${randomUUID()}`, amount: 424242 });
    await call(input);
    await call(input);
    await call({ ...input, amount: 1 }).catch(() => undefined);
    expect(logged.map(({ level, decision }) => `${level} ${decision}`)).toEqual([
      'info created',
      'info completed',
      'info replay',
      'warn misuse',
    ]);
    expect(measured.flatMap(({ metrics }) => Object.keys(metrics))).toEqual([
      'reserve.created.count',
      'reserve.latency_ms',
      'execute.latency_ms',
      'complete.latency_ms',
      'reserve.replay.count',
      'reserve.latency_ms',
      'reserve.key_misuse.count',
      'reserve.latency_ms',
    ]);
    expect(new Set(logged.map(({ operationRef }) => operationRef))).toEqual(
      new Set([refOf(input).slice(0, 12)]),
    );
    const said = JSON.stringify([logged, measured]);
    for (const secret of ['very-secret', '424242', 'receipt']) expect(said).not.toContain(secret);
  });

  it('does not count a call that came too late as a fault of the store', async () => {
    const { call, logged, measured } = stage(() => 'paid', { ...transactional, remaining: () => 10 });
    await call(payment()).catch(() => undefined);
    expect(logged).toMatchObject([{ level: 'warn', decision: 'too_late' }]);
    expect(measured).toEqual([]);
  });
});

describe('on DynamoDB', () => {
  const table = useTable();

  it('a call runs once, commits its write with its result, and comes back from the table', async () => {
    const row = (pk: string): TransactWrite => ({
      Put: {
        TableName: table.tableName,
        Item: { pk, sk: 'row' },
        ConditionExpression: 'attribute_not_exists(pk)',
      },
    });
    const pay = protect(
      async (input: Payment, { once }) => {
        once.write(row(`row-${input.order}`));
        return { id: once.operationId, lines: ['x'.repeat(20_000)], note: undefined };
      },
      {
        ledger: dynamoDbLedger(table),
        operation: 'charge',
        tenant: () => 'customer-1',
        key: ({ order }) => order,
        effects: 'transactional',
        inFlight: 'wait',
        log: () => {},
        metrics: () => {},
      },
    );
    const input = payment();
    const results = await Promise.all([pay(input), pay(input), pay(input)]);
    expect(new Set(results.map((result) => JSON.stringify(result))).size).toBe(1);
    expect(results[0]?.lines[0]).toHaveLength(20_000);
    await errorOf(pay({ ...input, amount: 1 }), KeyReused);

    const nothing = protect(async () => undefined, {
      ledger: dynamoDbLedger(table),
      operation: 'notify',
      tenant: () => 'customer-1',
      key: (input: Payment) => input.order,
      ...opaque,
      log: () => {},
      metrics: () => {},
    });
    expect([await nothing(input), await nothing(input)]).toEqual([undefined, undefined]);
  });
});
