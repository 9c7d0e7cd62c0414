/** Where a command writes: what was asked for, and what is said about it. */
export interface Streams {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
}

export interface Command {
  readonly usage: string;
  readonly about: string;
  run(words: readonly string[], streams: Streams): Promise<void> | void;
}
