import { describe, expect, it } from 'vitest';
import { StoreRefused, StoreUnavailable } from '../../lib/core/errors.ts';
import { storeCaller } from '../../lib/ledger/store-call.ts';

/** Calls a store that fails so often with this error, and then answers. */
async function callAgainst(error: unknown, failures: number, step = 10) {
  let now = 0;
  let tries = 0;
  const call = storeCaller({
    clock: () => now,
    random: () => 1,
    requestTimeoutMs: 1_000,
    sleep: async () => {
      now += step;
    },
  });
  const answer = call(async () => {
    tries += 1;
    if (tries <= failures) throw error;
    return 'answered';
  }, 1_000);
  const outcome = await answer.catch((thrown: unknown) => thrown);
  return { outcome, tries };
}

const aws = (name: string, more: object = {}) =>
  Object.assign(new Error(name), { name, $metadata: {}, ...more });

describe('a failure that says "not now"', () => {
  const transient: readonly (readonly [what: string, error: unknown])[] = [
    ['throttling by name', aws('Throttling', { $fault: 'client' })],
    ['a conflict between replicas', aws('ReplicatedWriteConflictException', { $fault: 'client' })],
    ['429 without a name', aws('UnknownError', { $fault: 'client', $metadata: { httpStatusCode: 429 } })],
    ['a 500', aws('InternalServerError', { $fault: 'server', $metadata: { httpStatusCode: 500 } })],
    ['a page of HTML from a proxy', aws('SyntaxError', { $metadata: { httpStatusCode: 502 } })],
    ['a socket that was reset', Object.assign(new Error('reset'), { code: 'ECONNRESET' })],
    ['a name that does not resolve now', Object.assign(new Error('dns'), { code: 'EAI_AGAIN' })],
    ['our own timeout', Object.assign(new Error('aborted'), { name: 'AbortError' })],
    ['a cancellation that gives no reasons', aws('TransactionCanceledException', { $fault: 'client' })],
    [
      'a cancellation by conflict',
      aws('TransactionCanceledException', {
        CancellationReasons: [{ Code: 'TransactionConflict' }, { Code: 'ConditionalCheckFailed' }],
      }),
    ],
  ];
  for (const [what, error] of transient) {
    it(`is asked again: ${what}`, async () => {
      expect(await callAgainst(error, 3)).toEqual({ outcome: 'answered', tries: 4 });
    });
  }
});

describe('a failure that says "not like this"', () => {
  const final: readonly (readonly [what: string, error: unknown, type: unknown])[] = [
    ['no permission', aws('AccessDeniedException', { $fault: 'client' }), StoreRefused],
    ['no such table', aws('ResourceNotFoundException', { $fault: 'client' }), StoreRefused],
    ['no credentials', Object.assign(new Error('none'), { name: 'CredentialsProviderError' }), StoreRefused],
    ['a bug in front of the socket', Object.assign(new TypeError('x'), { $metadata: {} }), TypeError],
    ['a value out of range', Object.assign(new RangeError('x'), { code: 'ERR_OUT_OF_RANGE' }), RangeError],
  ];
  for (const [what, error, type] of final) {
    it(`is not asked again: ${what}`, async () => {
      const { outcome, tries } = await callAgainst(error, 3);
      expect(tries).toBe(1);
      expect(outcome).toBeInstanceOf(type);
    });
  }

  it('is not asked again: the record has its own failed condition, whatever else happened', async () => {
    const reasons = [{ Code: 'ConditionalCheckFailed' }, { Code: 'TransactionConflict' }];
    const error = aws('TransactionCanceledException', { CancellationReasons: reasons });
    expect(await callAgainst(error, 3)).toEqual({ outcome: error, tries: 1 });
  });
});

describe('asking again', () => {
  it('ends when the time given is over', async () => {
    const { outcome, tries } = await callAgainst(aws('ThrottlingException'), Number.POSITIVE_INFINITY, 100);
    expect(outcome).toBeInstanceOf(StoreUnavailable);
    expect(tries).toBe(10);
  });

  it('ends even if the clock goes backwards', async () => {
    const { outcome, tries } = await callAgainst(aws('ThrottlingException'), Number.POSITIVE_INFINITY, -1);
    expect(outcome).toBeInstanceOf(StoreUnavailable);
    expect(tries).toBe(10_000);
  });
});
