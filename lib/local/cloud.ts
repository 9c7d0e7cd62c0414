import { join } from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { awsEndpoints } from './aws/endpoints.ts';
import { folderObjects, memoryObjects } from './aws/objects.ts';
import { shownRecords } from './control/records.ts';
import { eventBus } from './events/bus.ts';
import { requireKnownPattern } from './events/pattern.ts';
import { schedules } from './events/schedules.ts';
import { memoryQueues } from './functions/memory-queues.ts';
import { type FunctionPool, functionPool } from './functions/pool.ts';
import { httpApi } from './gateway/http-api.ts';
import { jwtAuthorizer } from './gateway/jwt-authorizer.ts';
import { listen } from './gateway/listen.ts';
import { localIssuer } from './gateway/local-issuer.ts';
import type { CloudModel } from './model.ts';
import { Opened } from './opened.ts';
import { fastPace } from './pace.ts';
import type { Reporter } from './ports.ts';
import { stripeSimulator } from './provider/simulator.ts';
import * as reference from './reference.ts';
import type { LocalSettings } from './settings.ts';
import { localClientConfig } from './store/client.ts';
import { dynamoDbLocal } from './store/dynamodb-local.ts';
import { storeProxy } from './store/store-proxy.ts';
import { createTables } from './store/tables.ts';
import { fileCheckpoints, memoryCheckpoints } from './streams/checkpoints.ts';
import { streamPoller } from './streams/poller.ts';
import { readAssembly } from './template/assembly.ts';
import { hastened } from './template/hastened.ts';
import { modelOf } from './template/model-of.ts';
import { synthesise } from './template/synthesis.ts';
import { realTimers } from './timers.ts';

/** Of the folder that `--data` names. */
const PLACES = { store: 'dynamodb', provider: 'provider', issuer: 'issuer', objects: 'objects', streams: 'streams' };

export interface CloudOptions {
  readonly settings: LocalSettings;
  /** Where cdk.json is. */
  readonly folder: string;
  readonly environment: NodeJS.ProcessEnv;
  readonly report: Reporter;
  readonly progress: (what: string) => void;
  /** Ends it, whether it has started or is about to. */
  readonly signal: AbortSignal;
}

export interface Cloud {
  readonly url: string;
  close(): Promise<void>;
}

/** The synthesised stacks on this machine: what the template names is run, and what it does not is not. */
export async function startCloud(options: CloudOptions): Promise<Cloud> {
  const opened = new Opened();
  const end = () => void opened.close().catch(() => undefined);
  options.signal.addEventListener('abort', end, { once: true });
  try {
    return await start(options, opened);
  } catch (error) {
    await opened.close().catch(() => undefined);
    throw options.signal.aborted ? new Ended() : error;
  }
}

async function start(options: CloudOptions, opened: Opened): Promise<Cloud> {
  const { settings, environment, report, progress } = options;
  const place = (name: keyof typeof PLACES) =>
    settings.dataFolder === undefined ? {} : { folder: join(settings.dataFolder, PLACES[name]) };
  const door = new FrontDoor();
  const { url } = await opened.keep(listen({ port: settings.port, listener: door.listener }));

  progress('synthesising the stacks, and starting DynamoDB Local');
  const [model, store] = await both(
    synthesised(options, opened),
    opened.keep(dynamoDbLocal({ ...place('store'), environment, report })),
  );

  progress('creating the tables');
  const clock = Date.now;
  const common = { report, clock, timers: realTimers };
  const client = kept(opened, new DynamoDBClient(localClientConfig(store.endpoint)));
  const streamArns = await createTables(client, model.tables, place('store'));

  const secrets = reference.newSecrets();
  const random = Math.random;
  const provider = await opened.keep(
    stripeSimulator({ ...common, ...place('provider'), apiKey: secrets.apiKey, random }),
  );
  const hooks = reference.webhookPath(model);
  if (hooks !== undefined) provider.setWebhooks({ url: `${url}${hooks}`, secret: secrets.webhookSecret });
  const proxy = await opened.keep(storeProxy({ ...common, target: store.endpoint, random }));

  progress('starting the functions');
  const { functions: models } = reference.withProvider(model, provider.url);
  const queues = memoryQueues();
  const endpoints = () => ({ ...aws.variables, AWS_ENDPOINT_URL_DYNAMODB: proxy.url });
  const functions: FunctionPool = await opened.keep(
    functionPool({ ...common, models, queues, endpoints }),
  );
  const bus = eventBus({ rules: model.rules, functions, report, clock });
  const { folder } = place('objects');
  const buckets = { buckets: model.buckets, bus, clock };
  const objects = folder === undefined ? memoryObjects(buckets) : folderObjects({ ...buckets, folder });
  const values = reference.secretValues(model, secrets);
  const aws = await opened.keep(awsEndpoints({ functions, objects, secrets: values, report, clock }));

  const issuer = await localIssuer({ issuer: issuerName(model), ...place('issuer'), clock });
  const authorize = jwtAuthorizer({ keys: (name) => (name === issuer.issuer ? issuer.keys : undefined), clock });
  const [api] = model.apis;
  if (api) door.api = httpApi({ api, functions, authorize, ...common, random });
  const routed = model.apis.flatMap(({ routes }) => routes.map(({ functionName }) => functionName));
  await functions.prewarm([...new Set(routed)]);

  const streams = kept(opened, new DynamoDBStreamsClient(localClientConfig(store.endpoint)));
  for (const mapping of model.mappings) {
    const { folder: at } = place('streams');
    const checkpoints = at === undefined ? memoryCheckpoints() : fileCheckpoints(join(at, `${mapping.name}.json`));
    const streamArn = streamArns.get(mapping.tableName) ?? '';
    const poller = streamPoller({ ...common, model: mapping, streamArn, client: streams, functions, objects, checkpoints });
    await opened.keep(poller);
  }
  await opened.keep(schedules({ ...common, models: model.schedules, functions }));
  return { url, close: () => opened.close() };
}
