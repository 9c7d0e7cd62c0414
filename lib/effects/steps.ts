import { AsyncLocalStorage } from 'node:async_hooks';
import { type Progress, progressOf } from '../core/decide.ts';
import { stepKey } from '../core/downstream-key.ts';
import { InvalidArgument } from '../core/errors.ts';
import { withStep } from '../core/moves.ts';
import type { DoneStep, EpochMs, InProgress, Step } from '../core/record.ts';
import type { Ledger, Moved, Until } from '../ledger/ledger.ts';
import { AttemptOvertaken, StepsChanged, WritesRefused } from './errors.ts';
import { jsonText, NotJson } from './json-result.ts';

/** What a step's function gets: the key to send along, and when to stop. */
export interface StepContext {
  /** The same in every attempt, another for every step: the provider's own idempotency key. */
  readonly key: string;
  readonly signal: AbortSignal;
}

type StepFunction<T> = (context: StepContext) => T | Promise<T>;

export interface StepMethods {
  /**
   * Runs the function, and keeps its result as a recovery point: an attempt that resumes gets the result without
   * running it again. After a crash in between it is called again with the same key, so the provider must dedupe.
   */
  step<T>(name: string, run: StepFunction<T>): Promise<T>;
  /** For a provider that does not dedupe: the intent is written first, and the function is called at most once. */
  effect<T>(name: string, run: StepFunction<T>): Promise<T>;
}

export interface StepPorts<W> {
  readonly ledger: Pick<Ledger<W>, 'openStep' | 'saveStep' | 'stepResult'>;
  readonly clock: () => EpochMs;
  /** Until when the record may be asked to take a step. */
  readonly call: () => Until;
}

export interface Steps<W> extends StepMethods {
  /** The record as this attempt knows it. */
  readonly mine: InProgress;
  readonly progress: Progress;
  readonly running: string | undefined;
  /** The step whose function is asking. What the handler does beside a running step is not the step's. */
  readonly inside: string | undefined;
  /** After this the attempt cannot end well, whatever its handler says. */
  readonly broken: unknown;
  write(items: readonly W[]): void;
  /**
   * The handler has ended. Waits for a step that it did not wait for, until nothing more may be sent; should that fail,
   * the attempt has failed.
   */
  close(): Promise<void>;
  /** Throws if the handler has left out a step that an earlier attempt has taken. */
  requireAllTaken(): void;
}

/**
 * The recovery points of one attempt. They are taken in the order in which they were recorded; the first that is not
 * there yet is where an abandoned attempt is resumed.
 */
