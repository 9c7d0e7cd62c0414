import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { AssemblyUnusable, readAssembly } from '../../../lib/local/template/assembly.ts';

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function folderOf(files: Readonly<Record<string, unknown>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'oncekey-assembly-'));
  folders.push(folder);
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

const stack = (properties: object = {}, more: object = {}) => ({
  type: 'aws:cloudformation:stack',
  properties: { templateFile: 'Shop.template.json', ...properties },
  ...more,
});

const template = {
  Resources: {
    Pay5AA7: {
      Type: 'AWS::Lambda::Function',
      Properties: { Handler: 'index.handler' },
      Condition: 'IsProd',
      Metadata: { 'aws:cdk:path': 'Shop/Pay/Resource', 'aws:asset:path': 'asset.1' },
    },
    Bare: { Type: 'AWS::SQS::Queue' },
  },
};

describe('an assembly', () => {
  it('has its stacks as they will be named, their resources by their paths, and its assets by their keys', () => {
    const folder = folderOf({
      'manifest.json': {
        artifacts: {
          Tree: { type: 'cdk:tree', properties: { file: 'tree.json' } },
          Shop: stack({ stackName: 'shop-prod' }),
          'Shop.assets': { type: 'cdk:asset-manifest', properties: { file: 'Shop.assets.json' } },
        },
      },
      'Shop.template.json': template,
      'Shop.assets.json': {
        files: {
          a: {
            source: { path: 'asset.1', packaging: 'zip' },
            destinations: { here: { objectKey: '1.zip' }, there: { objectKey: 'x/1.zip' } },
          },
          b: {
            source: { path: '/elsewhere/2', packaging: 'file' },
            destinations: { here: { objectKey: '2' } },
          },
          c: { source: { executable: ['make'] }, destinations: { here: { objectKey: '3' } } },
        },
      },
    });
    const { stacks, assets } = readAssembly(folder);
    const first = { path: join(folder, 'asset.1'), packaging: 'zip' };
    expect(Object.fromEntries(assets)).toEqual({
      '1.zip': first,
      'x/1.zip': first,
      '2': { path: '/elsewhere/2', packaging: 'file' },
    });
    expect(stacks.map(({ name }) => name)).toEqual(['shop-prod']);
    expect([...(stacks[0]?.resources.values() ?? [])]).toEqual([
      {
        stack: 'shop-prod',
        logicalId: 'Pay5AA7',
        type: 'AWS::Lambda::Function',
        path: 'Shop/Pay',
        properties: { Handler: 'index.handler' },
        condition: 'IsProd',
        assetPath: join(folder, 'asset.1'),
      },
      {
        stack: 'shop-prod',
        logicalId: 'Bare',
        type: 'AWS::SQS::Queue',
        path: 'shop-prod/Bare',
        properties: {},
      },
    ]);
  });

  it('has the stacks of its stages, which are assemblies of their own', () => {
    const folder = folderOf({
      'manifest.json': {
        artifacts: { Dev: { type: 'cdk:cloud-assembly', properties: { directoryName: 'assembly-Dev' } } },
      },
      'assembly-Dev/manifest.json': { artifacts: { Shop: stack() } },
      'assembly-Dev/Shop.template.json': template,
    });
    expect(readAssembly(folder).stacks.map(({ name }) => name)).toEqual(['Shop']);
  });
});

describe('what is no assembly, or is not complete, is told with what to do', () => {
  const shop = { 'Shop.template.json': template };
  it.each<[string, Readonly<Record<string, unknown>>, RegExp]>([
    ['a folder without a manifest', {}, /manifest\.json cannot be read: ENOENT.*that `cdk synth` wrote/],
    [
      'a manifest that is cut off',
      { 'manifest.json': '{"artifacts":' },
      /manifest\.json cannot be read: .*JSON/,
    ],
    ['a manifest of something else', { 'manifest.json': [1] }, /it is \[1\]; expected an object/],
    ['an app of no stacks', { 'manifest.json': { artifacts: {} } }, /has no stack in it/],
    [
      'a stack without its template',
      { 'manifest.json': { artifacts: { Shop: stack() } } },
      /Shop\.template\.json cannot/,
    ],
    [
      'two stacks of one name, in two Regions',
      {
        ...shop,
        'manifest.json': { artifacts: { A: stack({ stackName: 'Shop' }), B: stack({ stackName: 'Shop' }) } },
      },
      /two stacks named Shop\. The local cloud is one account in one Region/,
    ],
    [
      'what the account was not asked yet',
      { ...shop, 'manifest.json': { artifacts: { Shop: stack() }, missing: [{ key: 'vpc-provider:x' }] } },
      /looks something up.*\n {2}- vpc-provider:x\n.*cdk\.context\.json/,
    ],
    [
      'an error that the app itself found',
      {
        ...shop,
        'manifest.json': {
          artifacts: {
            Shop: stack({}, { metadata: { '/Shop/Pay': [{ type: 'aws:cdk:error', data: 'no!' }] } }),
          },
        },
      },
      /Shop would not be deployed either.*\n {2}- \/Shop\/Pay: no!/,
    ],
    [
      'an error that is in a file of its own',
      {
        ...shop,
        'manifest.json': { artifacts: { Shop: stack({}, { additionalMetadataFile: 'Shop.metadata.json' }) } },
        'Shop.metadata.json': {
          '/Shop/Pay': [
            { type: 'aws:cdk:warning', data: 'well' },
            { type: 'aws:cdk:error', data: 'no!' },
          ],
        },
      },
      /would not be deployed either.*\n {2}- \/Shop\/Pay: no!$/,
    ],
  ])('%s', (_, files, why) => {
    const folder = folderOf(files);
    expect(() => readAssembly(folder)).toThrow(AssemblyUnusable);
    expect(() => readAssembly(folder)).toThrow(why);
  });
});
