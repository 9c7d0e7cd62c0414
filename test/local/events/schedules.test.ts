import { describe, expect, it } from 'vitest';
import { schedules } from '../../../lib/local/events/schedules.ts';
import type { ScheduleModel } from '../../../lib/local/model.ts';
import type { Report } from '../../../lib/local/ports.ts';
import { realTimers } from '../../../lib/local/timers.ts';
import { fakeTime } from '../time.ts';

const MINUTE_MS = 60_000;

const sweep: ScheduleModel = {
  name: 'Sweep',
  functionName: 'sweep',
  everyMs: MINUTE_MS,
  retries: 2,
  maxAgeMs: 300_000,
};

function stage(...models: ScheduleModel[]) {
  const time = fakeTime();
  const invoked: { name: string; at: number; event: unknown }[] = [];
  const reports: Report[] = [];
  const functions = {
    invokeLater(name: string, event: string) {
      if (name === 'gone') throw new Error('no function gone');
      invoked.push({ name, at: time.clock() - time.start, event: JSON.parse(event) });
    },
  };
  const running = schedules({
    models,
    functions,
    report: (one) => reports.push(one),
    clock: time.clock,
    timers: time.timers,
    newId: () => 'id-1',
  });
  const times = () => invoked.map(({ at }) => at);
  return { time, invoked, reports, times, ...running };
}

describe('a schedule', () => {
  it('invokes at once, and then at its rate', async () => {
    const { time, times } = stage(sweep);
    await time.pass(3 * MINUTE_MS);
    expect(times()).toEqual([0, MINUTE_MS, 2 * MINUTE_MS, 3 * MINUTE_MS]);
  });

  it("sends the scheduler's own event, whose detail is text", async () => {
    const { time, invoked } = stage(sweep);
    await time.pass(0);
    expect(invoked[0]?.event).toEqual({
      version: '0',
      id: 'id-1',
      'detail-type': 'Scheduled Event',
      source: 'aws.scheduler',
      account: '000000000000',
      time: '2030-01-15T12:00:00Z',
      region: 'us-east-1',
      resources: ['arn:aws:scheduler:us-east-1:000000000000:schedule/default/Sweep'],
      detail: '{}',
    });
  });

  it('sends what it was given instead', async () => {
    const { time, invoked } = stage({ ...sweep, input: '{"tables":["a"]}' });
    await time.pass(0);
    expect(invoked[0]?.event).toEqual({ tables: ['a'] });
  });

  it('makes up for a sleep with one invocation, and keeps to its times', async () => {
    const { time, times } = stage(sweep);
    await time.pass(0);
    time.sleep(60 * MINUTE_MS + 20_000);
    await time.pass(MINUTE_MS);
    expect(times()).toEqual([0, 60 * MINUTE_MS + 20_000, 61 * MINUTE_MS]);
  });

  it('does not drift where timers are late', async () => {
    const { time, times } = stage(sweep);
    for (let minute = 0; minute < 5; minute += 1) {
      time.sleep(7);
      await time.pass(MINUTE_MS - 7);
    }
    await time.pass(7);
    expect(times().map((at) => Math.floor(at / MINUTE_MS))).toEqual([0, 1, 2, 3, 4, 5]);
    expect(times().every((at) => at % MINUTE_MS <= 7)).toBe(true);
  });

  it('waits for longer than a timer can', async () => {
    const month = 40 * 24 * 60 * MINUTE_MS;
    const { time, times } = stage({ ...sweep, everyMs: month });
    await time.pass(month);
    expect(times()).toEqual([0, month]);
  });

  it('has one timer at most, and none after it is closed', async () => {
    const { time, times, close } = stage(sweep, { ...sweep, name: 'Backstop', functionName: 'backstop' });
    await time.pass(MINUTE_MS);
    expect(time.waiting).toBe(2);
    await close();
    expect(time.waiting).toBe(0);
    await time.pass(10 * MINUTE_MS);
    expect(times()).toHaveLength(4);
  });

  it('tells of a function that is not there, and tries again', async () => {
    const { time, reports } = stage({ ...sweep, functionName: 'gone' });
    await time.pass(MINUTE_MS);
    expect(reports.map(({ level, source }) => [level, source])).toEqual([
      ['error', 'schedules'],
      ['error', 'schedules'],
    ]);
  });
});

it('a real timer acts once, and not where it was called off', async () => {
  const acted = await new Promise<readonly string[]>((resolve) => {
    const log: string[] = [];
    const cancel = realTimers.after(1, () => log.push('called off'));
    cancel();
    realTimers.after(5, () => resolve([...log, 'acted']));
  });
  expect(acted).toEqual(['acted']);
});
