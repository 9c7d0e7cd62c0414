import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { ManagedPolicy, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Architecture, Runtime, Tracing } from 'aws-cdk-lib/aws-lambda';
import { NodejsFunction, type NodejsFunctionProps, OutputFormat } from 'aws-cdk-lib/aws-lambda-nodejs';
import { type ILogGroupRef, LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { acknowledge } from './acknowledge.ts';
import type { IdempotencyLedger, Protection } from './ledger.ts';
import { statement } from './statement.ts';

export interface IdempotentFunctionProps extends NodejsFunctionProps {
  /** Protects the function with this ledger. */
  readonly ledger?: IdempotencyLedger;
  readonly protection?: Protection;
}

/** One second under the 30 that an HTTP API waits: the function answers before its gateway does. */
const TIMEOUT = Duration.seconds(29);

/** Lambda's share of a processor grows with memory; at 512 MB a cold start and the hashing take half of what they do at 128. */
const MEMORY_MB = 512;

/**
 * Some packages in a bundle are still CommonJS and ask for Node's own modules by `require`, which ESM has not.
 * https://esbuild.github.io/api/#banner
 */
const REQUIRE =
  "import{createRequire as oncekeyRequire}from'node:module';const require=oncekeyRequire(import.meta.url);";

/** A function as Lambda runs it best: Node 24 on Graviton, one small ESM file with the SDK in it, traced, its logs kept for a month. */
export class IdempotentFunction extends NodejsFunction {
  constructor(scope: Construct, id: string, { ledger, protection, ...props }: IdempotentFunctionProps) {
    const logGroup = props.logGroup ?? logGroupOf(scope, id);
    const role = props.role ?? roleOf(scope, id, logGroup, props.vpc !== undefined);
    super(scope, id, {
      runtime: Runtime.NODEJS_24_X,
      architecture: Architecture.ARM_64,
      memorySize: MEMORY_MB,
      timeout: TIMEOUT,
      tracing: Tracing.ACTIVE,
      ...props,
      logGroup,
      role,
      environment: { NODE_OPTIONS: '--enable-source-maps', ...props.environment },
      bundling: {
        format: OutputFormat.ESM,
        target: 'node24',
        minify: true,
        // Errors are logged by the name of their class, and a runbook is of no use to whoever reads `sa`.
        keepNames: true,
        sourceMap: true,
        // What is in the bundle is what was tested; Lambda's own copy of the SDK changes under it, and loads slower.
        bundleAwsSDK: true,
        mainFields: ['module', 'main'],
        banner: REQUIRE,
        ...props.bundling,
      },
    });
    acknowledge(
      role,
      'AwsSolutions-IAM5[Resource::*]',
      'X-Ray and ListStreams know no resources; AWS forces the asterisk.',
    );
    ledger?.protect(this, protection);
  }
}

/** Made here and not by Lambda on its first call, which would keep it for ever. */
function logGroupOf(scope: Construct, id: string): LogGroup {
  return new LogGroup(scope, `${id}Logs`, {
    retention: RetentionDays.ONE_MONTH,
    removalPolicy: RemovalPolicy.DESTROY,
  });
}

/** It may write its own logs; AWS's managed policy would let it write everybody's. */
function roleOf(scope: Construct, id: string, { logGroupRef }: ILogGroupRef, inVpc: boolean): Role {
  const role = new Role(scope, `${id}Role`, { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
  role.addToPolicy(statement(['logs:CreateLogStream', 'logs:PutLogEvents'], [logGroupRef.logGroupArn]));
  if (inVpc) {
    // Lambda makes the interfaces with the function's role, and knows no resource for that.
    role.addManagedPolicy(
      ManagedPolicy.fromAwsManagedPolicyName('service-role/AWSLambdaENIManagementAccess'),
    );
    acknowledge(
      role,
      'AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaENIManagementAccess]',
      'It has the five actions on network interfaces that Lambda needs in a VPC, and nothing else.',
    );
  }
  return role;
}
