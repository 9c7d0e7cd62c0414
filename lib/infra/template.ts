import { App, BootstraplessSynthesizer, CfnCondition, CfnOutput, CfnParameter, Fn, Stack } from 'aws-cdk-lib';
import { ManagedPolicy, type PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { CfnEventSourceMapping } from 'aws-cdk-lib/aws-lambda';
import { type LedgerRole, ledgerAccess } from './access.ts';
import { acknowledge } from './acknowledge.ts';
import { IdempotencyLedger } from './ledger.ts';
import { every } from './schedule.ts';
import {
  dispatchReading,
  failureStatements,
  mappingOf,
  readingStatements,
  type StreamReading,
  sentinelReading,
} from './stream-reader.ts';

const READERS: Readonly<Partial<Record<LedgerRole, StreamReading>>> = {
  sentinel: sentinelReading,
  dispatch: dispatchReading,
};

const SCHEDULES: Readonly<Partial<Record<LedgerRole, string>>> = {
  sweep: 'rate(1 minute)',
  backstop: 'rate(1 day)',
  audit: 'rate(1 day)',
};

/**
 * The layer as plain CloudFormation, for SAM, Terraform and SST: the table and the bucket, a policy for each role, and, for the
 * functions that are named in its parameters, what invokes them. The functions themselves are yours: their code is.
 */
export function layerTemplate(): object {
  const app = new App({ analyticsReporting: false });
  const stack = new Stack(app, 'OncekeyLayer', {
    description: 'oncekey: the ledger of idempotency keys, what its functions may do, and what invokes them',
    synthesizer: new BootstraplessSynthesizer() as never, // Its type has an undefined that the port does not allow.
  });
  acknowledge(
    stack,
    'CloudFormation-Validate::W1030',
    'A parameter that is left empty makes none of what it names.',
  );
  const ledger = new IdempotencyLedger(stack, 'Ledger');
  new CfnOutput(stack, 'LedgerTable', { value: ledger.table.tableName });
  new CfnOutput(stack, 'LedgerStream', { value: String(ledger.table.tableStreamArn) });
  new CfnOutput(stack, 'FailedBatchesBucket', { value: ledger.failedBatches.bucketName });
  for (const role of Object.keys(ledgerAccess) as LedgerRole[]) {
    const name = role.replace(/^./, (letter) => letter.toUpperCase());
    const policy = new ManagedPolicy(stack, `${name}Policy`, { statements: statementsOf(ledger, role) });
    new CfnOutput(stack, `${name}PolicyArn`, { value: policy.managedPolicyArn });
    invoked(stack, ledger, role, name);
  }
  return app.synth().getStackByName(stack.stackName).template;
}

function statementsOf(ledger: IdempotencyLedger, role: LedgerRole): PolicyStatement[] {
  const reads = READERS[role] ? [...readingStatements(ledger), ...failureStatements(ledger)] : [];
  return [...ledger.statements(role), ...reads];
}

function invoked(stack: Stack, ledger: IdempotencyLedger, role: LedgerRole, name: string): void {
  const [reading, schedule] = [READERS[role], SCHEDULES[role]];
  if (!reading && !schedule) return;
  const arn = new CfnParameter(stack, `${name}FunctionArn`, {
    default: '',
    description: `Your function with the role ${role}. Its own role needs ${name}Policy before it is named here.`,
  }).valueAsString;
  const given = new CfnCondition(stack, `Has${name}`, {
    expression: Fn.conditionNot(Fn.conditionEquals(arn, '')),
  });
  if (reading) {
    const mapping = new CfnEventSourceMapping(stack, `${name}Stream`, mappingOf(ledger, arn, reading));
    mapping.cfnOptions.condition = given;
  }
  if (schedule) every(stack, `${name}Schedule`, arn, schedule, given);
}
