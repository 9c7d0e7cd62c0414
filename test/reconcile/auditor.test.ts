import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { RecordUnreadable } from '../../lib/core/errors.ts';
import type { Claim } from '../../lib/core/moves.ts';
import { defaultPolicy, expiryAfter } from '../../lib/core/policy.ts';
import type { CompletedDelivered, InProgress, LedgerRecord } from '../../lib/core/record.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import type { LogEntry } from '../../lib/observe/log.ts';
import type { Sample } from '../../lib/observe/metrics.ts';
import type { AuditorOptions } from '../../lib/reconcile/audit-options.ts';
import type { DomainRow, ProviderObject } from '../../lib/reconcile/audit-window.ts';
import { auditor } from '../../lib/reconcile/auditor.ts';
import {
  claimOf,
  completedBy,
  execute,
  failedBy,
  movedRecord,
  outcomeAt,
  START,
  unknownBy,
} from '../../lib/testing/contract/subject.ts';
import { useTable } from '../support/table.ts';
import {
  acceptedWith,
  bothLedgers,
  charge as chargeEvent,
  completedWith,
  dispatchStage,
  Provider,
  through,
} from './stage.ts';

const table = useTable();
const HOUR_MS = 3_600_000;

/** Late enough for the window, too early for anything to count as forgotten. */
const SOON_MS = 1.75 * HOUR_MS;

