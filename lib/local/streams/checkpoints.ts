import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';

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
      const text = await textOf(path);
      return text === undefined ? undefined : checkpointIn(text, path);
    },
    async save(checkpoint) {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(next, JSON.stringify(checkpoint));
      await rename(next, path);
    },
  };
}

async function textOf(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

function checkpointIn(text: string, path: string): Checkpoint {
  const found = parsed(text);
  if (isCheckpoint(found)) return found;
  throw new Error(
    `${path} is no checkpoint of a stream: expected a streamArn and its shards, received ${text.slice(0, 80)}. Delete the file to begin anew.`,
  );
}

function isCheckpoint(value: unknown): value is Checkpoint {
  if (!isObject(value) || typeof value['streamArn'] !== 'string' || !isObject(value['shards'])) return false;
  return Object.values(value['shards']).every(
    (position) =>
      isObject(position) &&
      (typeof position['after'] === 'string' ||
        typeof position['since'] === 'number' ||
        position['ended'] === true),
  );
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
