import { Stack } from 'aws-cdk-lib';
import { Policy, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { acknowledge } from './acknowledge.ts';

export function statement(actions: readonly string[], resources: readonly string[]): PolicyStatement {
  return new PolicyStatement({ actions: [...actions], resources: [...resources] });
}

/** On a bucket's objects, whose names nobody knows beforehand: in a policy of its own, so that only this has the asterisk. */
export function onObjects(
  scope: Construct,
  id: string,
  { role }: LambdaFunction,
  statements: PolicyStatement[],
): Policy {
  const policy = new Policy(scope, id, { statements, roles: role ? [role] : [] });
  policy.node.addValidation({
    /** Only by now references to other stacks have become what the template says, which is what cdk-nag names a finding by. */
    validate() {
      const asterisks = statements.flatMap(({ resources }) => resources).filter((arn) => arn.endsWith('/*'));
      for (const arn of new Set(asterisks)) {
        const finding = `AwsSolutions-IAM5[Resource::${flat(Stack.of(policy).resolve(arn))}]`;
        acknowledge(
          policy,
          finding,
          'Lambda makes up the names of the objects; the bucket is for them alone.',
        );
      }
      return [];
    },
  });
  return policy;
}

/** As cdk-nag writes an ARN: `<Bucket1234.Arn>/*`. */
function flat(arn: unknown): string {
  if (typeof arn === 'string') return arn;
  const { 'Fn::Join': join, 'Fn::GetAtt': attribute } = arn as {
    readonly 'Fn::Join'?: readonly [string, readonly unknown[]];
    readonly 'Fn::GetAtt'?: readonly [string, string];
  };
  if (join) return join[1].map(flat).join(join[0]);
  return attribute ? `<${attribute.join('.')}>` : JSON.stringify(arn);
}
