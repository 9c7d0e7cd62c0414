import { type CfnCondition, CfnResource, Stack } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { CfnSchedule } from 'aws-cdk-lib/aws-scheduler';
import type { Construct } from 'constructs';
import { statement } from './statement.ts';

/** A missed minute is made up by the next; only the last few minutes are worth another try. */
const RETRY = { maximumEventAgeInSeconds: 300, maximumRetryAttempts: 2 };

/** Invokes a function again and again. The construct's own target would allow every version of it; this allows the function. */
export function every(
  scope: Construct,
  id: string,
  functionArn: string,
  expression: string,
  condition?: CfnCondition,
): CfnSchedule {
  const assumedBy = new ServicePrincipal('scheduler.amazonaws.com', {
    conditions: { StringEquals: { 'aws:SourceAccount': Stack.of(scope).account } },
  });
  const role = new Role(scope, `${id}Role`, { assumedBy });
  role.addToPolicy(statement(['lambda:InvokeFunction'], [functionArn]));
  const schedule = new CfnSchedule(scope, id, {
    scheduleExpression: expression,
    flexibleTimeWindow: { mode: 'OFF' },
    target: { arn: functionArn, roleArn: role.roleArn, retryPolicy: RETRY },
  });
  schedule.node.addDependency(role);
  if (condition) {
    for (const node of [schedule, ...role.node.findAll()]) {
      if (CfnResource.isCfnResource(node)) node.cfnOptions.condition = condition;
    }
  }
  return schedule;
}
