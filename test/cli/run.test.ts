import { describe, expect, it } from 'vitest';
import { run } from '../../lib/cli/run.ts';
import { ledgerAccess } from '../../lib/infra/access.ts';
import { createTableInput } from '../../lib/ledger/schema.ts';

async function said(...words: string[]) {
  const texts = { out: '', err: '' };
  const code = await run(words, {
    out: (text) => {
      texts.out += text;
    },
    err: (text) => {
      texts.err += text;
    },
  });
  return { code, ...texts };
}

describe('oncekey', () => {
  it.each([[[]], [['--help']], [['help']]])('says what it can do: %j', async (words) => {
    const { code, out, err } = await said(...words);
    expect([code, err]).toEqual([0, '']);
    expect(out).toContain('oncekey template');
  });

  it('says so where there is no such command, and what there is', async () => {
    const { code, out, err } = await said('templat');
    expect([code, out]).toEqual([2, '']);
    expect(err).toMatch(/^oncekey: there is no command templat\.\n[\s\S]*oncekey template/);
  });

  it('takes no name of a JavaScript object for a command', async () => {
    expect((await said('constructor')).code).toBe(2);
  });

  it('explains a command', async () => {
    expect(await said('template', '--help')).toMatchObject({ code: 0, out: expect.stringContaining('SAM') });
  });

  it('refuses words that a command does not take', async () => {
    expect(await said('template', 'yaml')).toEqual({
      code: 2,
      out: '',
      err: 'oncekey template: it takes no words; received yaml.\n',
    });
  });
});

describe('oncekey template', () => {
  interface Resource {
    readonly Type: string;
    readonly Condition?: string;
    readonly Properties: Record<string, unknown>;
  }
  const template = said('template').then(
    ({ out }) => JSON.parse(out) as Record<string, Record<string, Resource>>,
  );
  const ofType = async (type: string) =>
    Object.entries((await template)['Resources'] ?? {}).filter(([, { Type }]) => Type === type);

  it('is plain CloudFormation: nothing of CDK has to be deployed before it', async () => {
    const text = JSON.stringify(await template);
    expect(text).not.toMatch(/cdk-bootstrap|BootstrapVersion|AssetParameters|CDKMetadata|Custom::/);
    expect(Object.keys((await template)['Resources'] ?? {})).not.toEqual([]);
  });

  it('has the table that the code is written for', async () => {
    const [[, table] = []] = await ofType('AWS::DynamoDB::GlobalTable');
    const { KeySchema, AttributeDefinitions } = createTableInput('any');
    expect(table?.Properties).toMatchObject({
      KeySchema,
      AttributeDefinitions,
      TimeToLiveSpecification: { AttributeName: 'ttl', Enabled: true },
      StreamSpecification: { StreamViewType: 'NEW_AND_OLD_IMAGES' },
    });
  });

  it('allows each role what the code in it does, and who reads the stream to read it and to keep what failed', async () => {
    const policies = Object.fromEntries(
      (await ofType('AWS::IAM::ManagedPolicy')).map(([name, { Properties }]) => {
        const { Statement } = Properties['PolicyDocument'] as { Statement: { Action: string | string[] }[] };
        return [name.replace(/Policy.*/, '').toLowerCase(), Statement.flatMap(({ Action }) => Action)];
      }),
    );
    const reading = ['DescribeStream', 'GetRecords', 'GetShardIterator', 'ListStreams'];
    for (const [role, { table, dueIndex }] of Object.entries(ledgerAccess)) {
      const reads = [...reading.map((action) => `dynamodb:${action}`), 's3:PutObject', 's3:ListBucket'];
      const isReader = role === 'sentinel' || role === 'dispatch';
      expect([role, policies[role]]).toEqual([role, [...table, ...dueIndex, ...(isReader ? reads : [])]]);
    }
  });

  it('sweeps every minute, and searches and audits every day', async () => {
    const schedules = await ofType('AWS::Scheduler::Schedule');
    expect(schedules.map(([name, { Properties }]) => [name, Properties['ScheduleExpression']])).toEqual([
      ['SweepSchedule', 'rate(1 minute)'],
      ['BackstopSchedule', 'rate(1 day)'],
      ['AuditSchedule', 'rate(1 day)'],
    ]);
  });

  it('has a policy for each role, and invokes the functions that are named and no others', async () => {
    const policies = (await ofType('AWS::IAM::ManagedPolicy')).map(([name]) => name.replace(/Policy.*/, ''));
    expect(policies.toSorted()).toEqual([
      ...['Audit', 'Backstop', 'Dispatch', 'Operator'],
      ...['Protected', 'Sentinel', 'Status', 'Sweep', 'Webhook'],
    ]);
    const invoked = [
      ...(await ofType('AWS::Lambda::EventSourceMapping')),
      ...(await ofType('AWS::Scheduler::Schedule')),
    ];
    expect(invoked.map(([name, { Condition }]) => `${name} if ${Condition}`)).toEqual([
      'SentinelStream if HasSentinel',
      'DispatchStream if HasDispatch',
      'SweepSchedule if HasSweep',
      'BackstopSchedule if HasBackstop',
      'AuditSchedule if HasAudit',
    ]);
  });
});
