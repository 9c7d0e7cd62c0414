import type { StreamMappingModel } from '../model.ts';
import type { Functions, Invoked, ObjectStore, Reporter } from '../ports.ts';
import type { Timers } from '../timers.ts';
import type { Outcome } from './answer.ts';
import type { Batch } from './batch.ts';
import { payloadOf, type ShardBatches } from './batches.ts';
import type { ShardPosition } from './checkpoints.ts';
import { failedObject } from './failed-object.ts';
import type { Outage } from './outage.ts';
import type { Page, ShardReader } from './stream-api.ts';

export interface ShardOptions {
  readonly shardId: string;
  readonly model: StreamMappingModel;
  readonly streamArn: string;
  readonly reader: ShardReader;
  readonly batches: ShardBatches;
  readonly functions: Pick<Functions, 'invoke'>;
  readonly objects: Pick<ObjectStore, 'put'>;
  readonly outage: Outage;
  readonly report: Reporter;
  readonly clock: () => number;
  readonly timers: Timers;
  readonly newId: () => string;
  /** Between two looks at a shard that had nothing. */
  readonly pollMs: number;
  /** Told of each step, so that a restart goes on from it. The last one is that the shard has ended. */
  readonly moved: (position: ShardPosition) => void;
}

export interface ShardRun {
  /** The last look found nothing, and everything read before is done. */
  isIdle(): boolean;
  /** Reads and sends nothing more. What is under way may still end, and counts where it ends well. */
  stop(): void;
  /** Resolves when nothing is under way. */
  stopped(): Promise<unknown>;
  /** Whatever is still under way counts for nothing. */
  abandon(): void;
}

/** Reads a shard to its end, and does what its batches decide. */
export function runShard(options: ShardOptions): ShardRun {
  const { shardId, model, reader, batches, functions, objects, outage, report, clock, timers } = options;
  const underWay = new Set<Promise<void>>();
  let state: 'open' | 'readToEnd' | 'stopped' | 'abandoned' = 'open';
  let isReading = false;
  let foundNothing = false;
  let readAt = clock();
  let position: string | undefined;
  let cancelTimer = () => {};
  goOn();

  return {
    isIdle: () => (foundNothing || state !== 'open') && batches.isEmpty,
    stop() {
      state = 'stopped';
      cancelTimer();
    },
    stopped: () => Promise.allSettled([...underWay]),
    abandon() {
      state = 'abandoned';
    },
  };

  /** Starts whatever may start, and comes back when there may be more. */
  function goOn(): void {
    if (state !== 'open' && state !== 'readToEnd') return;
    cancelTimer();
    for (const batch of batches.start(clock())) keepTrack(batch.givenUp ? keep(batch) : send(batch));
    const mayRead = state === 'open' && !isReading && batches.hasRoom;
    if (mayRead && readAt <= clock()) keepTrack(read());
    else if (state === 'readToEnd' && batches.isEmpty) {
      end();
      return;
    }
    const times = [batches.wakeAt(), mayRead && !isReading ? readAt : undefined];
    const next = Math.min(...times.map((at) => at ?? Number.POSITIVE_INFINITY));
    if (next < Number.POSITIVE_INFINITY) cancelTimer = timers.after(Math.max(0, next - clock()), goOn);
  }

  function end(): void {
    state = 'stopped';
    options.moved({ ended: true });
  }

  function keepTrack(work: Promise<void>): void {
    const tracked = work.then(() => {
      underWay.delete(tracked);
      goOn();
    });
    underWay.add(tracked);
  }

  async function read(): Promise<void> {
    isReading = true;
    try {
      const page = await reader.read();
      if (state !== 'open') return;
      outage.ended(shardId);
      take(page);
    } catch (error) {
      if (state === 'open') readAt = clock() + outage.began(shardId, error);
    } finally {
      isReading = false;
    }
  }

  function take(page: Page): void {
    if (page.kind !== 'records') {
      const what = page.kind === 'gone' ? 'The shard is gone' : 'Some records were trimmed';
      say(
        'warn',
        `${what} before all of ${shardId} was read; what was in them is lost to ${model.functionName}.`,
      );
      if (page.kind === 'gone') state = 'readToEnd';
      foundNothing = false;
      readAt = clock() + options.pollMs;
      return;
    }
    batches.take(page.records, clock());
    foundNothing = page.records.length === 0;
    readAt = foundNothing ? clock() + options.pollMs : clock();
    if (page.isLast) state = 'readToEnd';
    tellPosition();
  }

  async function send(batch: Batch): Promise<void> {
    tellAge(batch);
    const invoked = await invoke(batch);
    if (state === 'abandoned' || (state === 'stopped' && invoked.kind !== 'returned')) return;
    tellOutcome(batch, batches.sent(batch, invoked, clock()));
    tellPosition();
  }

  async function invoke(batch: Batch): Promise<Invoked> {
    try {
      return await functions.invoke(model.functionName, payloadOf(batch));
    } catch (error) {
      say('error', `${model.functionName} could not be invoked: ${error}.`);
      return { kind: 'throttled' };
    }
  }

  /** Nothing that was given up is let go before it is where somebody can find it, if there is such a place. */
  async function keep(batch: Batch): Promise<void> {
    const isKept = await store(batch);
    if (state === 'abandoned') return;
    batches.kept(batch, isKept, clock());
    tellPosition();
  }

  async function store(batch: Batch): Promise<boolean> {
    const { bucket } = model.onFailure ?? {};
    const what = `${batch.records.length} records of ${shardId} (${batch.givenUp})`;
    if (bucket === undefined) {
      say('error', `${model.functionName} has lost ${what}: the mapping has no on-failure destination.`);
      return true;
    }
    const from = { model, streamArn: options.streamArn, shardId, now: clock(), newId: options.newId };
    const { key, body } = failedObject(batch, from);
    try {
      await objects.put(bucket, key, body);
      say('error', `${model.functionName} was given up on with ${what}; they are in ${bucket}/${key}.`);
      outage.ended(bucket);
      return true;
    } catch (error) {
      outage.began(bucket, error);
      return false;
    }
  }

  function tellPosition(): void {
    if (batches.doneUpTo === undefined || batches.doneUpTo === position) return;
    position = batches.doneUpTo;
    options.moved({ after: position });
  }

  /** Of the last record, as Lambda measures it. */
  function tellAge({ records }: Batch): void {
    const at = clock();
    const value = Math.max(0, at - (records.at(-1)?.arrivedAt ?? at));
    const fields = { name: 'IteratorAge', value, unit: 'Milliseconds', mapping: model.name, shardId };
    const { functionName: source } = model;
    report({ at, source, level: 'debug', kind: 'metric', message: 'IteratorAge', fields });
  }

  function tellOutcome({ records, failures }: Batch, outcome: Outcome): void {
    if (outcome.kind === 'done') return;
    const what = {
      doneBefore: 'reported failures in',
      failed: 'failed on',
      notInvoked: 'was too busy for',
    }[outcome.kind];
    say(
      'warn',
      `${model.functionName} ${what} a batch of ${records.length} records, after ${failures} retries.`,
    );
  }

  function say(level: 'warn' | 'error', message: string): void {
    const fields = { mapping: model.name, shardId };
    report({ at: clock(), source: 'stream', level, kind: 'platform', message, fields });
  }
}
