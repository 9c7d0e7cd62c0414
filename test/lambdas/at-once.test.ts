import { describe, expect, it } from 'vitest';
import { movedAtOnce } from '../../lambdas/runtime/at-once.ts';
import type { Effects, InProgress } from '../../lib/core/record.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { claimOf, execute, movedRecord, START } from '../../lib/testing/contract/subject.ts';

const LEASE_OVER_MS = 3_600_000;

/** A record that its attempt left behind. */
async function abandoned(effects: Effects) {
  const time = { now: START };
  const ledger = memoryLedger({ clock: () => time.now });
  const record = movedRecord<InProgress>(await ledger.reserve({ ...claimOf(), effects }, execute));
  time.now += LEASE_OVER_MS;
  const atOnce = movedAtOnce(ledger, () => time.now);
  const look = async () => atOnce.look((await ledger.read(record.pk)) ?? record, time.now + 1_000);
  const status = async () => (await ledger.read(record.pk))?.status;
  return { ledger, record, time, look, status };
}

describe('what the sentinel finds with a passed lease', () => {
  it.each([
    ['transactional', 'failed_retryable'],
    ['opaque', 'unknown'],
    ['steps', 'in_progress'],
  ] as const)('is moved at once where it is %s: it is then %s', async (effects, status) => {
    const { look, status: now } = await abandoned(effects);
    await look();
    expect(await now()).toBe(status);
  });

  it('is left alone by whoever comes second: only the service knows who can tell what became of it', async () => {
    const { ledger, record, look } = await abandoned('opaque');
    await look();
    const unknown = await ledger.read(record.pk);
    expect(await look()).toBe('nothing');
    expect(await ledger.read(record.pk)).toEqual(unknown);
  });
});
