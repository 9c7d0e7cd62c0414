import { mkdir, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isFields, jsonIn } from '../fields.ts';
import { textIn } from '../files.ts';

/** Where a shard is read from. A shard without one is read from its beginning. */
export type ShardPosition =
  /** What comes behind this record. */
  | { readonly after: string }
  /** What came at this time or later: of a mapping that began at the latest, while nothing came. */
  | { readonly since: number }
  | { readonly ended: true };

/** How far a mapping is, in all shards of a stream. */
export interface Checkpoint {
  readonly streamArn: string;
  readonly shards: Readonly<Record<string, ShardPosition>>;
}

export interface Checkpoints {
  load(): Promise<Checkpoint | undefined>;
  save(checkpoint: Checkpoint): Promise<void>;
}

export function memoryCheckpoints(): Checkpoints {
  let kept: Checkpoint | undefined;
  return {
    load: async () => kept,
    async save(checkpoint) {
      kept = checkpoint;
    },
  };
}

/** A file of one mapping's own. A process that dies while it writes leaves the one before. */
export function fileCheckpoints(path: string): Checkpoints {
  const next = `${path}.next`;
  return {
    async load() {
      const text = await textIn(path);
      return text === undefined ? undefined : checkpointIn(text, path);
    },
    async save(checkpoint) {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(next, JSON.stringify(checkpoint));
      await rename(next, path);
    },
  };
}

function checkpointIn(text: string, path: string): Checkpoint {
  const found = jsonIn(text);
  if (isCheckpoint(found)) return found;
  throw new Error(
    `${path} is no checkpoint of a stream: expected a streamArn and its shards, received ${text.slice(0, 80)}. Delete the file to begin anew.`,
  );
}

function isCheckpoint(value: unknown): value is Checkpoint {
  if (!isFields(value) || typeof value['streamArn'] !== 'string' || !isFields(value['shards'])) return false;
  return Object.values(value['shards']).every(
    (position) =>
      isFields(position) &&
      (typeof position['after'] === 'string' ||
        typeof position['since'] === 'number' ||
        position['ended'] === true),
  );
}
