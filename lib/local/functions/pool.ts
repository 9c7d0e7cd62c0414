import { createHash, randomUUID } from 'node:crypto';
import type { FunctionModel } from '../model.ts';
import type { Functions, Invoked, Queues, Report, Reporter } from '../ports.ts';
import { realTimers, type Timers } from '../timers.ts';
import { type EnvironmentProcess, startEnvironment } from './environment-process.ts';
import { FunctionUnknown } from './errors.ts';
import { type Fleet, fleet } from './fleet.ts';
import { eventTooLarge } from './lambda-errors.ts';
import { laterQueue } from './later.ts';
import { EVENT_MAX_BYTES } from './limits.ts';
import { told } from './log-line.ts';
import { defaultLimits, type PoolLimits } from './pool-limits.ts';
import { taskRoots } from './task-roots.ts';
import { variablesOf } from './variables.ts';

export interface FunctionPoolOptions extends Partial<PoolLimits> {
  readonly models: readonly FunctionModel[];
  readonly report: Reporter;
  /** The wall clock: a function compares its deadline with its own. */
  readonly clock: () => number;
  /** Variables such as `AWS_ENDPOINT_URL_DYNAMODB`. Asked at each start, for some of the endpoints need the pool themselves. */
  readonly endpoints: () => Readonly<Record<string, string>>;
  /** Where events go that functions failed on. */
  readonly queues: Queues;
  readonly timers?: Timers;
  readonly newId?: () => string;
}

export interface FunctionPool extends Functions {
  readonly names: readonly string[];
  /** Starts an environment of each that has none. Resolves when they are ready, or have failed and told so. */
  prewarm(names: readonly string[]): Promise<void>;
  /** All processes of a function, also those that are starting. Returns how many. */
  kill(name: string, signal?: NodeJS.Signals): number;
  pids(name: string): readonly number[];
  /** Requests that wait are throttled, those under way crash, and what was to be tried again is dropped. */
  close(): Promise<void>;
}

interface Runner {
  readonly model: FunctionModel;
  readonly fleet: Fleet;
}

/** Lambda, on this machine: processes that run one request at a time, and a queue for events that nobody waits for. */
export function functionPool(options: FunctionPoolOptions): FunctionPool {
  const { models, report, clock, endpoints, queues, timers = realTimers, newId = randomUUID } = options;
  const limits = { ...defaultLimits, ...options };
  const roots = taskRoots(models);
  const runners = new Map(models.map((model) => [model.name, runnerOf(model)]));
  const later = laterQueue({ clock, timers, queues, tell, invoke });
  let processes = 0;

  function runnerOf(model: FunctionModel): Runner {
    const { name } = model;
    const start = () => startProcess(model);
    const tellOf = (level: Report['level'], message: string, fields?: Report['fields']) =>
      tell(name, level, message, fields);
    return {
      model,
      fleet: fleet({ model, start, room: { take, leave, offer }, clock, timers, tell: tellOf, limits }),
    };
  }

  function startProcess(model: FunctionModel): EnvironmentProcess {
    const taskRoot = roots.of(model.name);
    const variables = variablesOf(model, {
      taskRoot,
      logStream: logStream(),
      endpoints: endpoints(),
      path: process.env['PATH'] ?? '',
    });
    return startEnvironment({
      name: model.name,
      taskRoot,
      variables,
      timers,
      takeLine: (line, stream) =>
        report({ at: clock(), source: model.name, ...told(line, stream === 'stdout' ? 'info' : 'warn') }),
    });
  }

  function logStream(): string {
    const day = new Date(clock()).toISOString().slice(0, 10).replaceAll('-', '/');
    return `${day}/[$LATEST]${createHash('md5').update(newId()).digest('hex')}`;
  }

  function take(isFirst: boolean): boolean {
    const isFree = processes < limits.maxProcesses || endIdlest() || isFirst;
    if (isFree) processes += 1;
    return isFree;
  }

  function leave(): void {
    processes -= 1;
    offer();
  }

  function offer(): void {
    for (const { fleet } of runners.values()) fleet.serve();
  }

  /** Of all functions, the environment that was not needed for the longest. Whoever has one idle has nobody waiting. */
  function endIdlest(): boolean {
    const idle = [...runners.values()].flatMap(({ fleet }) => {
      const since = fleet.idleSince();
      return since === undefined ? [] : [{ fleet, since }];
    });
    const [idlest] = idle.sort((one, other) => one.since - other.since);
    idlest?.fleet.endIdlest();
    return idlest !== undefined;
  }

  function invoke({ name }: FunctionModel, id: string, event: string): Promise<Invoked> {
    const bytes = Buffer.byteLength(event);
    if (bytes <= EVENT_MAX_BYTES) return runner(name).fleet.invoke({ id, event });
    const payload = eventTooLarge(bytes, EVENT_MAX_BYTES);
    return Promise.resolve({ kind: 'failed', error: 'Unhandled', payload });
  }

  function runner(name: string): Runner {
    const found = runners.get(name);
    if (found) return found;
    throw new FunctionUnknown(name, runners.keys());
  }

  function tell(source: string, level: Report['level'], message: string, fields?: Report['fields']): void {
    report({ at: clock(), source, level, kind: 'platform', message, ...(fields && { fields }) });
  }

  return {
    names: [...runners.keys()],
    invoke: async (name, event) => invoke(runner(name).model, newId(), event),
    invokeLater: (name, event) => later.add(runner(name).model, newId(), event),
    async prewarm(names) {
      await Promise.all(names.map(runner).map(({ fleet }) => fleet.prewarm()));
    },
    kill: (name, signal = 'SIGKILL') => runner(name).fleet.kill(signal),
    pids: (name) => runner(name).fleet.pids(),
    async close() {
      later.close();
      await Promise.all([...runners.values()].map(({ fleet }) => fleet.close()));
      roots.remove();
    },
  };
}
