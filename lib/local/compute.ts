import { type AwsEndpoints, awsEndpoints } from './aws/endpoints.ts';
import { folderObjects } from './aws/folder-objects.ts';
import { memoryObjects } from './aws/memory-objects.ts';
import { eventBus } from './events/bus.ts';
import { memoryQueues } from './functions/memory-queues.ts';
import { type FunctionPool, functionPool } from './functions/pool.ts';
import type { CloudModel } from './model.ts';
import type { Opened } from './opened.ts';
import type { PlaceOf } from './places.ts';
import type { ObjectStore, Reporter } from './ports.ts';

export interface ComputePorts {
  /** What each secret holds, by its ARN. */
  readonly secrets: ReadonlyMap<string, string>;
  readonly storeUrl: string;
  readonly report: Reporter;
  readonly place: PlaceOf;
  readonly opened: Opened;
}

export interface Compute {
  readonly functions: FunctionPool;
  readonly objects: ObjectStore;
}

/** The functions, and the services of AWS that they ask. Each needs the other: a function may invoke a function. */
export async function startCompute(model: CloudModel, ports: ComputePorts): Promise<Compute> {
  const { secrets, storeUrl, report, place, opened } = ports;
  const clock = Date.now;
  let aws: AwsEndpoints | undefined;
  const endpoints = () => ({ ...aws?.variables, AWS_ENDPOINT_URL_DYNAMODB: storeUrl });
  const functions: FunctionPool = await opened.keep(
    functionPool({ models: model.functions, report, clock, endpoints, queues: memoryQueues() }),
  );
  const bus = eventBus({ rules: model.rules, functions, report, clock });
  const { folder } = place('objects');
  const buckets = { buckets: model.buckets, bus, clock };
  const objects = folder === undefined ? memoryObjects(buckets) : folderObjects(folder, buckets);
  aws = await opened.keep(awsEndpoints({ functions, objects, secrets, report, clock }));
  return { functions, objects };
}
