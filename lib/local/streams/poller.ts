import { randomUUID } from 'node:crypto';
import type { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { requireKnownPattern } from '../events/pattern.ts';
import type { StreamMappingModel } from '../model.ts';
import type { Functions, ObjectStore, Reporter } from '../ports.ts';
import type { Timers } from '../timers.ts';
import { shardBatches } from './batches.ts';
import { type Checkpoints, memoryCheckpoints, type ShardPosition } from './checkpoints.ts';
import { type ListedShard, latest, lost, readable } from './lineage.ts';
import { outage } from './outage.ts';
import { positionKeeper } from './positions.ts';
import { runShard, type ShardRun } from './shard.ts';
import { type StartPosition, streamApi } from './stream-api.ts';

export interface StreamPollerOptions {
  readonly model: StreamMappingModel;
  readonly streamArn: string;
  readonly client: DynamoDBStreamsClient;
  readonly functions: Pick<Functions, 'invoke'>;
  readonly objects: Pick<ObjectStore, 'put'>;
  readonly report: Reporter;
  readonly clock: () => number;
  readonly timers: Timers;
  /** Of this mapping alone. By default a restart begins anew. */
  readonly checkpoints?: Checkpoints;
  readonly newId?: () => string;
  readonly pauses?: Partial<Pauses>;
}

export interface StreamPoller {
  /** Waits a while for what is under way, and leaves what is not done to the next start. */
  close(): Promise<void>;
  /** Everything that was read is done, and there was no more when it last looked. */
  idle(): boolean;
}

export interface Pauses {
  /** Lambda looks four times a second. */
  readonly pollMs: number;
  /** Between two looks for new shards; the end of one is a reason to look at once. */
  readonly shardsMs: number;
  /** Of a batch that failed: doubled each time, up to the longest. */
  readonly firstRetryMs: number;
  readonly longestRetryMs: number;
  /** Of a stream that does not answer, likewise. */
  readonly firstOutageMs: number;
  readonly longestOutageMs: number;
  /** How long `close` waits for what is under way. */
  readonly closeMs: number;
}

const PAUSES: Pauses = {
  pollMs: 250,
  shardsMs: 10_000,
  firstRetryMs: 1_000,
  longestRetryMs: 60_000,
  firstOutageMs: 250,
  longestOutageMs: 10_000,
  closeMs: 5_000,
};

/** A stream keeps its records for a day; no retry lasts longer. */
const RETENTION_MS = 24 * 3_600_000;

/** Lambda's event source mapping: reads a stream, and has one function do what its records ask for. */
export function streamPoller(options: StreamPollerOptions): StreamPoller {
  const { model, streamArn, report, clock, timers, checkpoints = memoryCheckpoints() } = options;
  for (const [place, filter] of model.filters.entries()) {
    requireKnownPattern(filter, `filter ${place + 1} of the mapping ${model.name}`);
  }
  const pauses = { ...PAUSES, ...options.pauses };
  const name = `The mapping ${model.name}`;
  const api = streamApi(options.client, streamArn, clock);
  const pausesOfOutage = { firstPauseMs: pauses.firstOutageMs, longestPauseMs: pauses.longestOutageMs };
  const trouble = outage({ name, report, clock, ...pausesOfOutage });
  const positions = positionKeeper({ name, streamArn, checkpoints, report, clock });
  const running = new Map<string, ShardRun>();
  let hasLooked = false;
  let isClosed = false;
  let cancelTimer = () => {};
  let looking = begin();
  let closing: Promise<void> | undefined;

  return {
    idle: () => hasLooked && [...running.values()].every((shard) => shard.isIdle()),
    close: () => {
      closing ??= close();
      return closing;
    },
  };

  async function close(): Promise<void> {
    isClosed = true;
    cancelTimer();
    for (const shard of running.values()) shard.stop();
    api.close();
    await Promise.all([looking, inTime(running.values())]);
    for (const shard of running.values()) shard.abandon();
    await positions.saved();
  }

  async function begin(): Promise<void> {
    await positions.load();
    await lookForShards();
  }

  async function lookForShards(): Promise<void> {
    let pauseMs = pauses.shardsMs;
    try {
      const listed = await api.shards();
      if (isClosed) return;
      trouble.ended('shards');
      runAll(listed);
      hasLooked = true;
    } catch (error) {
      if (!isClosed) pauseMs = trouble.began('shards', error);
    }
    if (!isClosed) lookAgain(pauseMs);
  }

  function lookAgain(ms: number): void {
    cancelTimer();
    cancelTimer = timers.after(ms, () => {
      looking = lookForShards();
    });
  }

  function runAll(listed: readonly ListedShard[]): void {
    const atLatest = positions.isNew && model.startAt === 'LATEST';
    if (atLatest) positions.set(latest(listed, clock()));
    for (const id of lost(listed, positions.all)) {
      if (running.has(id)) continue; // Its reader finds out, and what it has read is still done.
      warn(`${name} was not through with ${id}, which the stream no longer has; what was in it is lost.`);
    }
    for (const { id } of readable(listed, positions.all)) {
      if (running.has(id)) continue;
      running.set(id, run(id, atLatest ? 'latest' : (positions.all.get(id) ?? 'horizon')));
    }
    positions.keepOnly(new Set([...listed.map(({ id }) => id), ...running.keys()]));
  }

  function run(shardId: string, from: StartPosition): ShardRun {
    const { functions, objects, newId = randomUUID } = options;
    const { pollMs, firstRetryMs: firstPauseMs, longestRetryMs: longestPauseMs } = pauses;
    const maxAgeMs = Math.min(model.maxAgeMs, RETENTION_MS);
    const batches = shardBatches({ ...model, maxAgeMs, firstPauseMs, longestPauseMs });
    return runShard({
      ...{ shardId, model, streamArn, functions, objects, report, clock, timers, newId, pollMs },
      reader: api.reader(shardId, from),
      batches,
      outage: trouble,
      moved: (position) => move(shardId, position),
    });
  }

  function move(shardId: string, position: ShardPosition): void {
    positions.set(new Map([[shardId, position]]));
    if (!('ended' in position)) return;
    running.delete(shardId);
    hasLooked = false; // For its children.
    if (!isClosed) lookAgain(0);
  }

  /** A function may take minutes, and whoever closes does not want to wait for them. */
  async function inTime(shards: Iterable<ShardRun>): Promise<void> {
    const all = Promise.all([...shards].map((shard) => shard.stopped()));
    let cancel = () => {};
    const over = new Promise<void>((resolve) => {
      cancel = timers.after(pauses.closeMs, resolve);
    });
    await Promise.race([all, over]);
    cancel();
  }

  function warn(message: string): void {
    report({ at: clock(), source: 'stream', level: 'warn', kind: 'platform', message });
  }
}
