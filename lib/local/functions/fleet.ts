import type { FunctionModel } from '../model.ts';
import type { Invoked, Report } from '../ports.ts';
import type { Timers } from '../timers.ts';
import { type Failed, failedStart, invokedOf, late } from './answers.ts';
import type { EnvironmentProcess, Outcome } from './environment-process.ts';
import { errorPayload, summaryOf } from './lambda-errors.ts';
import type { FleetLimits } from './pool-limits.ts';

/** How many processes of all functions there may be. */
interface Room {
  /** Whether one more may be started. A function that has none always may: it would wait for ever on the others. */
  take(first: boolean): boolean;
  leave(): void;
  /** One has nothing to do: another function may need its place more. */
  offer(): void;
}

export interface FleetOptions {
  readonly model: FunctionModel;
  readonly start: () => EnvironmentProcess;
  readonly room: Room;
  readonly clock: () => number;
  readonly timers: Timers;
  readonly tell: (level: Report['level'], message: string, fields?: Report['fields']) => void;
  readonly limits: FleetLimits;
}

interface Request {
  readonly id: string;
  readonly event: string;
}

interface Waiting {
  readonly request: Request;
  readonly answer: (invoked: Invoked) => void;
  readonly giveUpWaiting: () => void;
  losses: number;
}

interface Member {
  readonly process: EnvironmentProcess;
  isDoomed: boolean;
  idleSince: number;
  stayIdle: () => void;
}

/** A request whose environment died before it saw it goes to another, so often: something kills them faster than they start. */
const LOSSES_MAX = 3;

/** The environments of one function, and the requests that wait for one. */
export interface Fleet {
  invoke(request: Request): Promise<Invoked>;
  prewarm(): Promise<void>;
  /** Since when its longest idle environment has been so, if nobody waits for it. */
  idleSince(): number | undefined;
  endIdlest(): void;
  /** Somebody else has made room. */
  serve(): void;
  kill(signal: NodeJS.Signals): number;
  pids(): readonly number[];
  close(): Promise<void>;
}

