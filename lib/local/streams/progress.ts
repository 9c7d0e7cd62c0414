/** How far a shard is done. Lanes end in any order; a restart goes on behind what is done without a gap. */
export interface Progress {
  /** In the order of the shard. */
  begin(sequenceNumber: string): void;
  end(sequenceNumber: string): void;
  /** The last of those that are done together with all before them. */
  readonly doneUpTo: string | undefined;
}

export function progress(): Progress {
  const isDone = new Map<string, boolean>(); // A Map keeps the order in which they began.
  let doneUpTo: string | undefined;
  return {
    begin: (sequenceNumber) => {
      isDone.set(sequenceNumber, false);
    },
    end(sequenceNumber) {
      isDone.set(sequenceNumber, true);
      for (const [first, done] of isDone) {
        if (!done) return;
        isDone.delete(first);
        doneUpTo = first;
      }
    },
    get doneUpTo() {
      return doneUpTo;
    },
  };
}
