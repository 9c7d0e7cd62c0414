import {
  DescribeStreamCommand,
  type DynamoDBStreamsClient,
  ExpiredIteratorException,
  GetRecordsCommand,
  GetShardIteratorCommand,
  ResourceNotFoundException,
  type Shard,
  TrimmedDataAccessException,
} from '@aws-sdk/client-dynamodb-streams';
import { type Change, sdkRecord } from './changes.ts';

interface FakeShard {
  readonly parent: string | undefined;
  readonly records: ReturnType<typeof sdkRecord>[];
  isClosed: boolean;
  trimmedUpTo: number;
}

const PAGE_SHARDS = 2;
const ITERATOR_MS = 15 * 60_000;
const about = (message: string) => ({ message, $metadata: {} });

/** A stream whose shards a test opens, closes and takes away, behind the API of the real one. */
export function fakeStream(clock: () => number, pageRecords = 1_000) {
  const shards = new Map<string, FakeShard>();
  let number = 0;
  let failure: Error | undefined;
  let reads = 0;
  const asked: string[] = [];

  return {
    /** The iterators that were asked for. */
    asked,
    get reads() {
      return reads;
    },
    open(id: string, parent?: string) {
      shards.set(id, { parent, records: [], isClosed: false, trimmedUpTo: 0 });
    },
    close(id: string) {
      shardOf(id).isClosed = true;
    },
    remove: (id: string) => shards.delete(id),
    trim(id: string) {
      const shard = shardOf(id);
      shard.trimmedUpTo = shard.records.length;
    },
    /** Everything that is asked fails with it. */
    fail(error: Error | undefined) {
      failure = error;
    },
    write(id: string, ...of: Change[]) {
      for (const one of of) {
        number += 1;
        shardOf(id).records.push(sdkRecord(number, { at: clock(), ...one }));
      }
    },
    client: { send } as unknown as DynamoDBStreamsClient,
  };

  async function send(command: unknown, { abortSignal }: { abortSignal: AbortSignal }): Promise<object> {
    if (abortSignal.aborted) throw new DOMException('Request aborted', 'AbortError');
    if (failure) throw failure;
    if (command instanceof DescribeStreamCommand) return describe(command.input.ExclusiveStartShardId);
    if (command instanceof GetShardIteratorCommand) return iterator(command.input);
    if (command instanceof GetRecordsCommand) return records(command.input.ShardIterator ?? '');
    throw new Error(`The stream was sent ${command}.`);
  }

  function describe(from: string | undefined): object {
    const ids = [...shards.keys()];
    const start = from === undefined ? 0 : ids.indexOf(from) + 1;
    const page = ids.slice(start, start + PAGE_SHARDS);
    const more = start + PAGE_SHARDS < ids.length;
    const Shards = page.map((id): Shard => {
      const { parent, isClosed } = shardOf(id);
      const range = { StartingSequenceNumber: '0', ...(isClosed && { EndingSequenceNumber: '9' }) };
      return { ShardId: id, ...(parent && { ParentShardId: parent }), SequenceNumberRange: range };
    });
    return { StreamDescription: { Shards, ...(more && { LastEvaluatedShardId: page.at(-1) }) } };
  }

  function iterator({
    ShardId: id = '',
    ShardIteratorType: type,
    SequenceNumber: after,
  }: GetShardIteratorCommand['input']) {
    const shard = shardOf(id);
    asked.push(`${id} ${type}${after ? ` ${after}` : ''}`);
    const at = shard.records.findIndex(({ dynamodb }) => dynamodb.SequenceNumber === after);
    const places = {
      TRIM_HORIZON: shard.trimmedUpTo,
      LATEST: shard.records.length,
      AFTER_SEQUENCE_NUMBER: at + 1,
    };
    return iteratorAt(id, places[type as keyof typeof places]);
  }

  function iteratorAt(id: string, place: number) {
    return { ShardIterator: [id, place, clock() + ITERATOR_MS].join('|') };
  }

  function records(iterated: string): object {
    reads += 1;
    const [id = '', place = '', expiresAt = ''] = iterated.split('|');
    const shard = shardOf(id);
    if (Number(expiresAt) < clock()) throw new ExpiredIteratorException(about('The iterator has expired.'));
    if (Number(place) < shard.trimmedUpTo) throw new TrimmedDataAccessException(about('It is trimmed.'));
    const found = shard.records.slice(Number(place), Number(place) + pageRecords);
    const next = Number(place) + found.length;
    const isLast = shard.isClosed && next === shard.records.length;
    return { Records: found, ...(!isLast && { NextShardIterator: iteratorAt(id, next).ShardIterator }) };
  }

  function shardOf(id: string): FakeShard {
    const shard = shards.get(id);
    if (!shard) throw new ResourceNotFoundException(about('Shard does not exist'));
    return shard;
  }
}
