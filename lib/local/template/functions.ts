import type { FunctionModel, LaterModel } from '../model.ts';
import { functionArn } from './identities.ts';
import type { Found, Inventory } from './inventory.ts';
import type { Properties } from './properties.ts';

const KNOWN = [
  'Code',
  'Environment',
  'FunctionName',
  'Handler',
  'MemorySize',
  'PackageType',
  'Runtime',
  'Timeout',
  // Who may do what, what is kept of it, and on which machines it runs.
  'Architectures',
  'CodeSigningConfigArn',
  'Description',
  'EphemeralStorage',
  'KmsKeyArn',
  'LoggingConfig',
  'RecursiveLoop',
  'Role',
  'RuntimeManagementConfig',
  'SnapStart',
  'Tags',
  'TracingConfig',
  'VpcConfig',
];

const REASONS = {
  DeadLetterConfig:
    'the local cloud keeps no dead letters; an onFailure destination of asynchronous invocations is kept.',
  FileSystemConfigs: 'there are no network file systems in the local cloud.',
  ImageConfig: 'the local cloud runs bundles of Node, and no images.',
  Layers: 'the local cloud does not lay anything beside the code; put it into the bundle.',
  ReservedConcurrentExecutions:
    'the local cloud would start more environments than that; leave it out when the app runs here.',
};

/** As Lambda has them where a template says nothing. https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html */
const LATER: LaterModel = { retries: 2, maxAgeSeconds: 21_600 };
const TIMEOUT_SECONDS = 3;
const MEMORY_MB = 128;

export function readFunction(found: Found, inventory: Inventory): FunctionModel {
  const { properties } = found;
  properties.requireOnly(KNOWN, REASONS);
  properties.oneOf('PackageType', ['Zip'], 'Zip');
  const runtime = properties.text('Runtime');
  if (!runtime.startsWith('nodejs')) {
    throw properties.problem('Runtime', `it is ${runtime}; the local cloud runs functions on Node only.`);
  }
  const name = found.name();
  return {
    name,
    arn: functionArn(name),
    codeDir: codeOf(found, inventory),
    handler: properties.text('Handler'),
    timeoutMs: properties.number('Timeout', TIMEOUT_SECONDS) * 1_000,
    memoryMb: properties.number('MemorySize', MEMORY_MB),
    environment: environmentOf(properties.group('Environment')),
    later: laterOf(name, inventory),
  };
}

function codeOf({ resource, properties }: Found, inventory: Inventory): string {
  const code = properties.group('Code');
  code.requireOnly(['S3Bucket', 'S3Key'], {
    ZipFile: 'the local cloud runs code from a folder, and none that is in the template.',
    ImageUri: 'the local cloud runs bundles of Node, and no images.',
  });
  const key = code.text('S3Key');
  const asset = inventory.asset(key);
  if (asset && asset.packaging !== 'zip') {
    throw code.problem('S3Key', `it is the archive ${asset.path}; the local cloud runs code from a folder.`);
  }
  const folder = asset?.path ?? resource.assetPath;
  if (folder !== undefined) return folder;
  throw code.problem('S3Key', `it is ${key}, which is no asset of the app: its code is not on this machine.`);
}

function environmentOf(properties: Properties): Record<string, string> {
  const environment = properties.textsByName('Variables');
  for (const [name, value] of Object.entries(environment)) {
    if (!value.includes('.execute-api.')) continue;
    throw properties.problem(
      `Variables.${name}`,
      `it is ${value}, the address of an API on AWS; here it has another, which is known when it runs.`,
    );
  }
  return environment;
}

/** A function has one of them here, whatever version or alias of it is invoked. */
function laterOf(name: string, inventory: Inventory): LaterModel {
  const [config, second] = inventory
    .of('AWS::Lambda::EventInvokeConfig')
    .filter(({ properties }) => targetOf(properties, inventory) === name);
  if (second) {
    throw second.properties.problem(
      'FunctionName',
      `${name} has another EventInvokeConfig, ${config?.resource.logicalId}; the local cloud knows one for each function.`,
    );
  }
  return config ? readInvokeConfig(config, inventory) : LATER;
}

/** Also of one whose function is not there: then this says so. */
export function readInvokeConfig({ properties }: Found, inventory: Inventory): LaterModel {
  properties.requireOnly([
    'DestinationConfig',
    'FunctionName',
    'MaximumEventAgeInSeconds',
    'MaximumRetryAttempts',
    'Qualifier',
  ]);
  targetOf(properties, inventory);
  const destinations = properties.group('DestinationConfig');
  destinations.requireOnly(['OnFailure'], { OnSuccess: 'the local cloud tells nobody of a success.' });
  const failure = destinations.group('OnFailure');
  const queue = failure.optionalText('Destination');
  return {
    retries: properties.number('MaximumRetryAttempts', LATER.retries),
    maxAgeSeconds: properties.number('MaximumEventAgeInSeconds', LATER.maxAgeSeconds),
    ...(queue !== undefined && {
      onFailure: { queue: failure.about('Destination', () => inventory.queueAt(queue)) },
    }),
  };
}

function targetOf(properties: Properties, inventory: Inventory): string {
  const reference = properties.text('FunctionName');
  return properties.about('FunctionName', () => inventory.functionAt(reference));
}