export function fleet(options: FleetOptions): Fleet {
  const { model, room, clock, timers, tell, limits } = options;
  const members = new Set<Member>();
  /** The last is the one that was used last. */
  const idle: Member[] = [];
  const line: Waiting[] = [];
  let starting = 0;
  let isClosed = false;

  function serve(): void {
    while (line.length > 0 && idle.length > 0) {
      const member = idle.pop();
      const waiting = line.shift();
      if (member && waiting) void hand(member, waiting);
    }
    while (!isClosed && starting < line.length && mayStart()) void start();
  }

  function mayStart(): boolean {
    const count = alive().length;
    return count < limits.maxEnvironments && room.take(count === 0);
  }

  async function start(): Promise<void> {
    const startedAt = clock();
    let process: EnvironmentProcess;
    try {
      process = options.start();
    } catch (error) {
      failStart((id) => failedStart({ kind: 'fatal', payload: errorPayload(error) }, id));
      room.leave();
      return;
    }
    const member: Member = { process, isDoomed: false, idleSince: 0, stayIdle: () => {} };
    members.add(member);
    starting += 1;
    void process.ended.then(() => forget(member));
    let isLate = false;
    const cancel = timers.after(limits.initMs, () => {
      isLate = true;
      doom(member);
    });
    const started = await process.started;
    cancel();
    starting -= 1;
    if (started.kind === 'ready' && !member.isDoomed) {
      tell('info', 'started', { pid: process.pid, coldMs: clock() - startedAt });
      rest(member);
    } else {
      doom(member);
      failStart((id) => (isLate ? late(id, limits.initMs) : failedStart(started, id)));
      serve();
    }
  }

  /** The request that made it start is told, as Lambda tells its invoker; without one, only the log is. */
  function failStart(failedFor: (requestId: string) => Failed): void {
    if (isClosed) return;
    const waiting = line.shift();
    const requestId = waiting?.request.id;
    const failed = failedFor(requestId ?? 'none');
    tell('error', `could not be started: ${summaryOf(failed.payload)}`, { requestId, ...failed });
    if (waiting) answer(waiting, failed);
  }

  async function hand(member: Member, waiting: Waiting): Promise<void> {
    member.stayIdle();
    waiting.giveUpWaiting();
    const { id: requestId, event } = waiting.request;
    const sentAt = clock();
    const deadlineMs = sentAt + model.timeoutMs;
    let isLate = false;
    // A stopped process does not hear of its time; it is killed from outside, which nothing can hold off.
    const cancel = timers.after(model.timeoutMs, () => {
      isLate = true;
      doom(member);
    });
    const outcome = await member.process.run({ requestId, functionArn: model.arn, deadlineMs }, event);
    cancel();
    if (isLate) await member.process.ended;
    if (!isLate && isLost(outcome, waiting)) {
      serve();
      return;
    }
    const invoked = isLate ? late(requestId, model.timeoutMs) : invokedOf(outcome, requestId);
    const durationMs = clock() - sentAt;
    if (invoked.kind !== 'failed') tell('debug', invoked.kind, { requestId, durationMs });
    // Ended with the cloud, it did not fail: somebody wanted it so.
    else
      tell(isClosed ? 'debug' : 'error', `failed: ${summaryOf(invoked.payload)}`, {
        requestId,
        durationMs,
        ...invoked,
      });
    answer(waiting, invoked);
    if (outcome.kind === 'returned' || outcome.kind === 'threw') rest(member);
    else doom(member);
  }

  /** Nothing of it has run: it waits in front, for the next environment. */
  function isLost(outcome: Outcome, waiting: Waiting): boolean {
    if (outcome.kind !== 'gone' || outcome.began || isClosed) return false;
    waiting.losses += 1;
    if (waiting.losses > LOSSES_MAX) return false;
    line.unshift(waiting);
    return true;
  }

  function rest(member: Member): void {
    if (member.isDoomed || isClosed) return;
    member.idleSince = clock();
    member.stayIdle = timers.after(limits.idleMs, () => doom(member));
    idle.push(member);
    serve();
    if (idle.includes(member)) room.offer();
  }

  function doom(member: Member): void {
    member.isDoomed = true;
    member.stayIdle();
    remove(idle, member);
    member.process.kill('SIGKILL');
  }

  function forget(member: Member): void {
    member.isDoomed = true;
    member.stayIdle();
    remove(idle, member);
    members.delete(member);
    room.leave();
    serve();
  }

  /** Without those that were killed, and may still be in the list of processes. */
  function alive(): readonly Member[] {
    return [...members].filter(({ isDoomed }) => !isDoomed);
  }

  function answer(waiting: Waiting, invoked: Invoked): void {
    waiting.giveUpWaiting();
    waiting.answer(invoked);
  }

  function throttle(waiting: Waiting, why: string): void {
    remove(line, waiting);
    tell('warn', 'throttled', { requestId: waiting.request.id, reason: why });
    answer(waiting, { kind: 'throttled' });
  }

  return {
    invoke(request) {
      return new Promise((resolve) => {
        const giveUpWaiting = timers.after(limits.waitMs, () => throttle(waiting, 'waited too long'));
        const waiting: Waiting = { request, answer: resolve, giveUpWaiting, losses: 0 };
        line.push(waiting);
        serve();
        const isWaiting = line.at(-1) === waiting;
        if (isClosed) throttle(waiting, 'the cloud is closed');
        else if (isWaiting && line.length - starting > limits.maxWaiting) throttle(waiting, 'too many wait');
      });
    },
    async prewarm() {
      if (!isClosed && alive().length === 0 && mayStart()) await start();
    },
    idleSince: () => idle[0]?.idleSince,
    endIdlest() {
      if (idle[0]) doom(idle[0]);
    },
    serve,
    kill(signal) {
      const all = alive();
      for (const member of all) {
        if (signal === 'SIGKILL') doom(member);
        else member.process.kill(signal);
      }
      return all.length;
    },
    pids: () => alive().flatMap(({ process: { pid } }) => pid ?? []),
    async close() {
      isClosed = true;
      for (const waiting of [...line]) throttle(waiting, 'the cloud is closed');
      for (const member of members) doom(member);
      await Promise.all([...members].map(({ process }) => process.ended));
    },
  };
}

function remove<T>(list: T[], item: T): void {
  const at = list.indexOf(item);
  if (at >= 0) list.splice(at, 1);
}