for (const [name, ledgerOf] of Object.entries(bothLedgers(table))) {
  describe(`the audit on ${name}`, () => {
    /** An operation of the test's own, since the table is shared, and an audit some hours after all of it. */
    function world(options: Partial<AuditorOptions> = {}) {
      const time = { now: START };
      const clock = () => time.now;
      const ledger = ledgerOf(clock);
      const operation = `POST /${randomUUID()}`;
      const objects: ProviderObject[] = [];
      const rows: DomainRow[] = [];
      const logged: LogEntry[] = [];
      const measured: Sample[] = [];
      const handle = auditor({
        ledger,
        operations: [operation],
        provider: () => objects,
        pauseMs: 0,
        clock,
        sleep: async () => {},
        log: (entry) => logged.push(entry),
        metrics: (sample) => measured.push(sample),
        ...options,
      });
      const reserve = async (claim: Partial<Claim> = {}) =>
        movedRecord<InProgress>(await ledger.reserve(claimOf({ operation, ...claim }), execute));
      const pay = async (status = 201) =>
        completedBy(ledger, await reserve(), outcomeAt(START, '{}', status)) as Promise<CompletedDelivered>;
      const charge = (of: LedgerRecord | undefined, more: Partial<ProviderObject> = {}) => {
        const ref = of && { operationRef: of.pk };
        const object = { id: `ch_${randomUUID()}`, at: START, state: 'succeeded', ...ref, ...more } as const;
        objects.push(object);
        return object;
      };
      const audit = (event: unknown = {}, remainingMs = 60_000) =>
        handle(event, { getRemainingTimeInMillis: () => remainingMs });
      /** Two hours later unless it is another time; what is told must be these mismatches and no others. */
      const finds = async (kinds: readonly string[], afterMs = 2 * HOUR_MS) => {
        time.now = START + afterMs;
        const report = await audit();
        expect(report.mismatches.map(({ kind }) => kind).sort()).toEqual([...kinds].sort());
        expect(report.failed).toBe(0);
        return report;
      };
      return { ledger, operation, objects, rows, logged, measured, time, reserve, pay, charge, audit, finds };
    }

    it('finds a charge behind the back of the ledger, a record without a charge, and a second charge', async () => {
      const { pay, charge, finds, measured, logged, operation } = world();
      const [unpaid, twice, fine] = [await pay(), await pay(), await pay()];
      const planted = charge(undefined);
      charge(twice);
      const second = charge(twice, { at: START + 1_000 });
      charge(fine);
      const report = await finds(['charge_without_record', 'record_without_charge', 'second_charge']);
      const whose = { tenant: 'tenant-1', operation };
      expect(report.mismatches).toEqual(
        expect.arrayContaining([
          { kind: 'charge_without_record', object: planted.id },
          { kind: 'record_without_charge', operationRef: unpaid.pk, ...whose },
          { kind: 'second_charge', operationRef: twice.pk, object: second.id, ...whose },
        ]),
      );
      expect(report).toMatchObject({ mismatched: 3, parked: 0, found: { agreed: 2 } });
      expect(report).not.toHaveProperty('next');
      expect(measured.filter(({ metrics }) => metrics['audit.mismatch'] === 1)).toHaveLength(3);
      expect(measured.map((sample) => sample.operation).sort()).toEqual(['-', operation, operation].sort());
      expect(logged.map(({ level, decision, reason }) => `${level} ${decision} ${reason}`).sort()).toEqual([
        'error audit_mismatch charge_without_record',
        'error audit_mismatch record_without_charge',
        'error audit_mismatch second_charge',
      ]);
    });

    it('finds nothing where both sides agree, whatever else is in the table', async () => {
      const { ledger, pay, charge, reserve, finds, logged } = world();
      charge(await pay());
      charge(await pay(), { state: 'pending' });
      await pay(402);
      charge(await failedBy(ledger, await reserve()), { state: 'refused' });
      await reserve();
      await unknownBy(ledger, await reserve());
      const twice = charge(await pay());
      charge(undefined, twice); // A provider that lists one object twice.
      await completedBy(ledger, await reserve({ operation: 'WEBHOOK stripe' }));
      await completedBy(ledger, await reserve({ operation: 'POST /quotes' }));
      await completedWith(ledger, chargeEvent(1));
      const erasing = await pay();
      charge(erasing);
      await ledger.erase(erasing, { now: START, headers: [] });
      await finds([]);
      expect(logged).toEqual([]);
    });

    it('tells what else a charge can contradict', async () => {
      const { ledger, pay, charge, reserve, finds } = world();
      charge(await failedBy(ledger, await reserve()));
      charge(await pay(402));
      const parked = await unknownBy(ledger, await reserve());
      const place = { shard: 'parked#1', at: START, parkedAt: START };
      charge(movedRecord(await ledger.watch(parked, place)));
      await finds(['charge_not_executed', 'charge_of_failure', 'charge_still_open']);
    });

    it('leaves to others what they are still working on, and to its owner what runs', async () => {
      const { ledger, charge, reserve, finds } = world();
      charge(await unknownBy(ledger, await reserve()));
      charge(await acceptedWith(ledger, chargeEvent(1)));
      const running = await reserve({ leaseUntil: START + 3 * HOUR_MS });
      charge(running);
      charge(running);
      const report = await finds(['second_charge'], SOON_MS);
      expect(report).toMatchObject({ parked: 0, found: { open: 3 } });
    });

    it('puts an open record with a mismatch before the operator, once', async () => {
      const { ledger, charge, reserve, finds } = world();
      const unknown = await unknownBy(ledger, await reserve());
      charge(unknown);
      charge(unknown);
      expect(await finds(['second_charge'], SOON_MS)).toMatchObject({ parked: 1 });
      const place = { parkedAt: START + SOON_MS, error: 'audit: second_charge' };
      const parked = await ledger.read(unknown.pk);
      expect(parked).toMatchObject({ status: 'unknown', due: place });
      expect(await finds(['second_charge', 'charge_still_open'], SOON_MS + 60_000)).toMatchObject({
        parked: 0,
      });
      expect(await ledger.read(unknown.pk)).toEqual(parked); // With the reason that it was parked for.
    });

    it('tells everything in one window, and nothing for a clock that is a minute off', async () => {
      const { pay, charge, finds, time, audit } = world();
      charge(await pay(), { at: START - 59_000 });
      charge(await pay(), { at: START + 59_000 });
      charge(await pay(), { at: START - 1_000 }); // In the window before the one of its record.
      await pay();
      await finds(['record_without_charge']);
      time.now = START + 24 * HOUR_MS + 45 * 60_000;
      const edges = [START - HOUR_MS, START, START + HOUR_MS];
      const told = [];
      for (const [index, from] of edges.slice(0, 2).entries())
        told.push(...(await audit({ from, to: edges[index + 1] })).mismatches);
      expect(told).toHaveLength(1);
    });

    describe('day after day', () => {
      /** A provider that lists what it is asked for, as far back as it can; audits at 35 past midnight of the days after. */
      function days({ since = 0, rows }: { readonly since?: number; readonly rows?: DomainRow[] } = {}) {
        const listed: ProviderObject[] = [];
        const stage = world({
          provider: ({ from, to }) => {
            if (from < since) throw new TypeError('no');
            return listed.filter(({ at }) => at >= from && at < to);
          },
          ...(rows && { rows: ({ from, to }) => rows.filter(({ at }) => at >= from && at < to) }),
        });
        const charged = (of: LedgerRecord, afterMs: number, more: Partial<ProviderObject> = {}) =>
          listed.push({
            ...{ id: `ch_${randomUUID()}`, operationRef: of.pk, at: START + afterMs, state: 'succeeded' },
            ...more,
          });
        const audited = async (...days: readonly number[]) => {
          const found: Record<string, number> = {};
          for (const day of days) {
            stage.time.now = START + (12 + 24 * day) * HOUR_MS + 35 * 60_000;
            const report = await stage.audit();
            expect(report.failed).toBe(0);
            for (const [name, times] of Object.entries(report.found))
              found[name] = (found[name] ?? 0) + times;
          }
          return found;
        };
        return { ...stage, charged, audited };
      }

      it('two charges of one operation are found, once, whichever hours they fall on', async () => {
        const { pay, charged, audited } = days();
        const hours = [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23];
        for (const hour of hours) {
          const record = await pay();
          charged(record, 0);
          charged(record, hour * HOUR_MS);
        }
        expect(await audited(0, 1, 2)).toEqual({ agreed: hours.length, second_charge: hours.length });
      });

      it('two charges are found, too, when only a row of the second day says whose the first was', async () => {
        const rows: DomainRow[] = [];
        const { ledger, reserve, charged, audited } = days({ rows });
        const mine = await reserve();
        charged(mine, 0, { id: 'ch_first', operationRef: undefined });
        charged(mine, 17 * HOUR_MS);
        await completedBy(ledger, mine, outcomeAt(START + 18 * HOUR_MS));
        rows.push({ operationRef: mine.pk, reference: 'ch_first', at: START + 18 * HOUR_MS });
        expect(await audited(1)).toEqual({ second_charge: 1 });
      });

      it('two charges are found, too, when the second came before the operation was completed', async () => {
        const { ledger, reserve, charged, audited } = days();
        const mine = await reserve();
        charged(mine, 0);
        charged(mine, 17 * HOUR_MS);
        expect(await audited(0)).not.toHaveProperty('agreed');
        await completedBy(ledger, mine, outcomeAt(START + 18 * HOUR_MS));
        expect(await audited(0, 1)).toEqual({ agreed: 1, second_charge: 1 });
      });

      it('one charge is one, however long after its operation was begun or completed', async () => {
        const { ledger, reserve, charged, audited } = days();
        const slow = await completedBy(ledger, await reserve(), outcomeAt(START + 18 * HOUR_MS));
        charged(slow, 17 * HOUR_MS);
        const late = await deliveredLate(ledger, 17 * HOUR_MS);
        charged(late, 17 * HOUR_MS);
        const refunded = await reserve();
        charged(refunded, 0, { state: 'undone' });
        charged(refunded, 18 * HOUR_MS);
        await completedBy(ledger, refunded, outcomeAt(START));
        expect(await audited(0, 1)).toEqual({ agreed: 4 });
      });

      it('what the provider cannot list so far back is unclear, but for what came too late to be the first', async () => {
        const { ledger, reserve, pay, charged, audited, logged } = days({ since: START });
        const slow = await completedBy(ledger, await reserve(), outcomeAt(START + 18 * HOUR_MS));
        for (const record of [slow, await pay(), await deliveredLate(ledger, 17 * HOUR_MS)])
          charged(record, 17 * HOUR_MS);
        expect(await audited(1)).toEqual({ unclear: 2, second_charge: 1 });
        expect(logged).toContainEqual(
          expect.objectContaining({ level: 'warn', decision: 'audit_unclear', reason: 'AuditRefused' }),
        );
      });
    });

    it('looks back to the beginning of an operation, by a week at most, and counts nothing twice that is listed twice', async () => {
      const asked: number[] = [];
      const { ledger, reserve, charge, objects, finds, time } = world({
        provider: ({ from }) => {
          asked.push(from);
          return objects; // Whatever it was asked for.
        },
      });
      const first = START - 23 * HOUR_MS - 4 * HOUR_MS; // Where the lists of the window begin.
      const begun = async (now: number) => {
        time.now = START;
        charge(await completedBy(ledger, await reserve({ now }), outcomeAt(START)));
        return (await finds([])).found;
      };
      expect(await begun(first + 60_000)).toEqual({ agreed: 1 });
      expect(asked).toEqual([first]);
      expect(await begun(first - HOUR_MS)).toEqual({ agreed: 2 });
      expect(asked.slice(1)).toEqual([first, first - HOUR_MS - 60_000]);
      expect(await begun(first - 30 * 24 * HOUR_MS)).toEqual({ agreed: 2, unclear: 1 });
      expect(asked.slice(3)).toEqual([first, first - 7 * 24 * HOUR_MS]);
    });

    it('cannot say of what is too old, and does not', async () => {
      const { ledger, charge, reserve, finds, time, audit } = world();
      const used = await completedBy(ledger, await reserve(), outcomeAt(START));
      charge(used);
      const anew = START + 24 * HOUR_MS + 2_000;
      const again = await reserve({ pk: used.pk, now: anew, leaseUntil: anew + 30_000 });
      charge(await completedBy(ledger, again, outcomeAt(anew)), { at: anew });
      charge(undefined, { operationRef: `gone-${randomUUID()}` });
      time.now = anew + HOUR_MS;
      expect(await audit({ from: START - HOUR_MS, to: anew + 1_000 })).toMatchObject({
        mismatched: 0,
        found: { unclear: 2, agreed: 1 },
      });
      const { ledger: other, reserve: begin, finds: look } = world();
      const slow = await begin({ now: START - 30 * HOUR_MS });
      await completedBy(other, slow, outcomeAt(START));
      expect((await look([])).found).toEqual({ unclear: 1 });
      await finds(['charge_without_record'], 24 * HOUR_MS);
    });

    it('keeps the record of a late delivery for as long as it is audited', async () => {
      const { ttl } = await deliveredLate(
        ledgerOf(() => START),
        72 * HOUR_MS,
      );
      expect(ttl).toBe(expiryAfter(defaultPolicy, START + 72 * HOUR_MS).ttl);
    });

    it('compares the rows of the caller as well, both ways', async () => {
      const listed: DomainRow[] = [];
      const { pay, charge, finds } = world({ rows: () => listed });
      const [rowless, chargeless, unnamed] = [await pay(), await pay(), await pay()];
      charge(rowless);
      listed.push({ operationRef: chargeless.pk, at: START });
      const { id } = charge(undefined);
      listed.push({ operationRef: unnamed.pk, reference: id, at: START });
      listed.push({ operationRef: `alone-${randomUUID()}`, at: START });
      await finds(['charge_without_row', 'record_without_charge', 'record_without_charge']);
    });

    it('lists until now: what is claimed in the window may have been charged after it', async () => {
      const { pay, charge, objects, finds } = world({
        provider: ({ from, to }) => objects.filter(({ at }) => at >= from && at < to),
      });
      charge(await pay(), { at: START + 1.5 * HOUR_MS });
      expect((await finds([])).window.to).toBe(START + HOUR_MS);
    });

    it('takes no list for whole that has ended because its time was over', async () => {
      const { pay, time, audit } = world({
        provider: () => {
          time.now += 60_000; // It was told to stop, and did so without a word.
          return [];
        },
      });
      await pay();
      time.now = START + 2 * HOUR_MS;
      await expect(audit()).rejects.toThrow(/The time for listing was over after 0 .* nothing was compared/);
    });

    it('compares nothing with half a list, and says so', async () => {
      const half = async function* (): AsyncIterable<ProviderObject> {
        yield { id: 'ch_1', at: START, state: 'succeeded' };
        throw new TypeError('the second page of secrets');
      };
      const { pay, time, audit, logged, measured } = world({ provider: half });
      await pay();
      time.now = START + 2 * HOUR_MS;
      await expect(audit()).rejects.toThrow(/provider ended in TypeError after 1 .* nothing was compared/);
      expect(logged).toMatchObject([{ decision: 'audit_failed', reason: 'AuditRefused', level: 'error' }]);
      expect(measured).toMatchObject([{ metrics: { 'reconcile.failed.count': 1 } }]);
    });

    it('raises nothing for what was refunded since, and takes none of two for a second charge', async () => {
      const { pay, charge, finds } = world();
      charge(await pay(), { state: 'undone' });
      const corrected = await pay();
      charge(corrected);
      charge(corrected, { at: START + 1_000, state: 'undone' });
      expect((await finds([])).found).toEqual({ agreed: 3 });
    });

    it('measures, logs and names what it could not look at, and compares the rest', async () => {
      const { ledger, operation, pay, charge, objects, time } = world();
      const [damaged, fine] = [await pay(), await pay()];
      charge(damaged);
      charge(fine);
      const [measured, logged]: [Sample[], LogEntry[]] = [[], []];
      const handle = auditor({
        ledger: {
          ...ledger,
          read: async (pk, call) => {
            if (pk === damaged.pk) throw new RecordUnreadable('an item of secrets');
            return ledger.read(pk, call);
          },
        },
        ...{ operations: [operation], provider: () => objects, pauseMs: 0, clock: () => time.now },
        log: (entry) => logged.push(entry),
        metrics: (sample) => measured.push(sample),
      });
      time.now = START + 2 * HOUR_MS;
      expect(await handle({}, { getRemainingTimeInMillis: () => 60_000 })).toMatchObject({
        failed: 1,
        failures: [{ operationRef: damaged.pk, error: 'RecordUnreadable' }],
        found: { agreed: 1 },
      });
      expect(measured).toMatchObject([{ metrics: { 'reconcile.failed.count': 1 } }]);
      expect(logged).toMatchObject([
        { decision: 'audit_failed', reason: 'RecordUnreadable', level: 'error' },
      ]);
    });

    it('reads no more of the table than it may hold, and goes on there the next time', async () => {
      const { pay, ledger, operation, time } = world();
      for (let n = 0; n < 5; n += 1) await pay();
      const slept: number[] = [];
      const handle = auditor({
        ...{ ledger, operations: [operation], provider: () => [], objectsMax: 2, pageItems: 1, pauseMs: 77 },
        ...{ clock: () => time.now, log: () => {}, metrics: () => {} },
        sleep: async (ms) => {
          slept.push(ms);
        },
      });
      time.now = START + 2 * HOUR_MS;
      let event: unknown = {};
      const found: number[] = [];
      do {
        const report = await handle(event, { getRemainingTimeInMillis: () => 60_000 });
        found.push(report.mismatched);
        event = report.next;
      } while (event !== undefined);
      expect(Math.max(...found)).toBe(2);
      expect(found.reduce((sum, each) => sum + each)).toBe(5);
      expect(new Set(slept)).toEqual(new Set([77])); // Between two pages of one run.
    });

    it('looks again at a page of records that it had no time for, and refuses one that it never will have', async () => {
      const { pay, ledger, operation, time } = world();
      for (let n = 0; n < 3; n += 1) await pay();
      const slow = (readMs: number, told: string[] = []) =>
        auditor({
          ledger: {
            ...ledger,
            read: (pk, call) => {
              time.now += readMs;
              return ledger.read(pk, call);
            },
            // All of the table in two pages, however large it is.
            completedIn: async (window, operations, _, from) => {
              const { pks } = await ledger.completedIn(window, operations, 1_000_000);
              return from
                ? { pks: pks.slice(1), next: undefined }
                : { pks: pks.slice(0, 1), next: 'the rest' };
            },
          },
          ...{ operations: [operation], provider: () => [], pauseMs: 0, clock: () => time.now },
          log: ({ operationRef }) => told.push(operationRef),
          metrics: () => {},
          sleep: async () => {},
        });
      time.now = START + 2 * HOUR_MS;
      const [window, context] = [
        { from: START - HOUR_MS, to: START + HOUR_MS },
        { getRemainingTimeInMillis: () => 60_000 },
      ];
      const told: string[] = [];
      const first = await slow(70_000, told)(window, context);
      expect(first).toMatchObject({ mismatched: 1, next: { ...window, records: 'the rest' } });
      expect(await slow(1, told)(first.next, context)).toMatchObject({ mismatched: 2 });
      expect(new Set(told).size).toBe(3);
      const many = auditor({
        ledger: {
          ...ledger,
          read: (pk, call) => {
            time.now += 10_000;
            return ledger.read(pk, call);
          },
          completedIn: async () => ({ pks: Array.from({ length: 60 }, () => randomUUID()), next: undefined }),
        },
        ...{
          operations: [operation],
          provider: () => [],
          clock: () => time.now,
          log: () => {},
          metrics: () => {},
        },
      });
      await expect(many(window, context)).rejects.toThrow(
        /no time to read more than 50 of 60 .* is in the log/,
      );
    });

    it('stops in time, and goes on where it stopped, telling everything once', async () => {
      const time = { now: START + 2 * HOUR_MS };
      const stage = world({ pageItems: 7, pauseMs: 4_000, clock: () => time.now });
      const { pay, charge, objects } = stage;
      for (let n = 0; n < 3; n += 1) await pay();
      for (let n = 0; n < 120; n += 1) charge(undefined);
      const handle = auditor({
        ledger: stage.ledger,
        operations: [stage.operation],
        provider: () => objects,
        pageItems: 7,
        pauseMs: 4_000,
        clock: () => time.now,
        sleep: async (ms) => {
          time.now += ms;
        },
        log: ({ decision }) => {
          if (decision === 'audit_mismatch') time.now += 400;
        },
        metrics: () => {},
      });
      let event: unknown = {};
      let [invocations, mismatched] = [0, 0];
      do {
        invocations += 1;
        const report = await handle(JSON.parse(JSON.stringify(event)), {
          getRemainingTimeInMillis: () => 32_000,
        });
        mismatched += report.mismatched;
        event = report.next;
      } while (event !== undefined);
      expect(invocations).toBeGreaterThan(1);
      expect(mismatched).toBe(123);
    });
  });
}

