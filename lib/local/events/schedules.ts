import { randomUUID } from 'node:crypto';
import { LOCAL_ACCOUNT, LOCAL_REGION, type ScheduleModel } from '../model.ts';
import type { Functions, Reporter } from '../ports.ts';
import type { Timers } from '../timers.ts';
import { fieldsOfBus } from './bus.ts';

export interface SchedulesOptions {
  readonly models: readonly ScheduleModel[];
  readonly functions: Pick<Functions, 'invokeLater'>;
  readonly report: Reporter;
  readonly clock: () => number;
  readonly timers: Timers;
  readonly newId?: () => string;
}

export interface Schedules {
  close(): Promise<void>;
}

/** setTimeout takes no more than 31 bits; whoever waits longer looks again. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Invokes at fixed rates, the first time at once, as a schedule without a start date does. The times are fixed when it
 * starts: a late invocation moves none, and a machine that slept makes up for what it missed with one.
 */
export function schedules(options: SchedulesOptions): Schedules {
  const { functions, report, clock, timers, newId = randomUUID } = options;
  const running = options.models.map(run);
  return {
    async close() {
      for (const stop of running) stop();
    },
  };

  function run(model: ScheduleModel): () => void {
    const startedAt = clock();
    let dueAt = startedAt;
    let cancel = wait();
    return () => cancel();

    function wait(): () => void {
      return timers.after(Math.min(Math.max(0, dueAt - clock()), LONGEST_TIMER_MS), look);
    }

    function look(): void {
      const now = clock();
      if (now >= dueAt) {
        fire(model, dueAt);
        dueAt = startedAt + (Math.floor((now - startedAt) / model.everyMs) + 1) * model.everyMs;
      }
      cancel = wait();
    }
  }

  function fire(model: ScheduleModel, dueAt: number): void {
    const { name, functionName } = model;
    const say = (level: 'debug' | 'error', message: string) =>
      report({
        at: clock(),
        source: 'schedules',
        level,
        kind: 'platform',
        message,
        fields: { name, functionName },
      });
    try {
      functions.invokeLater(functionName, model.input ?? ownEvent(model, dueAt));
      say('debug', `The schedule ${name} invoked ${functionName}.`);
    } catch (error) {
      say(
        'error',
        `The schedule ${name} could not invoke ${functionName}: ${error}. It tries again in ${model.everyMs} ms.`,
      );
    }
  }

  /** The scheduler's own, whose detail is text, unlike that of events on a bus. */
  function ownEvent({ name }: ScheduleModel, dueAt: number): string {
    return JSON.stringify({
      ...fieldsOfBus(newId(), dueAt),
      'detail-type': 'Scheduled Event',
      source: 'aws.scheduler',
      resources: [`arn:aws:scheduler:${LOCAL_REGION}:${LOCAL_ACCOUNT}:schedule/default/${name}`],
      detail: '{}',
    });
  }
}
