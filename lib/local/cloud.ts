import { startBackground } from './background.ts';
import { type Compute, startCompute } from './compute.ts';
import { controlPlane } from './control/control-plane.ts';
import { shownRecords } from './control/records.ts';
import { FrontDoor } from './front-door.ts';
import { httpApi } from './gateway/http-api.ts';
import { jwtAuthorizer } from './gateway/jwt-authorizer.ts';
import { listen } from './gateway/listen.ts';
import { type LocalIssuer, localIssuer } from './gateway/local-issuer.ts';
import type { CloudModel } from './model.ts';
import { Ended, Opened } from './opened.ts';
import { type PlaceOf, placesIn } from './places.ts';
import type { Reporter } from './ports.ts';
import { type StripeSimulator, stripeSimulator } from './provider/simulator.ts';
import {
  issuerName,
  ledgerTables,
  newSecrets,
  secretValues,
  tokenFor,
  webhookPath,
  withProvider,
} from './reference.ts';
import type { LocalSettings } from './settings.ts';
import { readStacks } from './stacks.ts';
import { openStorage, type Storage } from './storage.ts';
import { dynamoDbLocal } from './store/dynamodb-local.ts';
import { realTimers } from './timers.ts';

/**
 * As at Stripe, an answer is there before its event. One that overtakes it is refused and comes again, so that every payment
 * that goes well would be told as a failure.
 */
const WEBHOOK_DELAY_MS = 1_000;

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

/** The synthesised stacks on this machine: what the templates name is run, and what cannot be is said at the start. */
export async function startCloud(options: CloudOptions): Promise<Cloud> {
  const { signal } = options;
  const opened = new Opened();
  const end = () => void opened.close().catch(() => undefined);
  signal.addEventListener('abort', end, { once: true });
  try {
    signal.throwIfAborted();
    return await start(options, opened);
  } catch (error) {
    await opened.close().catch(() => undefined);
    throw signal.aborted ? new Ended() : error;
  }
}

async function start(options: CloudOptions, opened: Opened): Promise<Cloud> {
  const { settings, environment, report, progress } = options;
  const place = placesIn(settings.dataFolder);
  const common = { report, place, opened };
  const door = new FrontDoor();
  const { url } = await opened.keep(listen({ port: settings.port, listener: door.listener }));

  progress('Synthesising the stacks, and starting DynamoDB Local');
  const [found, store] = await Promise.all([
    readStacks({ ...options, ...settings }, opened),
    opened.keep(dynamoDbLocal({ ...place('store'), environment, report })),
  ]);
  progress('Creating the tables, and starting the payment provider');
  const storage = await openStorage(store, found, common);
  const secrets = newSecrets();
  const provider = await startProvider(secrets.apiKey, common);
  const hooks = webhookPath(found);
  if (hooks !== undefined) {
    const secret = secrets.webhookSecret;
    provider.setWebhooks({ url: `${url}${hooks}`, secret, delayMs: WEBHOOK_DELAY_MS });
  }

  const model = withProvider(found, provider.url);
  progress(`Starting ${model.functions.length} functions`);
  const told = { secrets: secretValues(model, secrets), storeUrl: storage.proxy.url };
  const compute = await startCompute(model, { ...common, ...told });
  const issuer = await localIssuer({ issuer: issuerName(model), ...place('issuer') });
  let ready = false;
  const parts = { model, storage, provider, compute, issuer, isReady: () => ready };
  door.control = controlPlane(controlOf(parts));
  door.api = apiOf(parts, report);
  const routed = model.apis.flatMap(({ routes }) => routes.map(({ functionName }) => functionName));
  await compute.functions.prewarm([...new Set(routed)]);
  await startBackground(model, { ...common, ...compute, ...storage });
  ready = true;
  return { url, close: () => opened.close() };
}

function startProvider(
  apiKey: string,
  { report, place, opened }: { report: Reporter; place: PlaceOf; opened: Opened },
): Promise<StripeSimulator> {
  const ports = { clock: Date.now, random: Math.random, timers: realTimers, report };
  return opened.keep(stripeSimulator({ apiKey, ...place('provider'), ...ports }));
}

interface Parts {
  readonly model: CloudModel;
  readonly storage: Storage;
  readonly provider: StripeSimulator;
  readonly compute: Compute;
  readonly issuer: LocalIssuer;
  readonly isReady: () => boolean;
}

function apiOf({ model, compute, issuer }: Parts, report: Reporter) {
  const keys = (name: string) => (name === issuer.issuer ? issuer.keys : undefined);
  const [api] = model.apis;
  return api && httpApi({ api, functions: compute.functions, authorize: jwtAuthorizer({ keys }), report });
}

function controlOf({ model, storage, provider, compute, issuer, isReady }: Parts) {
  const { faults: store } = storage.proxy;
  return {
    health: () => ({ ready: isReady(), functions: compute.functions.names }),
    token: (tenant: string) => tokenFor(model, issuer, tenant),
    charges: () => provider.charges(),
    providerFaults: {
      get: () => provider.faults.current(),
      set: (value: unknown) => provider.faults.set(value),
    },
    storeFaults: { get: () => store.get(), set: (value: unknown) => store.set(value) },
    signal: (name: string, signal: NodeJS.Signals) => compute.functions.kill(name, signal),
    async records() {
      const tables = await Promise.all(ledgerTables(model).map((name) => shownRecords(storage.client, name)));
      return tables.flat();
    },
  };
}