export function stepsOf<W>(ports: StepPorts<W>, reserved: InProgress, signal: AbortSignal): Steps<W> {
  const { ledger, clock, call } = ports;
  const recorded = [...reserved.steps].sort(([, left], [, right]) => left.at - right.at);
  const taken = new Set<string>();
  let functions: AsyncLocalStorage<string> | undefined; // Made by the first step: most attempts have none.
  let mine = reserved;
  let began = progressOf(reserved).began;
  let openEffect = false;
  let writes: W[] = [];
  let running: string | undefined;
  let ended: Promise<unknown> = Promise.resolve();
  let open = true;
  let latest: StepPromise<unknown> | undefined;
  let failed: { readonly name: string; readonly error: unknown } | undefined;
  let broken: unknown;

  return {
    get mine() {
      return mine;
    },
    get progress() {
      return { began, openEffect };
    },
    get running() {
      return running;
    },
    get inside() {
      return functions?.getStore();
    },
    get broken() {
      return broken;
    },
    step: (name, run) => watched(take(name, run, false)),
    effect: (name, run) => watched(take(name, run, true)),
    write(items) {
      writes.push(...items);
    },
    async close() {
      open = false;
      if (failed && !latest?.awaited) breaking(failed.error);
      if (running === undefined) return;
      const late = new InvalidArgument(
        `The handler ended while its step ${running} was running; await every step.`,
      );
      await Promise.race([ended, aborted(signal).then(() => Promise.reject(late))]).catch(breaking);
    },
    requireAllTaken() {
      const left = recorded[taken.size];
      if (left && broken === undefined) {
        throw breaking(changed(`${left[0]} is recorded, and the handler ended without it`));
      }
    },
  };

  function watched<T>(step: Promise<T>): Promise<T> {
    const promise = new StepPromise<T>((resolve) => resolve(step));
    latest = promise;
    return promise;
  }

  async function take<T>(name: string, run: StepFunction<T>, once: boolean): Promise<T> {
    const reason = refusalOf(name);
    if (reason !== undefined) throw breaking(reason); // Not awaited, it would be left out without a word.
    const known = recorded[taken.size];
    taken.add(name);
    running = name; // Before the function is called: one that it starts at once is refused as nested.
    const result = known ? resultOf<T>(known, name) : execute(name, run, once);
    ended = result;
    try {
      return await result;
    } catch (error) {
      failed = { name, error };
      throw error;
    } finally {
      running = undefined;
      writes = [];
    }
  }

  function refusalOf(name: string): unknown {
    if (broken !== undefined) return broken;
    if (!open) {
      return new InvalidArgument(`The step ${name} came after the handler had ended; await every step.`);
    }
    if (mine.effects !== 'steps') {
      return new InvalidArgument(
        `once.step and once.effect need effects: 'steps'; this operation is ${mine.effects}.`,
      );
    }
    if (running !== undefined) {
      return new InvalidArgument(
        `The step ${name} was started while ${running} was running. Steps are taken one after another: await each before the next, and start none inside another.`,
      );
    }
    if (failed) {
      return new InvalidArgument(
        `The step ${failed.name} threw, so ${name} cannot follow it: an attempt that resumes would not know why. Return from a step what it has found out, such as a declined card, and throw what is to be tried again.`,
      );
    }
    if (taken.has(name)) {
      return new InvalidArgument(
        `The step ${name} was taken before. Names tell steps apart: number those of a loop, as in ${name}-1.`,
      );
    }
    return undefined;
  }

  async function resultOf<T>([name, step]: readonly [string, Step], wanted: string): Promise<T> {
    if (name !== wanted) {
      throw breaking(changed(`${name} was recorded where the handler now has ${wanted}`));
    }
    if (step.state === 'open') throw breaking(changed(`what came of ${name} was never recorded`));
    return parsed(await stored(step)) as T;
  }

  async function stored(step: DoneStep): Promise<string> {
    try {
      return await ledger.stepResult(mine.pk, step, call());
    } catch (error) {
      throw breaking(error);
    }
  }

  async function execute<T>(name: string, run: StepFunction<T>, once: boolean): Promise<T> {
    requireLease();
    requireRoom(name);
    if (once) await intend(name);
    began = true;
    try {
      requireLease(); // Writing the intent may have taken what time there was.
      const key = stepKey(mine.operationId, name);
      functions ??= new AsyncLocalStorage();
      const result = await functions.run(name, () => run({ key, signal }));
      const text = textOf(name, result);
      await save(name, text);
      return parsed(text) as T;
    } catch (error) {
      if (openEffect) throw breaking(error); // It may have happened, so nothing can be built on it.
      throw error;
    }
  }

  /** By the clock as well: a process that was frozen wakes up before its timers do. */
  function requireLease(): void {
    if (signal.aborted) throw breaking(signal.reason);
    if (clock() < mine.leaseUntil) return;
    throw breaking(
      new AttemptOvertaken(`The lease of ${mine.pk} has ended; nothing may be sent to a provider now.`),
    );
  }

  /** Before it runs: a result that has no place would be an effect without a trace. */
  function requireRoom(name: string): void {
    try {
      withStep(mine, name, { state: 'done', attempt: mine.attempt, at: 0, result: '' });
    } catch (error) {
      throw breaking(error);
    }
  }

  async function intend(name: string): Promise<void> {
    mine = owned(await asked(() => ledger.openStep(mine, name, nextTime(), call())));
    openEffect = true;
  }

  async function save(name: string, text: string): Promise<void> {
    const saved = await asked(() => ledger.saveStep(mine, name, text, nextTime(), writes, call()));
    if (saved.kind === 'refused') throw new WritesRefused(saved.reasons);
    mine = owned(saved);
    openEffect = false;
  }

  /** A record that cannot be reached may have taken the step all the same; only a new attempt can tell. */
  async function asked<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask();
    } catch (error) {
      throw error instanceof InvalidArgument ? error : breaking(error);
    }
  }

  function owned(result: Moved<InProgress>): InProgress {
    if (result.kind === 'moved') return result.record;
    throw breaking(
      new AttemptOvertaken(
        `Attempt ${mine.attempt} of ${mine.pk} has lost the record to another; what it did since is not recorded.`,
      ),
    );
  }

  /** The order of steps is the order of their times, also on a clock that is behind the last attempt's. */
  function nextTime(): EpochMs {
    const last = Math.max(0, ...[...mine.steps.values()].map(({ at }) => at));
    return Math.max(clock(), last + 1);
  }

  function breaking(error: unknown): unknown {
    broken ??= error;
    return broken;
  }

  function changed(what: string): StepsChanged {
    return new StepsChanged(
      `The steps of ${mine.pk} do not match the handler's: ${what}. Nothing was run. Deploy code that takes the recorded steps, in their order and under their names, until such operations are finished.`,
    );
  }
}

/**
 * Knows whether anybody waits for it: a failure that the handler has seen is its own to judge, one that it has not seen
 * fails the attempt. It does not end the process, as Node would: others may be running in it.
 */
class StepPromise<T> extends Promise<T> {
  static override get [Symbol.species]() {
    return Promise;
  }

  awaited = false;

  constructor(run: ConstructorParameters<typeof Promise<T>>[0]) {
    super(run);
    super.then(undefined, () => undefined);
  }

  // biome-ignore lint/suspicious/noThenProperty: a promise has one.
  override then<A = T, B = never>(
    done?: ((value: T) => A | PromiseLike<A>) | null,
    failed?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.awaited = true;
    return super.then(done, failed);
  }
}

/** Empty for a step that returns nothing: JSON has no text for that. */
function textOf(name: string, result: unknown): string {
  if (result === undefined) return '';
  try {
    return jsonText(result, 'result');
  } catch (error) {
    if (!(error instanceof NotJson)) throw error;
    throw new InvalidArgument(
      `The step ${name} ran, and its result cannot be kept: ${error.message}. Return what JSON holds, such as an id, or nothing.`,
      error,
    );
  }
}

/** Always from the text: the first attempt sees what one that resumes will see. */
function parsed(text: string): unknown {
  return text === '' ? undefined : JSON.parse(text);
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
