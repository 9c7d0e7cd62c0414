import { createHash } from 'node:crypto';
import { isWanted } from '../events/pattern.ts';
import type { StreamMappingModel } from '../model.ts';
import type { Invoked } from '../ports.ts';
import { type Outcome, outcomeOf } from './answer.ts';
import { type Batch, firstTry, later, leftOf, type RetryRules, withoutAged } from './batch.ts';
import { progress } from './progress.ts';
import type { StreamRecord } from './record.ts';

/** What one shard's records are sent in: decides everything, does nothing. Time comes in with each call. */
export interface ShardBatches {
  /** Takes what was read of the shard, in its order. */
  take(records: readonly StreamRecord[], now: number): void;
  /** What is to be done now: to be sent, or, where it is given up, to be kept. Each has to end by one of the two below. */
  start(now: number): readonly Batch[];
  sent(batch: Batch, invoked: Invoked, now: number): Outcome;
  /** Whether a batch that is given up got to where it is kept, if anywhere. */
  kept(batch: Batch, isKept: boolean, now: number): void;
  /** When `start` has something, unless something else happens before. */
  wakeAt(): number | undefined;
  readonly hasRoom: boolean;
  /** Everything taken is done. */
  readonly isEmpty: boolean;
  readonly doneUpTo: string | undefined;
}

export type BatchRules = RetryRules &
  Pick<StreamMappingModel, 'batchSize' | 'windowMs' | 'parallelBatches' | 'reportsItemFailures' | 'filters'>;

/** Lambda's limit of a request: 6 MB, and of it what is around the records. */
const PAYLOAD_BYTES_MAX = 6 * 1_024 * 1_024;
const ENVELOPE_BYTES = '{"Records":[]}'.length;
const COMMA_BYTES = 1;

/** A page of the stream is taken whole; with less room, small batches would wait for reading between each two. */
const ROOM_MIN = 1_000;

interface Lane {
  readonly number: number;
  /** Collected until they make a batch. */
  waiting: Waiting[];
  /** What was begun, in its order: the first is next, or under way. */
  batches: readonly Batch[];
  isBusy: boolean;
}

interface Waiting {
  readonly record: StreamRecord;
  readonly since: number;
}

export function payloadOf({ records }: Pick<Batch, 'records'>): string {
  return `{"Records":[${records.map(({ text }) => text).join(',')}]}`;
}

export function shardBatches(rules: BatchRules): ShardBatches {
  const { batchSize, windowMs, parallelBatches } = rules;
  const lanes = Array.from({ length: parallelBatches }, (_, number): Lane => {
    return { number, waiting: [], batches: [], isBusy: false };
  });
  const done = progress();
  const room = Math.max(ROOM_MIN, 2 * batchSize * parallelBatches);
  let held = 0;

  return {
    take(records, now) {
      for (const record of records) {
        done.begin(record.sequenceNumber);
        if (!isWanted(rules.filters, record.event)) done.end(record.sequenceNumber);
        else hold(record, now);
      }
    },
    start: (now) => lanes.flatMap((lane) => startOf(lane, now) ?? []),
    sent(batch, invoked, now) {
      const outcome = outcomeOf(invoked, batch.records, rules.reportsItemFailures);
      end(batch, leftOf(batch, outcome, rules, now));
      return outcome;
    },
    kept: (batch, isKept, now) => end(batch, isKept ? [] : [later(batch, rules, now)]),
    wakeAt() {
      const times = lanes.map(wakeOf).filter((at) => at !== undefined);
      return times.length === 0 ? undefined : Math.min(...times);
    },
    get hasRoom() {
      return held < room;
    },
    get isEmpty() {
      return held === 0;
    },
    get doneUpTo() {
      return done.doneUpTo;
    },
  };

  function hold(record: StreamRecord, now: number): void {
    lanes[laneOf(record)]?.waiting.push({ record, since: now });
    held += 1;
  }

  /** All changes of an item are in one lane, and a lane does one batch at a time. */
  function laneOf({ item }: StreamRecord): number {
    if (parallelBatches === 1) return 0;
    return createHash('sha256').update(item).digest().readUInt32BE() % parallelBatches;
  }

  function startOf(lane: Lane, now: number): Batch | undefined {
    if (lane.isBusy) return undefined;
    if (lane.batches.length === 0) lane.batches = collected(lane, now);
    const [next, ...others] = lane.batches;
    if (!next || next.notBefore > now) return undefined;
    lane.batches = [...withoutAged(next, rules, now), ...others];
    lane.isBusy = true;
    return lane.batches[0];
  }

  function collected(lane: Lane, now: number): readonly Batch[] {
    const [first] = lane.waiting;
    if (!first || (first.since + windowMs > now && !isFull(lane))) return [];
    const records = lane.waiting.splice(0, fitting(lane)).map(({ record }) => record);
    return [firstTry(lane.number, records)];
  }

  /** No more would go with it: by their number, or by their size. */
  function isFull(lane: Lane): boolean {
    const count = fitting(lane);
    return count >= batchSize || count < lane.waiting.length;
  }

  function fitting({ waiting }: Lane): number {
    let bytes = ENVELOPE_BYTES;
    const over = waiting.slice(0, batchSize).findIndex(({ record }, place) => {
      bytes += record.bytes + COMMA_BYTES;
      return bytes - COMMA_BYTES > PAYLOAD_BYTES_MAX && place > 0;
    });
    return over < 0 ? Math.min(batchSize, waiting.length) : over;
  }

  function end(batch: Batch, left: readonly Batch[]): void {
    const lane = lanes[batch.lane];
    if (!lane?.isBusy || lane.batches[0] !== batch) {
      throw new Error(`A batch of lane ${batch.lane} ended that was not under way; each ends once.`);
    }
    lane.isBusy = false;
    lane.batches = [...left, ...lane.batches.slice(1)];
    const open = new Set(left.flatMap(({ records }) => records));
    for (const record of batch.records) {
      if (open.has(record)) continue;
      done.end(record.sequenceNumber);
      held -= 1;
    }
  }

  function wakeOf(lane: Lane): number | undefined {
    if (lane.isBusy) return undefined;
    const [next] = lane.batches;
    if (next) return next.notBefore;
    const [first] = lane.waiting;
    return first && first.since + windowMs;
  }
}
