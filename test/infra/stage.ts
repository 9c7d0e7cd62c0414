import { App, Duration, type Environment, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { Code, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import flags from '../../cdk.json' with { type: 'json' };
import { referenceApp } from '../../lib/infra/reference/app.ts';

/** Nothing is bundled: what is asserted here is what is deployed around the code. */
export const UNBUNDLED = { ...flags.context, 'aws:cdk:bundling-stacks': [] };

export function newStack(env: Environment = {}): Stack {
  return new Stack(new App({ context: UNBUNDLED, analyticsReporting: false }), 'Test', { env });
}

export function newFunction(
  scope: Construct,
  id: string,
  timeout: Duration | undefined = Duration.seconds(10),
) {
  return new LambdaFunction(scope, id, {
    runtime: Runtime.NODEJS_24_X,
    handler: 'index.handler',
    code: Code.fromInline('exports.handler = async () => {}'),
    ...(timeout && { timeout }),
  });
}

interface Statement {
  readonly Action: string | readonly string[];
  readonly Resource: unknown;
  readonly Effect: string;
}

interface Policy {
  readonly Properties: {
    readonly Roles?: readonly { readonly Ref: string }[];
    readonly PolicyDocument: { readonly Statement: readonly Statement[] };
  };
}

const listOf = <T>(one: T | readonly T[]): readonly T[] => (Array.isArray(one) ? one : [one as T]);

/** `action on resource`, for all that a function's role may do; resources by the logical name in them. */
export function allowedTo(template: Template, functionName: RegExp): string[] {
  const functions = Object.entries(template.findResources('AWS::Lambda::Function'));
  const [, fn] = functions.find(([name]) => functionName.test(name)) ?? [];
  if (!fn) throw new Error(`no function is named ${functionName}`);
  const role = fn['Properties'].Role['Fn::GetAtt'][0];
  const policies = Object.values(template.findResources('AWS::IAM::Policy')) as unknown as Policy[];
  return policies
    .filter(({ Properties: { Roles = [] } }) => Roles.some(({ Ref }) => Ref === role))
    .flatMap(({ Properties }) => Properties.PolicyDocument.Statement)
    .flatMap(({ Action, Resource }) =>
      listOf(Action).flatMap((action) =>
        listOf(Resource).map((resource) => `${action} on ${named(resource)}`),
      ),
    )
    .toSorted();
}

/** What an ARN is of, without what CloudFormation and CDK add to it. */
function named(resource: unknown): string {
  if (typeof resource === 'string') return resource;
  const text = JSON.stringify(resource);
  const name =
    /"(?:Fn::GetAtt|Ref)":\[?"([A-Za-z]+?)[0-9A-F]{8}"/.exec(text) ??
    /"OutputName":"PublishOutput(?:FnGetAtt|Ref)([A-Za-z]+?)[0-9A-F]{8}/.exec(text);
  const tail = /"(\/[^"]*)"\]?\]?\}?$/.exec(text)?.[1] ?? '';
  const what = /StreamArn/.test(text) ? '.stream' : '';
  return `${name?.[1] ?? text}${what}${tail}`;
}

/** The reference service as it would be deployed, but for its code. */
export function templates(
  context: Readonly<Record<string, unknown>> = {},
  environment: NodeJS.ProcessEnv = {},
) {
  const app = referenceApp(environment, { context: { ...UNBUNDLED, ...context }, analyticsReporting: false });
  const [state, service] = ['OncekeyState', 'OncekeyService'].map((id) => app.node.findChild(id) as Stack);
  if (!state || !service) throw new Error('the app has not both stacks');
  return { app, state, service, ofState: Template.fromStack(state), ofService: Template.fromStack(service) };
}

/** What a template says, with `<Name>` for what it refers to. */
export function said(value: unknown): string {
  if (typeof value === 'string') return value;
  const { Ref, 'Fn::GetAtt': attribute, 'Fn::Join': join } = value as Record<string, never[]>;
  if (join) return (join[1] ?? ([] as unknown[])).map(said).join('');
  return `<${String(Ref ?? attribute?.[0]).replace(/[0-9A-F]{8}$/, '')}>`;
}
