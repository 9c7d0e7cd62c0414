import type { ObjectStore } from '../ports.ts';
import { type KeptObject, type ObjectShelf, type ObjectStoreOptions, objectStore } from './objects.ts';

/** As long as the cloud runs. */
export function memoryObjects(options: ObjectStoreOptions): ObjectStore {
  return objectStore(memoryShelf(), options);
}

function memoryShelf(): ObjectShelf {
  const buckets = new Map<string, Map<string, readonly KeptObject[]>>();
  const objectsOf = (bucket: string) => buckets.get(bucket) ?? new Map<string, readonly KeptObject[]>();
  return {
    async keep(bucket, object, where) {
      const objects = objectsOf(bucket);
      const kept = where === 'beside' ? (objects.get(object.key) ?? []) : [];
      buckets.set(bucket, objects.set(object.key, [...kept, object]));
    },
    versions: async (bucket, key) => objectsOf(bucket).get(key) ?? [],
    keys: async (bucket) => [...objectsOf(bucket).keys()],
  };
}
