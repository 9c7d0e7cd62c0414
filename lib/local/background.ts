import { join } from 'node:path';
import type { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { schedules } from './events/schedules.ts';
import type { CloudModel } from './model.ts';
import type { Opened } from './opened.ts';
import type { PlaceOf } from './places.ts';
import type { Functions, ObjectStore, Reporter } from './ports.ts';
import { fileCheckpoints, memoryCheckpoints } from './streams/checkpoints.ts';
import { type StreamPoller, streamPoller } from './streams/poller.ts';
import { realTimers } from './timers.ts';

export interface BackgroundPorts {
  readonly functions: Functions;
  readonly objects: ObjectStore;
  readonly streams: DynamoDBStreamsClient;
  readonly streamArns: ReadonlyMap<string, string>;
  readonly report: Reporter;
  readonly place: PlaceOf;
  readonly opened: Opened;
}

/** What invokes functions without anybody's request: the streams of the tables, and the clock. */
export async function startBackground(model: CloudModel, ports: BackgroundPorts): Promise<void> {
  const { functions, objects, report, place, opened, streamArns } = ports;
  const common = { report, clock: Date.now, timers: realTimers };
  for (const mapping of model.mappings) {
    const streamArn = streamArns.get(mapping.tableName);
    // The template was read so that a mapping leads to a table with a stream.
    if (streamArn === undefined) throw new TypeError(`The table ${mapping.tableName} has no stream.`);
    const { folder } = place('streams');
    const checkpoints =
      folder === undefined ? memoryCheckpoints() : fileCheckpoints(join(folder, `${mapping.name}.json`));
    const reading = { model: mapping, streamArn, client: ports.streams, checkpoints };
    await opened.keep<StreamPoller>(streamPoller({ ...common, ...reading, functions, objects }));
  }
  await opened.keep(schedules({ ...common, models: model.schedules, functions }));
}
