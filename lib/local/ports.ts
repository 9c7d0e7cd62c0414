/* What the parts of the local cloud know of each other. */

/** Of an invocation, as Lambda answers it. */
export type Invoked =
  | { readonly kind: 'returned'; readonly payload: string }
  /** The handler threw, the process died, or its time was over. `payload` is Lambda's error object, as JSON. */
  | { readonly kind: 'failed'; readonly error: 'Unhandled' | 'Timeout' | 'Crash'; readonly payload: string }
  /** All environments are busy, and no more may be started. */
  | { readonly kind: 'throttled' };

export interface Functions {
  /** Waits for the answer. `event` is JSON. Throws `FunctionUnknown` for a name that nothing has. */
  invoke(name: string, event: string): Promise<Invoked>;
  /** Lambda's own queue: returns at once; failures are tried again, and then go where the function's configuration says. */
  invokeLater(name: string, event: string): void;
}

/** Whatever somebody may want to see: one line of a function's log, a metric, what the local cloud itself does. */
export interface Report {
  readonly at: number;
  /** A function's name, or a part of the cloud such as `api`, `store`, `provider`, `stream`. */
  readonly source: string;
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly kind: 'log' | 'metric' | 'platform' | 'access';
  readonly message: string;
  /** What a machine may want of it. */
  readonly fields?: Readonly<Record<string, unknown>>;
}

export type Reporter = (report: Report) => void;

/** Where events on the default event bus go: rules that match them invoke their functions. */
export interface EventBus {
  put(event: Readonly<Record<string, unknown>>): void;
}

/** Objects as S3 keeps them, as far as functions and on-failure destinations need them. */
export interface ObjectStore {
  put(bucket: string, key: string, body: string): Promise<{ readonly versionId: string }>;
  get(bucket: string, key: string, versionId?: string): Promise<string | undefined>;
  list(bucket: string): Promise<readonly string[]>;
}

/** What a queue holds; nothing takes from it by itself. */
export interface Queues {
  send(queue: string, body: string): void;
  waiting(queue: string): readonly string[];
}
