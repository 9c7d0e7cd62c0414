import { setTimeout as pause } from 'node:timers/promises';
import { DescribeTableCommand } from '@aws-sdk/client-dynamodb';
import { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { afterAll, inject } from 'vitest';
import type { StreamMappingModel } from '../../../lib/local/model.ts';
import type { Functions, Report } from '../../../lib/local/ports.ts';
import type { Checkpoints } from '../../../lib/local/streams/checkpoints.ts';
import { type Pauses, streamPoller } from '../../../lib/local/streams/poller.ts';
import { realTimers } from '../../../lib/local/timers.ts';
import type { TestTable } from '../../support/table.ts';
import { mapping } from './changes.ts';

const LOOK_AGAIN_MS = 20;

/** Real processes take the time that they take; a test that fails is ended by its own limit. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await pause(LOOK_AGAIN_MS);
}

/** A mapping over the real stream of a test's table. */
export function realStream(table: Pick<TestTable, 'tableName' | 'client'>) {
  const client = new DynamoDBStreamsClient({
    endpoint: inject('dynamoDbEndpoint'),
    region: 'local',
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
  });
  afterAll(() => client.destroy());
  const objects = new Map<string, string>();
  const reports: Report[] = [];

  return {
    objects,
    reports,
    async start(
      invoke: Functions['invoke'],
      more: Partial<StreamMappingModel> = {},
      { checkpoints, pauses }: { checkpoints?: Checkpoints; pauses?: Partial<Pauses> } = {},
    ) {
      const { tableName: TableName } = table;
      const { Table } = await table.client.send(new DescribeTableCommand({ TableName }));
      return streamPoller({
        model: { ...mapping, ...more },
        streamArn: String(Table?.LatestStreamArn),
        client,
        functions: { invoke },
        objects: {
          async put(bucket, key, body) {
            objects.set(`${bucket}/${key}`, body);
            return { versionId: '1' };
          },
        },
        report: (report) => reports.push(report),
        clock: Date.now,
        timers: realTimers,
        pauses: { pollMs: LOOK_AGAIN_MS, ...pauses },
        ...(checkpoints && { checkpoints }),
      });
    },
  };
}
