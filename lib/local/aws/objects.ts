import { createHash, randomUUID } from 'node:crypto';
import { OncekeyError } from '../../core/errors.ts';
import type { BucketModel } from '../model.ts';
import type { EventBus, ObjectStore } from '../ports.ts';
import { objectCreated } from './object-created.ts';

/** One version of an object. */
export interface KeptObject {
  readonly key: string;
  readonly versionId: string;
  readonly body: string;
}

/** Where objects are kept: in the memory of this process, or in files. */
export interface ObjectShelf {
  /** With what is there already, or in its place. */
  keep(bucket: string, object: KeptObject, where: 'beside' | 'instead'): Promise<void>;
  /** Oldest first. */
  versions(bucket: string, key: string): Promise<readonly KeptObject[]>;
  keys(bucket: string): Promise<readonly string[]>;
}

export interface ObjectStoreOptions {
  readonly buckets: readonly BucketModel[];
  readonly clock: () => number;
  /** Told of new objects, by the buckets that do so. */
  readonly bus?: EventBus;
  readonly newId?: () => string;
}

/** No template has a bucket of this name. */
export class BucketUnknown extends OncekeyError {
  override readonly remedy = 'fix-deployment';

  constructor(name: string, known: Iterable<string>) {
    super(
      `There is no bucket ${JSON.stringify(name)}; the templates have ${[...known].join(', ') || 'none'}.`,
    );
  }
}

/** The version of an object in a bucket that keeps no versions. */
const UNVERSIONED = 'null';

export function objectStore(shelf: ObjectShelf, options: ObjectStoreOptions): ObjectStore {
  const { clock, bus, newId = randomUUID } = options;
  const buckets = new Map(options.buckets.map((bucket) => [bucket.name, bucket]));
  let puts = 0;
  let last: Promise<unknown> = Promise.resolve();

  function bucketOf(name: string): BucketModel {
    const bucket = buckets.get(name);
    if (bucket) return bucket;
    throw new BucketUnknown(name, buckets.keys());
  }

  function tell(bucket: BucketModel, { key, versionId, body }: KeptObject): void {
    if (!bus || !bucket.tellsEventBus) return;
    puts += 1;
    const size = Buffer.byteLength(body);
    const etag = createHash('md5').update(body).digest('hex');
    const version = versionId === UNVERSIONED ? {} : { versionId };
    bus.put(objectCreated({ bucket, key, size, etag, ...version, id: newId(), at: clock(), sequence: puts }));
  }

  return {
    async put(name, key, body) {
      const bucket = bucketOf(name);
      const versionId = bucket.versioned ? newId().replaceAll('-', '') : UNVERSIONED;
      const object = { key, versionId, body };
      // One after the other: which of two versions is the newer must not depend on the disk.
      const kept = last.then(() => shelf.keep(name, object, bucket.versioned ? 'beside' : 'instead'));
      last = kept.catch(() => {});
      await kept;
      tell(bucket, object);
      return { versionId };
    },
    async get(name, key, versionId) {
      bucketOf(name);
      const versions = await shelf.versions(name, key);
      const wanted =
        versionId === undefined ? versions.at(-1) : versions.find((one) => one.versionId === versionId);
      return wanted?.body;
    },
    async list(name) {
      bucketOf(name);
      return [...(await shelf.keys(name))].sort();
    },
  };
}
