import { LOCAL_ACCOUNT, LOCAL_REGION } from '../model.ts';
import { pathName } from './names.ts';

/** What `Ref` and `Fn::GetAtt` of a resource may be asked about it. */
export interface Self {
  readonly name: string;
  /** A property of it, which must be a text. */
  text(property: string): string;
}

type Told = (self: Self) => string;

export interface Identity {
  /** The property by which a template may choose the name itself. */
  readonly named?: string;
  /** Where it does not: the last of its construct ids, or a name made of its whole path. */
  readonly friendly: 'short' | ((path: string) => string);
  readonly ref: Told;
  readonly attributes: Readonly<Record<string, Told>>;
}

function arnOf(service: string, resource: string): string {
  return `arn:aws:${service}:${LOCAL_REGION}:${LOCAL_ACCOUNT}:${resource}`;
}

export const bucketArn = (name: string): string => `arn:aws:s3:::${name}`;
export const functionArn = (name: string): string => arnOf('lambda', `function:${name}`);
export const tableArn = (name: string): string => arnOf('dynamodb', `table/${name}`);
export const queueArn = (name: string): string => arnOf('sqs', name);

/** A stream's label is the time at which it was made; nothing here depends on which. */
export const streamArn = (name: string): string => `${tableArn(name)}/stream/2000-01-01T00:00:00.000`;

/** Secrets Manager adds six characters of its own, and there is code that cuts them off again. */
export const secretArn = (name: string): string => arnOf('secretsmanager', `secret:${name}-000000`);

export const issuerOf = (poolId: string): string => `https://${providerOf(poolId)}`;
const providerOf = (poolId: string): string => `cognito-idp.${LOCAL_REGION}.amazonaws.com/${poolId}`;

const queueUrl: Told = ({ name }) => `https://sqs.${LOCAL_REGION}.amazonaws.com/${LOCAL_ACCOUNT}/${name}`;
const byName: Told = ({ name }) => name;

const table: Identity = {
  named: 'TableName',
  friendly: pathName,
  ref: byName,
  attributes: { Arn: ({ name }) => tableArn(name), StreamArn: ({ name }) => streamArn(name) },
};

/** A function that is called by a version or an alias of it, which is one more word in its ARN. */
const qualified =
  (qualifier: Told): Told =>
  (self) => {
    const target = self.text('FunctionName');
    return `${target.startsWith('arn:') ? target : functionArn(target)}:${qualifier(self)}`;
  };

const version: Told = qualified(() => '1');
const alias: Told = qualified((self) => self.text('Name'));

/** Of what only others in the templates refer to. */
const internal: Identity = { friendly: pathName, ref: byName, attributes: {} };

/** Whatever may be referred to. The value of anything else is not known here, and is not guessed. */
export const IDENTITIES: Readonly<Record<string, Identity>> = {
  'AWS::DynamoDB::Table': table,
  'AWS::DynamoDB::GlobalTable': table,
  'AWS::Lambda::Function': {
    named: 'FunctionName',
    friendly: 'short',
    ref: byName,
    attributes: { Arn: ({ name }) => functionArn(name) },
  },
  'AWS::Lambda::Version': {
    friendly: pathName,
    ref: version,
    attributes: { Version: () => '1', FunctionArn: version },
  },
  'AWS::Lambda::Alias': { friendly: pathName, ref: alias, attributes: { AliasArn: alias } },
  'AWS::Lambda::EventSourceMapping': { friendly: 'short', ref: byName, attributes: {} },
  'AWS::S3::Bucket': {
    named: 'BucketName',
    friendly: (path) => pathName(path).toLowerCase(),
    ref: byName,
    attributes: { Arn: ({ name }) => bucketArn(name) },
  },
  'AWS::SQS::Queue': {
    named: 'QueueName',
    friendly: pathName,
    ref: queueUrl,
    attributes: { Arn: ({ name }) => queueArn(name), QueueName: byName, QueueUrl: queueUrl },
  },
  'AWS::SecretsManager::Secret': {
    named: 'Name',
    friendly: pathName,
    ref: ({ name }) => secretArn(name),
    attributes: { Id: ({ name }) => secretArn(name) },
  },
  'AWS::Scheduler::Schedule': { named: 'Name', friendly: 'short', ref: byName, attributes: {} },
  'AWS::Events::Rule': { named: 'Name', friendly: 'short', ref: byName, attributes: {} },
  'AWS::Cognito::UserPool': {
    friendly: (path) => `${LOCAL_REGION}_${path.replaceAll(/[^A-Za-z0-9]/g, '')}`,
    ref: byName,
    attributes: {
      UserPoolId: byName,
      Arn: ({ name }) => arnOf('cognito-idp', `userpool/${name}`),
      ProviderName: ({ name }) => providerOf(name),
      ProviderURL: ({ name }) => issuerOf(name),
    },
  },
  'AWS::Cognito::UserPoolClient': { friendly: 'short', ref: byName, attributes: { ClientId: byName } },
  'AWS::Cognito::UserPoolDomain': { named: 'Domain', friendly: pathName, ref: byName, attributes: {} },
  'AWS::Cognito::UserPoolResourceServer': {
    named: 'Identifier',
    friendly: pathName,
    ref: byName,
    attributes: {},
  },
  // Its address is known when it runs, and no sooner: `ApiEndpoint` has no value here.
  'AWS::ApiGatewayV2::Api': { friendly: 'short', ref: byName, attributes: { ApiId: byName } },
  'AWS::ApiGatewayV2::Integration': internal,
  'AWS::ApiGatewayV2::Authorizer': internal,
};
