import {
  DescribeStreamCommand,
  type DynamoDBStreamsClient,
  GetRecordsCommand,
  GetShardIteratorCommand,
} from '@aws-sdk/client-dynamodb-streams';
import type { ShardPosition } from './checkpoints.ts';
import type { ListedShard } from './lineage.ts';
import { type StreamRecord, streamRecord } from './record.ts';

/** What is asked of DynamoDB Streams, of one stream. */
export interface StreamApi {
  shards(): Promise<readonly ListedShard[]>;
  reader(shardId: string, from: StartPosition): ShardReader;
  /** Breaks off what is being asked. */
  close(): void;
}

export type StartPosition = ShardPosition | 'horizon' | 'latest';

export interface ShardReader {
  read(): Promise<Page>;
}

export type Page =
  | {
      readonly kind: 'records';
      readonly records: readonly StreamRecord[];
      /** The shard is closed, and this was its last. */
      readonly isLast: boolean;
    }
  /** What was to be read has been trimmed. The next page is of the oldest that there is. */
  | { readonly kind: 'trimmed' }
  /** The stream has no such shard any more. */
  | { readonly kind: 'gone' };

/** As many as there are in an answer of the stream, at most. */
const PAGE_RECORDS = 1_000;

export function streamApi(client: DynamoDBStreamsClient, streamArn: string, clock: () => number): StreamApi {
  const closing = new AbortController();
  const options = { abortSignal: closing.signal };
  return { shards, reader, close: () => closing.abort() };

  async function shards(): Promise<readonly ListedShard[]> {
    const listed: ListedShard[] = [];
    let from: string | undefined;
    do {
      const page = { StreamArn: streamArn, ...(from && { ExclusiveStartShardId: from }) };
      const { StreamDescription: found } = await client.send(new DescribeStreamCommand(page), options);
      for (const { ShardId: id, ParentShardId: parent, SequenceNumberRange: range } of found?.Shards ?? []) {
        if (id !== undefined)
          listed.push({ id, parent, isClosed: range?.EndingSequenceNumber !== undefined });
      }
      from = found?.LastEvaluatedShardId;
    } while (from !== undefined);
    return listed;
  }

  function reader(shardId: string, from: StartPosition): ShardReader {
    let position = from;
    let iterator: string | undefined;
    /** Of a mapping that began at the latest and has to look through what is older. */
    let skipBefore = Number.NEGATIVE_INFINITY;
    return {
      async read() {
        try {
          return await unexpired();
        } catch (error) {
          if (isCalled(error, 'ResourceNotFoundException')) return { kind: 'gone' };
          if (!isCalled(error, 'TrimmedDataAccessException')) throw error;
          iterator = undefined;
          position = 'horizon';
          return { kind: 'trimmed' };
        }
      },
    };

    /** An iterator is good for a quarter of an hour; a machine sleeps longer than that. */
    async function unexpired(): Promise<Page> {
      try {
        return await page();
      } catch (error) {
        if (!isCalled(error, 'ExpiredIteratorException')) throw error;
        iterator = undefined;
        return page();
      }
    }

    async function page(): Promise<Page> {
      iterator ??= await newIterator();
      const asked = new GetRecordsCommand({ ShardIterator: iterator, Limit: PAGE_RECORDS });
      const { Records: found = [], NextShardIterator: next } = await client.send(asked, options);
      iterator = next;
      const read = found.map((record) => streamRecord(record, streamArn, clock()));
      const last = read.at(-1);
      if (last) position = { after: last.sequenceNumber };
      return {
        kind: 'records',
        records: read.filter(({ arrivedAt }) => arrivedAt >= skipBefore),
        isLast: next === undefined,
      };
    }

    async function newIterator(): Promise<string> {
      const at = clock();
      skipBefore = sinceIn(position) ?? skipBefore;
      const asked = { StreamArn: streamArn, ShardId: shardId, ...placeOf(position) };
      const { ShardIterator: found } = await client.send(new GetShardIteratorCommand(asked), options);
      if (found === undefined) throw new Error(`The stream gave no iterator for ${shardId}.`);
      // Whoever has to ask again means the same records, and not those that are the latest by then.
      if (position === 'latest') position = { since: at };
      return found;
    }
  }
}

function sinceIn(position: StartPosition): number | undefined {
  return typeof position === 'object' && 'since' in position ? position.since : undefined;
}

function isCalled(error: unknown, name: string): boolean {
  return error instanceof Error && error.name === name;
}

function placeOf(position: StartPosition) {
  if (position === 'latest') return { ShardIteratorType: 'LATEST' } as const;
  if (typeof position === 'object' && 'after' in position) {
    return { ShardIteratorType: 'AFTER_SEQUENCE_NUMBER', SequenceNumber: position.after } as const;
  }
  return { ShardIteratorType: 'TRIM_HORIZON' } as const;
}
