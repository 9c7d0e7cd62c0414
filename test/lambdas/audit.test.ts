import { describe, expect, it } from 'vitest';
import { serviceAuditor } from '../../lambdas/service/audit.ts';
import { MINUTE_MS, ORDER, onBothLedgers, START } from './stage.ts';

describe('the audit of the service', () => {
  onBothLedgers((stage) => {
    it('agrees with what was charged under a key, and tells of a charge that nobody reserved', async () => {
      const { post, dispatch, service, stripe, time } = stage();
      await post('/payments', { key: 'k-1', body: ORDER });
      await dispatch('POST /payments', 'k-1');
      await post('/orders', { key: 'k-2', body: ORDER });
      await post('/transfers', { key: 'k-3', body: ORDER });
      const window = { from: START - MINUTE_MS, to: START + MINUTE_MS };
      const context = { getRemainingTimeInMillis: () => 60_000 };
      time.now += 60 * MINUTE_MS;
      expect(await serviceAuditor(service)(window, context)).toMatchObject({
        found: { agreed: 3 },
        mismatches: [],
      });
      time.now = START;
      const purpose = { operationRef: 'nobody', operationId: 'op', tenant: 'shop-7' };
      await service.provider.charge(ORDER, purpose, { key: 'x', signal: new AbortController().signal });
      time.now += 60 * MINUTE_MS;
      expect(await serviceAuditor(service)(window, context)).toMatchObject({
        found: { agreed: 3, charge_without_record: 1 },
        mismatches: [{ kind: 'charge_without_record', operationRef: 'nobody' }],
      });
      expect(stripe.charged()).toHaveLength(4);
    });
  });
});
