import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { folderObjects } from '../../../lib/local/aws/folder-objects.ts';
import { memoryObjects } from '../../../lib/local/aws/memory-objects.ts';
import { BucketUnknown, type ObjectStoreOptions } from '../../../lib/local/aws/objects.ts';
import type { ObjectStore } from '../../../lib/local/ports.ts';
import { objectsIn } from '../../../lib/reconcile/failed-batch.ts';
import { temporaryFolder } from '../functions/stage.ts';
import { bucket, NOW } from './stage.ts';

type Create = (options: ObjectStoreOptions) => ObjectStore;

function store(create: Create) {
  const told: Readonly<Record<string, unknown>>[] = [];
  const objects = create({
    clock: () => NOW,
    bus: { put: (event) => told.push(event) },
    buckets: [
      bucket('plain'),
      bucket('versioned', { versioned: true }),
      bucket('telling', { tellsEventBus: true }),
      bucket('both', { tellsEventBus: true, versioned: true }),
    ],
  });
  return { objects, told };
}

const stores: readonly [string, () => Create][] = [
  ['in memory', () => memoryObjects],
  [
    'in a folder',
    () => {
      const folder = temporaryFolder();
      return (options) => folderObjects(folder, options);
    },
  ],
];

describe.each(stores)('objects %s', (_, creator) => {
  it('are replaced where no versions are kept', async () => {
    const { objects } = store(creator());
    expect(await objects.put('plain', 'k', 'one')).toEqual({ versionId: 'null' });
    await objects.put('plain', 'k', 'two');
    expect(await objects.get('plain', 'k')).toBe('two');
    expect(await objects.get('plain', 'k', 'null')).toBe('two');
    expect(await objects.get('plain', 'other')).toBe(undefined);
  });

  it('keep all their versions where they are to, the last one put being the newest', async () => {
    const { objects } = store(creator());
    const bodies = Array.from({ length: 12 }, (_, index) => `body ${index}`);
    const put = await Promise.all(bodies.map((body) => objects.put('versioned', 'k', body)));
    const kept = await Promise.all(put.map(({ versionId }) => objects.get('versioned', 'k', versionId)));
    expect(kept).toEqual(bodies);
    expect(await objects.get('versioned', 'k')).toBe('body 11');
    expect(await objects.get('versioned', 'k', 'other')).toBe(undefined);
  });

  it('are listed by their keys, in order, each bucket for itself', async () => {
    const { objects } = store(creator());
    const keys = ['../../b', 'a/b', 'a', 'é'.repeat(500)];
    for (const key of [...keys, 'a']) await objects.put('versioned', key, 'x');
    await objects.put('plain', 'c', 'x');
    expect(await objects.list('versioned')).toEqual([...keys].sort());
    expect(await objects.list('plain')).toEqual(['c']);
    expect(await objects.list('telling')).toEqual([]);
  });

  it('are in no bucket that is not there', async () => {
    const { objects } = store(creator());
    const message = 'There is no bucket "other"; the templates have plain, versioned, telling, both.';
    await expect(objects.put('other', 'k', 'x')).rejects.toThrow(BucketUnknown);
    await expect(objects.get('other', 'k')).rejects.toThrow(message);
    await expect(objects.list('other')).rejects.toThrow(message);
  });

  it('are told to the event bus as S3 tells it, and as the redriver reads it', async () => {
    const { objects, told } = store(creator());
    const { versionId } = await objects.put('both', 'a b/€', '€1');
    await objects.put('telling', 'k', 'x');
    await objects.put('plain', 'k', 'x');
    await objects.put('versioned', 'k', 'x');
    expect(told).toEqual([
      {
        version: '0',
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        'detail-type': 'Object Created',
        source: 'aws.s3',
        account: '000000000000',
        time: '2026-01-02T03:04:05Z',
        region: 'us-east-1',
        resources: ['arn:aws:s3:::both'],
        detail: {
          version: '0',
          bucket: { name: 'both' },
          object: {
            key: 'a b/€',
            size: 4,
            etag: '2677f97bb01d31b7fba26af994e087cf',
            'version-id': versionId,
            sequencer: '0000000000000001',
          },
          'request-id': expect.any(String),
          requester: '000000000000',
          'source-ip-address': '127.0.0.1',
          reason: 'PutObject',
        },
      },
      expect.objectContaining({ resources: ['arn:aws:s3:::telling'] }),
    ]);
    expect(told.map(objectsIn)).toEqual([
      [{ bucket: 'both', key: 'a b/€', versionId }],
      [{ bucket: 'telling', key: 'k' }],
    ]);
  });
});

it('objects in a folder are there when the cloud is started again, but not what was half written', async () => {
  const folder = temporaryFolder();
  const create: Create = (options) => folderObjects(folder, options);
  const { versionId } = await store(create).objects.put('versioned', 'k', 'one');
  await store(create).objects.put('versioned', 'k', 'two');
  mkdirSync(join(folder, 'versioned', 'half'));
  writeFileSync(join(folder, 'versioned', 'half', 'unfinished'), '{"key":"ha');
  const { objects } = store(create);
  expect(await objects.list('versioned')).toEqual(['k']);
  expect(await objects.get('versioned', 'k')).toBe('two');
  expect(await objects.get('versioned', 'k', versionId)).toBe('one');
});
