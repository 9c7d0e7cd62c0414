import { eventKey, stepKey } from '../core/downstream-key.ts';
import { InvalidArgument, StoreUnavailable } from '../core/errors.ts';
import { schedule } from '../core/policy.ts';
import { type EpochMs, type LedgerRecord, openStep, type Unknown } from '../core/record.ts';
import { inTime, NoAnswer } from '../effects/in-time.ts';
import { type Resolver, type UnknownOperation, undetermined, type Verdict } from '../effects/resolver.ts';
import type { Ledger, Moved, SettleTo } from '../ledger/ledger.ts';
import { nameOf, type Report } from '../observe/report.ts';
import { openDelivery, type VerdictPorts, verdicts } from './verdicts.ts';

/** A bank that settles overnight may say so; nobody may say that an outcome is to be left alone for longer. */
const RETRY_MAX_MS = 24 * 3_600_000;

export interface JudgePorts<W> extends VerdictPorts {
  readonly ledger: Ledger<W>;
  readonly report: Report;
}

/** What came of asking. Of all but `settled` the record is as it was, or as somebody else has made it. */
export type Judged =
  | { readonly kind: 'settled' }
  | { readonly kind: 'fenced'; readonly record: LedgerRecord | undefined }
  /** "Not there" is not believed before then. */
  | { readonly kind: 'tooEarly'; readonly at: EpochMs }
  | { readonly kind: 'undetermined'; readonly retryAfterMs: number | undefined }
  /** Whoever was asked failed, or said what cannot be kept, or the record cannot be read: asking again may help. */
  | { readonly kind: 'failed'; readonly error: string; readonly silent?: boolean }
  /** It speaks of no effect that the record knows of: asking again will not help. */
  | { readonly kind: 'withoutEffect' };

/** Asks what became of an operation, whoever knows it, and settles its record if that is certain. */
export function judgement<W>(ports: JudgePorts<W>) {
  const { ledger, clock, report } = ports;
  const { settlesAt, executedTo, notExecutedTo } = verdicts(ports);

  /** Whoever is asked has until then, and `askMs` at the most. */
  return async function judge(record: Unknown, ask: Resolver, until: EpochMs): Promise<Judged> {
    try {
      return await judged(record, ask, until);
    } catch (error) {
      // Silence of the store passes. What it cannot read or keep would be the same again: that is a try, and a resolver can
      // be mended.
      if (error instanceof StoreUnavailable) throw error;
      return { kind: 'failed', error: nameOf(error) };
    }
  };

  async function judged(record: Unknown, ask: Resolver, until: EpochMs): Promise<Judged> {
    const operation = await seenBy(record);
    const askedAt = clock();
    let verdict: Verdict;
    try {
      const waitMs = Math.min(schedule.askMs, until - askedAt);
      verdict = checkedVerdict(record, await inTime(waitMs, (signal) => ask(operation, { signal })));
    } catch (error) {
      return { kind: 'failed', error: nameOf(error), silent: error instanceof NoAnswer };
    }
    switch (verdict.kind) {
      case 'undetermined':
        return { kind: 'undetermined', retryAfterMs: verdict.retryAfterMs };
      case 'notExecuted': {
        // By when it was asked, not by when it answered: what it has not seen may have arrived in between.
        const at = settlesAt(record);
        return askedAt < at ? { kind: 'tooEarly', at } : settle(record, notExecutedTo(record));
      }
      case 'executed': {
        const target = executedTo(record, verdict.result, verdict.step);
        return target ? settle(record, target) : { kind: 'withoutEffect' };
      }
      default:
        return verdict satisfies never;
    }
  }

  async function settle(record: Unknown, target: SettleTo): Promise<Judged> {
    const moved: Moved<never> = (await ledger.settle(record, target)) as Moved<never>;
    if (moved.kind === 'fenced') return { kind: 'fenced', record: moved.record };
    report.measure(record, { 'reconcile.resolved.count': 1 });
    report.tell(record, 'info', `resolved_${target.to}`, { attempt: record.attempt });
    return { kind: 'settled' };
  }

  /** What its record knows, and nothing that somebody guessed. */
  async function seenBy(record: Unknown): Promise<UnknownOperation> {
    const { pk, operation, tenant, operationId, attempt, createdAt, lastRunAt } = record;
    const steps = new Map<string, { key: string; result: unknown }>();
    for (const [name, step] of record.steps) {
      if (step.state === 'open') continue;
      const text = await ledger.stepResult(pk, step);
      steps.set(name, {
        key: stepKey(operationId, name),
        result: text === '' ? undefined : JSON.parse(text),
      });
    }
    const events = record.accepted?.outbox ?? [];
    const references = events.map(({ delivery }) =>
      delivery && delivery.state !== 'claimed' ? delivery.reference : undefined,
    );
    const about = { operation, tenant, operationId, attempt, createdAt, lastRunAt };
    return { operationRef: pk, ...about, open: openEffect(record), steps, references };
  }
}

function openEffect(record: Unknown): UnknownOperation['open'] {
  const delivery = openDelivery(record);
  if (delivery) return { name: delivery.type, key: eventKey(record.operationId, delivery.index) };
  const name = openStep(record);
  return name === undefined ? undefined : { name, key: stepKey(record.operationId, name) };
}

/** It comes from outside: what is no verdict must not pass for one. */
function checkedVerdict({ operation }: Unknown, verdict: unknown): Verdict {
  const { kind, retryAfterMs } = (typeof verdict === 'object' && verdict !== null ? verdict : {}) as {
    readonly [field in 'kind' | 'retryAfterMs']?: unknown;
  };
  if (kind === 'undetermined') return undetermined(checkedPauseMs(retryAfterMs));
  if (kind === 'executed' || kind === 'notExecuted') return verdict as Verdict;
  throw new InvalidArgument(
    `What was asked about ${operation} returned neither executed(), notExecuted() nor undetermined().`,
  );
}

/** Nothing, where no time can be made of it: then the usual pause is kept. */
function checkedPauseMs(retryAfterMs: unknown): number | undefined {
  if (typeof retryAfterMs !== 'number' || !Number.isFinite(retryAfterMs)) return undefined;
  return Math.min(RETRY_MAX_MS, Math.max(0, Math.round(retryAfterMs)));
}
