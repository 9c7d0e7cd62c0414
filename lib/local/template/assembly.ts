import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { OncekeyError } from '../../core/errors.ts';
import { type Fields, fieldsOf, isFields } from '../fields.ts';
import { shown } from './problem.ts';

/** What an app was synthesised to: the folder `cdk.out`. */
export interface Assembly {
  readonly stacks: readonly StackTemplate[];
  /** By the key that the object would have in the bucket of assets. */
  readonly assets: ReadonlyMap<string, Asset>;
}

export interface Asset {
  readonly path: string;
  /** `zip`: a folder, which is packed when it is deployed. `file`: it is uploaded as it is. */
  readonly packaging: string;
}

export interface StackTemplate {
  readonly name: string;
  readonly parameters: Fields;
  readonly mappings: Fields;
  readonly conditions: Fields;
  readonly outputs: Fields;
  readonly resources: ReadonlyMap<string, TemplateResource>;
  /** A macro would have to rewrite it first. */
  readonly transform?: unknown;
}

export interface TemplateResource {
  readonly stack: string;
  readonly logicalId: string;
  readonly type: string;
  /** Of its construct: `OncekeyService/payments`. Of a template that has no paths: the stack and the logical id. */
  readonly path: string;
  readonly properties: Fields;
  readonly condition?: string;
  readonly assetPath?: string;
}

export class AssemblyUnusable extends OncekeyError {
  override readonly remedy = 'fix-deployment';
}

export function readAssembly(folder: string): Assembly {
  const stacks: StackTemplate[] = [];
  const assets = new Map<string, Asset>();
  collect(folder, stacks, assets);
  const [twice] = stacks.filter(({ name }, at) => stacks.findIndex((one) => one.name === name) !== at);
  if (twice) {
    throw new AssemblyUnusable(
      `${folder} has two stacks named ${twice.name}. The local cloud is one account in one Region; give it one of them.`,
    );
  }
  if (stacks.length > 0) return { stacks, assets };
  throw new AssemblyUnusable(
    `${folder} has no stack in it; expected what \`cdk synth\` writes for an app with at least one.`,
  );
}

function collect(folder: string, stacks: StackTemplate[], assets: Map<string, Asset>): void {
  const { artifacts, missing } = jsonIn(folder, 'manifest.json');
  requireNothingMissing(missing);
  for (const [id, artifact] of Object.entries(fieldsOf(artifacts)).map(
    ([k, v]) => [k, fieldsOf(v)] as const,
  )) {
    const properties = fieldsOf(artifact['properties']);
    switch (artifact['type']) {
      case 'aws:cloudformation:stack':
        requireNoErrors(id, annotations(folder, artifact));
        stacks.push(
          templateOf(
            String(properties['stackName'] ?? id),
            jsonIn(folder, String(properties['templateFile'])),
            folder,
          ),
        );
        break;
      case 'cdk:asset-manifest':
        for (const [key, asset] of assetsIn(folder, String(properties['file']))) assets.set(key, asset);
        break;
      case 'cdk:cloud-assembly':
        collect(join(folder, String(properties['directoryName'])), stacks, assets);
        break;
    }
  }
}

function jsonIn(folder: string, file: string): Fields {
  const path = join(folder, file);
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (isFields(value)) return value;
    throw new TypeError(`it is ${shown(value)}; expected an object`);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new AssemblyUnusable(
      `${path} cannot be read: ${why}. Expected a folder that \`cdk synth\` wrote.`,
      cause,
    );
  }
}

export function templateOf(name: string, template: Fields, folder: string): StackTemplate {
  const { Parameters, Mappings, Conditions, Outputs, Resources, Transform } = template;
  const resources = Object.entries(fieldsOf(Resources)).map(
    ([logicalId, resource]) => [logicalId, resourceOf(name, logicalId, fieldsOf(resource), folder)] as const,
  );
  return {
    name,
    parameters: fieldsOf(Parameters),
    mappings: fieldsOf(Mappings),
    conditions: fieldsOf(Conditions),
    outputs: fieldsOf(Outputs),
    resources: new Map(resources),
    ...(Transform !== undefined && { transform: Transform }),
  };
}

function resourceOf(stack: string, logicalId: string, resource: Fields, folder: string): TemplateResource {
  const { Type, Properties, Condition, Metadata } = resource;
  const { 'aws:cdk:path': path, 'aws:asset:path': assetPath } = fieldsOf(Metadata);
  return {
    stack,
    logicalId,
    type: String(Type),
    // The construct of the library, and in it, by these names, the one that is the resource.
    path: typeof path === 'string' ? path.replace(/\/(Resource|Default)$/, '') : `${stack}/${logicalId}`,
    properties: fieldsOf(Properties),
    ...(typeof Condition === 'string' && { condition: Condition }),
    ...(typeof assetPath === 'string' && { assetPath: resolve(folder, assetPath) }),
  };
}

function assetsIn(folder: string, file: string): (readonly [string, Asset])[] {
  return Object.values(fieldsOf(jsonIn(folder, file)['files'])).flatMap((asset) => {
    const { source, destinations } = fieldsOf(asset);
    const { path, packaging } = fieldsOf(source);
    if (typeof path !== 'string') return [];
    const found = { path: resolve(folder, path), packaging: String(packaging) };
    return Object.values(fieldsOf(destinations)).map(
      (destination) => [String(fieldsOf(destination)['objectKey']), found] as const,
    );
  });
}

function annotations(folder: string, artifact: Fields): Fields {
  const { metadata, additionalMetadataFile } = artifact;
  const more = typeof additionalMetadataFile === 'string' ? jsonIn(folder, additionalMetadataFile) : {};
  return { ...fieldsOf(metadata), ...more };
}

/** The CLI looks at these before it deploys; the app itself ends well with them. */
function requireNoErrors(stack: string, metadata: Fields): void {
  const errors = Object.entries(metadata).flatMap(([path, entries]) =>
    (Array.isArray(entries) ? entries : [])
      .map(fieldsOf)
      .filter(({ type }) => type === 'aws:cdk:error')
      .map(({ data }) => `  - ${path}: ${typeof data === 'string' ? data : shown(data)}`),
  );
  if (errors.length === 0) return;
  throw new AssemblyUnusable(
    `The stack ${stack} would not be deployed either; the app itself found these errors:\n${errors.join('\n')}`,
  );
}

function requireNothingMissing(missing: unknown): void {
  if (!Array.isArray(missing) || missing.length === 0) return;
  const keys = missing.map((one) => `  - ${String(fieldsOf(one)['key'])}`).join('\n');
  throw new AssemblyUnusable(
    `The app looks something up in an AWS account, and its context has no answer yet:\n${keys}\nRun \`npx cdk synth\` once with access to the account and keep cdk.context.json, or give the values as context.`,
  );
}
