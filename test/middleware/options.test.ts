import { describe, expect, it } from 'vitest';
import { InvalidArgument } from '../../lib/core/errors.ts';
import { jwtClaim } from '../../lib/http/tenant.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { idempotency } from '../../lib/middleware/idempotency.ts';
import type { IdempotencyOptions } from '../../lib/middleware/options.ts';

const sound: IdempotencyOptions = {
  ledger: memoryLedger(),
  tenant: jwtClaim('sub'),
  effects: 'transactional',
};
const make = (options: object) => () => idempotency({ ...sound, ...options } as IdempotencyOptions);

describe('options', () => {
  it('that are sound make a middleware with all three hooks', () => {
    expect(Object.keys(make({})())).toEqual(['before', 'after', 'onError']);
  });

  const wrong: readonly (readonly [options: object, says: RegExp])[] = [
    [{ ledger: undefined }, /needs ledger, for example ledger: dynamoDbLedger/],
    [{ tenant: undefined }, /needs tenant, for example tenant: jwtClaim\('sub'\)/],
    [{ tenant: 'sub' }, /needs tenant/],
    [{ retentionSecond: 1 }, /no option retentionSecond\. Did you mean retentionSeconds\?/],
    [{ ttl: 1 }, /no option ttl\. It has effects,/],
    [{ effects: 'none' }, /effects is "none"; expected one of transactional, steps, opaque/],
    [{ effects: 'opaque' }, /is opaque.*Give it a resolver.*or write onUnknown: 'park'/],
    [{ effects: 'opaque', resolver: 'ask' }, /resolver is "ask"; expected a function/],
    [{ effects: 'opaque', resolver: () => {}, onUnknown: 'park' }, /has a resolver and onUnknown: 'park'/],
    [{ complete: 'auto' }, /complete: 'auto' resumes steps, and this is transactional/],
    [{ effects: 'steps', complete: true }, /complete is true; expected one of auto/],
    [{ effects: 'opaque', onUnknown: 'park', dedupeWindowMs: 1 }, /dedupeWindowMs is about steps and events/],
    [{ effects: 'steps', dedupeWindowMs: 0 }, /dedupeWindowMs is 0; expected a whole number of at least 1/],
    [{ settlingMs: 999 }, /settlingMs is 999; expected a whole number from 1000 to 86400000/],
    [{ settlingMs: 86_400_001 }, /settlingMs is 86400001/],
    [{ reconcileBaseMs: 999 }, /reconcileBaseMs is 999; expected a whole number from 1000 to 3600000/],
    [{ reconcileCapMs: 3_600_001 }, /reconcileCapMs is 3600001/],
    [
      { reconcileCapMs: 29_999 },
      /reconcileBaseMs is 30000, and reconcileCapMs is 29999; the first pause cannot be longer than the longest/,
    ],
    [{ requestHeaders: ['Authorization'] }, /Authorization is never stored/],
    [{ effects: 'opaque', onUnknown: 'retry' }, /onUnknown is "retry"; expected one of park/],
    [{ inFlight: 'queue' }, /inFlight is "queue"; expected one of reject, accept, wait/],
    [{ waitMs: 100 }, /waitMs needs inFlight: 'wait'/],
    [{ inFlight: 'wait', waitMs: -1 }, /waitMs is -1; expected a whole number from 0 to 900000/],
    [{ afterExpiry: 'keep' }, /afterExpiry is "keep"/],
    [{ goneSeconds: 10 }, /goneSeconds needs afterExpiry: 'gone'/],
    [{ retentionSeconds: 3_599 }, /retentionSeconds is 3599; expected a whole number of at least 3600/],
    [{ retentionSeconds: Number.NaN }, /retentionSeconds is null/],
    [{ preset: 'paypal' }, /preset is "paypal"; expected one of ietf, stripe/],
    [{ cache: 'big' }, /cache is "big"; expected true, or \{ entries, bytes \}/],
    [{ cache: { entries: 0 } }, /entries is 0/],
    [{ keyMode: 'uuid' }, /keyMode is "uuid"/],
    [{ minKeyLength: 0 }, /minKeyLength is 0/],
    [{ storedHeaders: ['Set-Cookie'] }, /Set-Cookie is never stored/],
    [{ fingerprintHeaders: ['a b'] }, /fingerprintHeaders is "a b"; expected names of headers/],
    [{ metrics: {} }, /metrics is \{\}; expected a function/],
    [{ operations: { payments: {} } }, /operations is "payments"; expected names such as 'POST \/payments'/],
    [{ operations: { 'POST /a': { ledger: 1 } } }, /the operation POST \/a has no option ledger/],
    [{ operations: { 'POST /a': { effects: 'opaque' } } }, /the operation POST \/a is opaque/],
    [{ operations: [] }, /idempotency\(\): operations takes an object of options; received \[\]/],
    [{ operations: { 'POST /a': null } }, /the operation POST \/a takes an object of options; received null/],
    [{ operations: { 'POST /a': 'opaque' } }, /the operation POST \/a takes an object of options/],
    [{ ledger: null }, /needs ledger/],
    [{ ledger: {} }, /needs ledger/],
    [{ ledger: [] }, /needs ledger/],
    [{ ledger: { reserve: () => {} } }, /needs ledger/],
    [{ docsBase: 'see the docs' }, /docsBase, .* is not an absolute http\(s\) URL/],
    [{ docsBase: 5 }, /docsBase, .* is not an absolute http\(s\) URL/],
    [{ validate: {} }, /validate is \{\}; expected a function, or a Standard Schema/],
    [{ validate: 'amount > 0' }, /validate is "amount > 0"/],
    [{ required: 'no' }, /required is "no"; expected true or false/],
    [{ required: null }, /required is null/],
    [{ required: false }, /a request without a key has no record that transactional effects/],
    [{ fingerprintHeaders: 'x-account' }, /fingerprintHeaders is "x-account"; expected a list of names/],
    [{ storedHeaders: 'location' }, /storedHeaders is "location"; expected a list of names/],
    [{ requestHeaders: 'accept' }, /requestHeaders is "accept"; expected a list of names/],
    [{ cache: null }, /cache is null/],
    [{ cache: { entires: 5 } }, /cache has no option entires/],
    [{ cache: { bytes: 0 } }, /bytes is 0/],
    [{ minKeyLength: 300 }, /minKeyLength is 300; expected a whole number from 1 to 255/],
    [{ retentionSeconds: '86400' }, /retentionSeconds is "86400"; expected a whole number/],
    [{ retentionSeconds: null }, /retentionSeconds is null/],
    [{ retentionSeconds: Date.UTC(2030, 0) }, /retentionSeconds is \d+; .* at most 315360000/],
    [{ afterExpiry: 'gone', goneSeconds: Date.UTC(2030, 0) }, /goneSeconds is \d+; expected .* to 315360000/],
    [
      { inFlight: 'wait', waitMs: 86_400_000 },
      /waitMs is 86400000; expected a whole number from 0 to 900000/,
    ],
    [{ operation: 'pay' }, /operation is "pay"; expected a function/],
    [{ log: {} }, /log is \{\}; expected a function/],
    [{ clock: 5 }, /clock is 5; expected a function/],
    [{ sleep: 5 }, /sleep is 5; expected a function/],
    [{ newId: 'a' }, /newId is "a"; expected a function/],
  ];
  for (const [options, says] of wrong) {
    it(`that are wrong fail at construction, saying what to write: ${JSON.stringify(options)}`, () => {
      expect(make(options)).toThrow(InvalidArgument);
      expect(make(options)).toThrow(says);
    });
  }

  it('that are no options fail at construction', () => {
    for (const none of [undefined, null, [], 'opaque']) {
      expect(() => idempotency(none as never)).toThrow(
        /idempotency\(\) takes an object of options; received/,
      );
    }
  });

  it('with a resolver need not say what to do without one', () => {
    expect(make({ effects: 'opaque', resolver: () => ({ kind: 'notExecuted' }) })).not.toThrow();
  });

  it('of one operation add to those of all', () => {
    const operations = {
      'POST /transfers': { effects: 'opaque', onUnknown: 'park' },
      'POST /a': { inFlight: 'wait' },
      'PATCH /a': { inFlight: 'accept' },
    };
    expect(make({ operations })).not.toThrow();
  });

  it('of one operation leave out what only made sense with those they change', () => {
    const opaque = { effects: 'opaque', onUnknown: 'park' };
    const resolver = () => ({ kind: 'notExecuted' });
    const sensible: readonly (readonly [all: object, one: object])[] = [
      [opaque, { effects: 'transactional' }],
      [opaque, { resolver }],
      [{ effects: 'opaque', resolver }, { onUnknown: 'park' }],
      [{ inFlight: 'wait', waitMs: 2_000 }, { inFlight: 'reject' }],
      [{ afterExpiry: 'gone', goneSeconds: 86_400 }, { afterExpiry: 'execute' }],
      [{ effects: 'steps', complete: 'auto' }, { effects: 'transactional' }],
      [{ effects: 'steps', dedupeWindowMs: 1_000 }, opaque],
    ];
    for (const [all, one] of sensible) {
      expect(make({ ...all, operations: { 'POST /a': one } }), JSON.stringify([all, one])).not.toThrow();
    }
  });

  it('of one operation must still make sense by themselves', () => {
    const one = (options: object) => ({ operations: { 'POST /a': options } });
    expect(make(one({ waitMs: 100 }))).toThrow(/the operation POST \/a: waitMs needs inFlight: 'wait'/);
    expect(make(one({ goneSeconds: 100 }))).toThrow(/POST \/a: goneSeconds needs afterExpiry: 'gone'/);
    expect(make(one({ complete: 'auto' }))).toThrow(/POST \/a: complete: 'auto' resumes steps/);
  });

  it('may name operations as their resolver does', () => {
    expect(make({ operation: () => 'pay', operations: { pay: {} } })).not.toThrow();
  });
});
