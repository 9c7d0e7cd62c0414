import { expect, it } from 'vitest';
import { eventBus } from '../../../lib/local/events/bus.ts';
import type { RuleModel } from '../../../lib/local/model.ts';
import type { Report } from '../../../lib/local/ports.ts';

const AT = Date.UTC(2030, 0, 15, 12, 0, 0, 789);

const created = {
  source: 'aws.s3',
  'detail-type': 'Object Created',
  resources: ['arn:aws:s3:::failures'],
  detail: { bucket: { name: 'failures' }, object: { key: 'a/b' } },
};

const rule = (name: string, bucket: string, ...functionNames: string[]): RuleModel => ({
  name,
  pattern: { source: ['aws.s3'], detail: { bucket: { name: [bucket] } } },
  functionNames,
});

function stage(rules: readonly RuleModel[], unknown: readonly string[] = []) {
  const invoked: { name: string; event: unknown }[] = [];
  const reports: Report[] = [];
  const functions = {
    invokeLater(name: string, event: string) {
      if (unknown.includes(name)) throw new Error(`no function ${name}`);
      invoked.push({ name, event: JSON.parse(event) });
    },
  };
  const report = (one: Report) => reports.push(one);
  const bus = eventBus({ rules, functions, report, clock: () => AT, newId: () => 'id-1' });
  return { bus, invoked, reports };
}

it('an event goes to every function of every rule that matches it, in the envelope of EventBridge', () => {
  const { bus, invoked } = stage([
    rule('One', 'failures', 'redrive', 'audit'),
    rule('Two', 'failures', 'other'),
    rule('Three', 'elsewhere', 'never'),
  ]);
  bus.put(created);
  expect(invoked.map(({ name }) => name)).toEqual(['redrive', 'audit', 'other']);
  expect(invoked[0]?.event).toEqual({
    version: '0',
    id: 'id-1',
    account: '000000000000',
    time: '2030-01-15T12:00:00Z',
    region: 'us-east-1',
    ...created,
  });
});

it('a rule may look at what the bus has added', () => {
  const { bus, invoked } = stage([
    { name: 'Region', pattern: { region: ['us-east-1'] }, functionNames: ['here'] },
  ]);
  bus.put(created);
  expect(invoked).toHaveLength(1);
});

it('what puts an event may say when and where it was', () => {
  const { bus, invoked } = stage([rule('One', 'failures', 'redrive')]);
  bus.put({ ...created, time: '2029-01-01T00:00:00Z', id: 'mine' });
  expect(invoked[0]?.event).toMatchObject({ time: '2029-01-01T00:00:00Z', id: 'mine' });
});

it('a function that is not there is told of, and the others are invoked', () => {
  const { bus, invoked, reports } = stage([rule('One', 'failures', 'gone', 'redrive')], ['gone']);
  bus.put(created);
  expect(invoked.map(({ name }) => name)).toEqual(['redrive']);
  expect(reports.filter(({ level }) => level === 'error')).toMatchObject([
    { source: 'events', fields: { rule: 'One', functionName: 'gone' } },
  ]);
});

it('a rule that could not be followed is refused at the start', () => {
  const odd: RuleModel = { name: 'Odd', pattern: { a: [{ wildcard: '*' }] }, functionNames: ['x'] };
  expect(() => stage([odd])).toThrow('the rule Odd');
});
