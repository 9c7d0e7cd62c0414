/** Where a command writes: what was asked for, and what is said about it. */
export interface Streams {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
}

export interface Command {
  readonly usage: string;
  /** One sentence, for the list of commands. */
  readonly about: string;
  /** What `--help` says beside it. */
  readonly details?: string;
  run(words: readonly string[], streams: Streams): Promise<void> | void;
}
