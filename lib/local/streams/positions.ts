import type { Reporter } from '../ports.ts';
import type { Checkpoints, ShardPosition } from './checkpoints.ts';
import type { Positions } from './lineage.ts';

export interface PositionKeeper {
  load(): Promise<void>;
  /** Nothing was known of this stream. */
  readonly isNew: boolean;
  readonly all: Positions;
  set(positions: Positions): void;
  /** What is known of others says nothing any more. */
  keepOnly(shardIds: ReadonlySet<string>): void;
  /** Resolves when all that was set is saved, or could not be. */
  saved(): Promise<void>;
}

export interface PositionKeeperOptions {
  readonly name: string;
  readonly streamArn: string;
  readonly checkpoints: Checkpoints;
  readonly report: Reporter;
  readonly clock: () => number;
}

/** How far a mapping is, in memory; what is saved of it comes behind, one write at a time. */
export function positionKeeper(options: PositionKeeperOptions): PositionKeeper {
  const { name, streamArn, checkpoints, report, clock } = options;
  const positions = new Map<string, ShardPosition>();
  let isNew = true;
  let isUnsaved = false;
  let cannotSave = false;
  let saving: Promise<void> | undefined;

  return {
    load,
    get isNew() {
      return isNew;
    },
    all: positions,
    set(moved) {
      for (const [id, position] of moved) positions.set(id, position);
      changed();
    },
    /** What is known of others says nothing any more. */
    keepOnly(shardIds) {
      const gone = [...positions.keys()].filter((id) => !shardIds.has(id));
      for (const id of gone) positions.delete(id);
      if (isNew || gone.length > 0) changed();
      isNew = false;
    },
    saved: async () => saving,
  };

  /** Of another stream it says nothing: a table that is made anew has a new one, whose shards may be called the same. */
  async function load(): Promise<void> {
    try {
      const kept = await checkpoints.load();
      if (kept?.streamArn !== streamArn) return;
      for (const [id, position] of Object.entries(kept.shards)) positions.set(id, position);
      isNew = false;
    } catch (error) {
      say(`${name} begins anew, because where it was cannot be read: ${error}.`);
    }
  }

  function changed(): void {
    isUnsaved = true;
    saving ??= saveAll();
  }

  async function saveAll(): Promise<void> {
    while (isUnsaved) {
      isUnsaved = false;
      await save();
    }
    saving = undefined;
  }

  async function save(): Promise<void> {
    try {
      await checkpoints.save({ streamArn, shards: Object.fromEntries(positions) });
      cannotSave = false;
    } catch (error) {
      if (!cannotSave) say(`${name} cannot save where it is, and a restart would begin before it: ${error}.`);
      cannotSave = true;
    }
  }

  function say(message: string): void {
    report({ at: clock(), source: 'stream', level: 'error', kind: 'platform', message });
  }
}
