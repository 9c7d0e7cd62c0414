import { join } from 'node:path';

/** Parts of the cloud that keep something, and the folder of each in the one that `--data` names. */
const FOLDERS = {
  store: 'dynamodb',
  provider: 'provider',
  issuer: 'issuer',
  objects: 'objects',
  streams: 'streams',
} as const;

/** Where a part keeps what it has; nothing, where all is to be gone with the process. */
export type PlaceOf = (part: keyof typeof FOLDERS) => { readonly folder?: string };

export function placesIn(dataFolder: string | undefined): PlaceOf {
  return (part) => (dataFolder === undefined ? {} : { folder: join(dataFolder, FOLDERS[part]) });
}