/** A record whose event came through so long after its completion, with no word of what the provider calls it. */
async function deliveredLate(ledger: Ledger<unknown>, afterMs: number): Promise<CompletedDelivered> {
  const { pk } = await completedWith(ledger, chargeEvent(1));
  const time = { now: START + afterMs };
  const { redrive } = dispatchStage(ledger, { charge: through(new Provider(false)) }, { time });
  expect(await redrive(pk)).toBe('settled');
  return (await ledger.read(pk)) as CompletedDelivered;
}

describe('an auditor says', () => {
  const options = { ledger: memoryLedger(), operations: ['POST /payments'], provider: () => [] };
  const make = (more: object) => () => auditor({ ...options, ...more });

  it('at once what its options lack', () => {
    expect(make({ ledger: {} })).toThrow(/auditor\(\) needs ledger/);
    expect(make({ provider: undefined })).toThrow(/auditor\(\) needs provider/);
    expect(make({ operations: [] })).toThrow(/operations is \[\]; expected the names of 1 to 100/);
    expect(make({ windowMs: 5 })).toThrow(/windowMs is 5; expected a whole number of at least 3600000/);
    expect(make({ rows: [] })).toThrow(/rows is \[\]; expected a function/);
    expect(make({ window: 1 })).toThrow(/has no option window. Did you mean windowMs/);
  });

  it('what is wrong with a window or with what a source yields', async () => {
    const quiet = { clock: () => START, log: () => {}, metrics: () => {}, sleep: async () => {} };
    const audit = (more: object, event = {}) => auditor({ ...options, ...quiet, ...more })(event, {});
    await expect(audit({}, { from: START - HOUR_MS, to: START })).rejects.toThrow(/still settling/);
    await expect(audit({}, { from: START - HOUR_MS })).rejects.toThrow(/asks for an audit/);
    const yields = (object: object) => audit({ provider: () => [object] });
    await expect(yields({ id: 'a', at: 1_894_708_800 })).rejects.toThrow(/multiplied by 1000/);
    await expect(yields({ id: 'a', at: START, state: 'paid' })).rejects.toThrow(/state is "paid"/);
    await expect(audit({ rows: () => [{ at: START }] })).rejects.toThrow(/operationRef is undefined/);
    const two = [1, 2].map((n) => ({ id: `${n}`, at: START, state: 'succeeded' }));
    await expect(audit({ provider: () => two, objectsMax: 1 })).rejects.toThrow(/more than 1 objects/);
    expect(await audit({ provider: () => two, objectsMax: 2 })).toMatchObject({ listed: { objects: 2 } });
  });
});
