import type { Status } from './record.ts';

/** What a change shows of a record, before it or after it. */
export interface Shown {
  readonly status: Status;
  readonly operationId: string;
  readonly attempt: number;
  /** It is where the sweep looks already, or before an operator. */
  readonly isDue: boolean;
}

/** One change of a record. A record that is new has no before, one that was removed no after. */
export interface Shift {
  readonly pk: string;
  readonly before: Shown | undefined;
  readonly after: Shown | undefined;
}

export interface Pairing<S extends Shift> {
  /** For each reservation without an end, a change that shows it. */
  readonly leftovers: readonly S[];
  /** How many there were in all, with those that have ended. */
  readonly reservations: number;
}

/** What a batch knows of one operation, whatever the order it came in. */
interface Story<S extends Shift> {
  /** The attempts that it saw begin. */
  readonly begun: Set<number>;
  /** The last attempt that it saw running, with a change that shows it. */
  running: { readonly attempt: number; readonly change: S } | undefined;
  /** All attempts up to this one are over. */
  endedUpTo: number;
  /** The attempts that somebody watches. */
  readonly watched: Set<number>;
}

const NONE = -1;

/**
 * Pairs each reservation of a batch with its end, by operation and attempt. Attempts only grow, an attempt that has left
 * `in_progress` never returns to it, and one that is watched stays so until it ends. So an end counts wherever it stands in
 * the batch, and so does a later attempt: duplicates and reordering change nothing. What is missing from the batch can only
 * make a leftover of what is none, which costs one refused write.
 */
export function paired<S extends Shift>(changes: readonly S[]): Pairing<S> {
  const stories = new Map<string, Story<S>>();
  for (const change of changes) {
    const { pk, before, after } = change;
    if (after) learn(storyOf(stories, pk, after), after, change);
    // Also where the key starts anew: that an operation has made room for another is an end of it.
    if (before && !(after && isSameAttempt(before, after))) end(storyOf(stories, pk, before), before);
  }
  return told([...stories.values()]);
}

/** What it was before needs no learning: it stays true, or the change ends it. */
function learn<S extends Shift>(story: Story<S>, shown: Shown, change: S): void {
  const { status, attempt, isDue } = shown;
  if (status !== 'in_progress') {
    end(story, shown);
    return;
  }
  if (isDue) story.watched.add(attempt);
  if (!change.before || !isSameAttempt(change.before, shown)) story.begun.add(attempt);
  if (!story.running || attempt > story.running.attempt) story.running = { attempt, change };
}

function end<S extends Shift>(story: Story<S>, { attempt }: Shown): void {
  story.endedUpTo = Math.max(story.endedUpTo, attempt);
}

function told<S extends Shift>(stories: readonly Story<S>[]): Pairing<S> {
  const leftovers: S[] = [];
  let reservations = 0;
  for (const { begun, running, endedUpTo, watched } of stories) {
    reservations += begun.size;
    if (!running || running.attempt <= endedUpTo || watched.has(running.attempt)) continue;
    leftovers.push(running.change);
    if (!begun.has(running.attempt)) reservations += 1; // It began in a batch that was lost, or that is still to come.
  }
  return { leftovers, reservations };
}

function isSameAttempt(a: Shown, b: Shown): boolean {
  return a.operationId === b.operationId && a.attempt === b.attempt;
}

/** A key that starts anew has another operation: what ended of the one says nothing of the other. */
function storyOf<S extends Shift>(
  stories: Map<string, Story<S>>,
  pk: string,
  { operationId }: Shown,
): Story<S> {
  const name = JSON.stringify([pk, operationId]);
  const known = stories.get(name);
  if (known) return known;
  const story: Story<S> = { begun: new Set(), running: undefined, endedUpTo: NONE, watched: new Set() };
  stories.set(name, story);
  return story;
}
