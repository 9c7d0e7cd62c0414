import { describe, expect, it } from 'vitest';
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
    [{ effects: 'steps' }, /'steps' is not available yet/],
    [{ effects: 'none' }, /effects is "none"; expected one of transactional, opaque/],
    [{ effects: 'opaque' }, /is opaque.*Write onUnknown: 'park'/],
    [{ onUnknown: 'park' }, /transactional and never unknown; leave onUnknown out/],
    [{ effects: 'opaque', onUnknown: 'retry' }, /onUnknown is "retry"; expected one of park/],
    [{ inFlight: 'queue' }, /inFlight is "queue"; expected one of reject, accept, wait/],
    [{ waitMs: 100 }, /waitMs needs inFlight: 'wait'/],
    [{ inFlight: 'wait', waitMs: -1 }, /waitMs is -1; expected a whole number of at least 0/],
    [{ afterExpiry: 'keep' }, /afterExpiry is "keep"/],
    [{ goneSeconds: 10 }, /goneSeconds needs afterExpiry: 'gone'/],
    [{ retentionSeconds: 3_599 }, /retentionSeconds is 3599; expected a whole number of at least 3600/],
    [{ retentionSeconds: Number.NaN }, /retentionSeconds is NaN/],
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
  ];
  for (const [options, says] of wrong) {
    it(`that are wrong fail at construction, saying what to write: ${JSON.stringify(options)}`, () => {
      expect(make(options)).toThrow(says);
    });
  }

  it('of one operation add to those of all', () => {
    const operations = {
      'POST /transfers': { effects: 'opaque', onUnknown: 'park' },
      'POST /a': { inFlight: 'wait' },
    };
    expect(make({ operations })).not.toThrow();
  });
});
