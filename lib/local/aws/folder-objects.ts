import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ObjectStore } from '../ports.ts';
import { type KeptObject, type ObjectShelf, type ObjectStoreOptions, objectStore } from './objects.ts';

/** Until somebody deletes the folder. */
export function folderObjects(folder: string, options: ObjectStoreOptions): ObjectStore {
  return objectStore(folderShelf(folder), options);
}

/** What else lies in a folder was being written when the machine stopped. */
const VERSION_FILE = /^\d+\.json$/;

/** A folder for each object, in it a file for each version, numbered. */
function folderShelf(folder: string): ObjectShelf {
  const folderOf = (bucket: string) => join(folder, encodeURIComponent(bucket));
  /** A key may be longer than a file's name, or lead out of the folder. */
  const placeOf = (bucket: string, key: string) =>
    join(folderOf(bucket), createHash('sha256').update(key).digest('hex').slice(0, 32));

  return {
    async keep(bucket, object, where) {
      const place = placeOf(bucket, object.key);
      await mkdir(place, { recursive: true });
      const number = where === 'beside' ? (await versionFiles(place)).length : 0;
      const unfinished = join(place, 'unfinished');
      await writeFile(unfinished, JSON.stringify(object));
      await rename(unfinished, join(place, `${number}.json`));
    },
    async versions(bucket, key) {
      const place = placeOf(bucket, key);
      return Promise.all((await versionFiles(place)).map((file) => objectIn(join(place, file))));
    },
    async keys(bucket) {
      const places = (await filesIn(folderOf(bucket))).map((place) => join(folderOf(bucket), place));
      return (await Promise.all(places.map(keyIn))).flat();
    },
  };
}

async function versionFiles(place: string): Promise<readonly string[]> {
  const files = (await filesIn(place)).filter((file) => VERSION_FILE.test(file));
  return files.sort((one, other) => Number.parseInt(one, 10) - Number.parseInt(other, 10));
}

/** None, where nothing was finished. */
async function keyIn(place: string): Promise<readonly string[]> {
  const [first] = await versionFiles(place);
  return first === undefined ? [] : [(await objectIn(join(place, first))).key];
}

async function filesIn(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw error;
  }
}

async function objectIn(file: string): Promise<KeptObject> {
  return JSON.parse(await readFile(file, 'utf8'));
}
