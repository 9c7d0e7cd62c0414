import type { ShardPosition } from './checkpoints.ts';

/** A shard as the stream lists it. */
export interface ListedShard {
  readonly id: string;
  readonly parent: string | undefined;
  /** Nothing more is written to it. */
  readonly isClosed: boolean;
}

export type Positions = ReadonlyMap<string, ShardPosition>;

/** Those that may be read now: a child's records come behind all of its parent's. A parent that is trimmed has none left. */
export function readable(listed: readonly ListedShard[], positions: Positions): readonly ListedShard[] {
  const ids = new Set(listed.map(({ id }) => id));
  return listed.filter(
    ({ id, parent }) =>
      !hasEnded(positions, id) && (parent === undefined || !ids.has(parent) || hasEnded(positions, parent)),
  );
}

/** Of a mapping that begins at the latest: what is closed was before it, and of what is open only what comes is wanted. */
export function latest(listed: readonly ListedShard[], now: number): Positions {
  return new Map(listed.map(({ id, isClosed }) => [id, isClosed ? { ended: true } : { since: now }]));
}

/** Those that the stream no longer has, although something in them was still to be read. */
export function lost(listed: readonly ListedShard[], positions: Positions): readonly string[] {
  const ids = new Set(listed.map(({ id }) => id));
  return [...positions.keys()].filter((id) => !ids.has(id) && !hasEnded(positions, id));
}

function hasEnded(positions: Positions, id: string): boolean {
  const position = positions.get(id);
  return position !== undefined && 'ended' in position;
}
