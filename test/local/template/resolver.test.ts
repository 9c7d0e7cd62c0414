import { describe, expect, it } from 'vitest';
import { createResolver } from '../../../lib/local/template/resolver.ts';
import { assemblyOf, att, functionWith, ref, resource, tableWith } from './templates.ts';

const other = {
  Resources: { Rows: tableWith() },
  Conditions: { No: { 'Fn::Equals': ['a', 'b'] } },
  Outputs: {
    RowsName: { Value: ref('Rows'), Export: { Name: { 'Fn::Sub': `\${AWS::StackName}:Rows` } } },
    Nobody: { Value: ref('Rows'), Condition: 'No', Export: { Name: 'nobody' } },
    Circle: { Value: { 'Fn::ImportValue': 'circle' }, Export: { Name: 'circle' } },
  },
};

const shop = {
  Parameters: {
    Stage: { Type: 'String', Default: 'dev' },
    Count: { Type: 'Number', Default: 3 },
    Zones: { Type: 'CommaDelimitedList', Default: 'a, b,c' },
    Asked: { Type: 'String' },
    Stored: { Type: 'AWS::SSM::Parameter::Value<String>', Default: '/name/of/it' },
  },
  Mappings: { Runtimes: { 'us-east-1': { node: 'nodejs24.x' } } },
  Conditions: {
    IsDev: { 'Fn::Equals': [ref('Stage'), 'dev'] },
    IsProd: { 'Fn::Not': [{ Condition: 'IsDev' }] },
    Both: { 'Fn::And': [{ Condition: 'IsDev' }, { Condition: 'IsProd' }] },
    Either: { 'Fn::Or': [{ Condition: 'IsProd' }, { Condition: 'IsDev' }] },
    Odd: { 'Fn::Contains': [['a'], 'a'] },
    Circular: { 'Fn::Not': [{ Condition: 'Circular' }] },
  },
  Resources: {
    Pay: functionWith({}, { Metadata: { 'aws:cdk:path': 'Shop/Api/PayNow/Resource' } }),
    Named: functionWith({ FunctionName: { 'Fn::Sub': `\${Stage}-pay` } }),
    Version: resource('Lambda::Version', { FunctionName: ref('Pay') }),
    Live: resource('Lambda::Alias', { FunctionName: att('Named'), Name: 'live' }),
    Objects: resource('S3::Bucket', {}, { Metadata: { 'aws:cdk:path': 'Shop/Failed/Objects/Resource' } }),
    Letters: resource('SQS::Queue', {}),
    Key: resource('SecretsManager::Secret', {}, { Metadata: { 'aws:cdk:path': 'Shop/Key/Resource' } }),
    Tenants: resource('Cognito::UserPool', {}, { Metadata: { 'aws:cdk:path': 'Shop/Tenants/Resource' } }),
    Absent: { ...resource('SQS::Queue', {}), Condition: 'IsProd' },
    Topic: resource('SNS::Topic', {}),
    Ring: resource('SQS::Queue', { QueueName: ref('Ring') }),
  },
};

const assembly = assemblyOf({ Shop: shop, State: other });
const resolver = createResolver(assembly);

function resolved(value: unknown): unknown {
  const stack = assembly.stacks.find(({ name }) => name === 'Shop');
  if (!stack) throw new Error('the shop is not there');
  return resolver.resolve(value, { stack, place: { stack: 'Shop', what: 'Pay', property: 'Value' } });
}

describe('a value of a template', () => {
  it.each<[string, unknown, unknown]>([
    ['is left as it is', { a: [1, 'b', true, null] }, { a: [1, 'b', true, null] }],
    ['Join', { 'Fn::Join': ['-', ['a', ref('Stage'), 7]] }, 'a-dev-7'],
    ['Join of a list from elsewhere', { 'Fn::Join': ['', ref('Zones')] }, 'abc'],
    ['Split', { 'Fn::Split': [':', 'a:b:c'] }, ['a', 'b', 'c']],
    ['Select', { 'Fn::Select': ['1', { 'Fn::Split': [':', att('Letters')] }] }, 'aws'],
    ['Sub', { 'Fn::Sub': `\${Stage}/\${Letters.QueueName}/\${!kept}` }, `dev/Shop-Letters/\${kept}`],
    ['Sub with variables', { 'Fn::Sub': [`\${a}-\${Stage}`, { a: ref('Count') }] }, '3-dev'],
    ['If', { 'Fn::If': ['IsDev', 'yes', att('Absent')] }, 'yes'],
    ['If not', { 'Fn::If': ['IsProd', 'yes', { a: ref('Stage') }] }, { a: 'dev' }],
    ['And', { 'Fn::If': ['Both', 'yes', 'no'] }, 'no'],
    ['Or', { 'Fn::If': ['Either', 'yes', 'no'] }, 'yes'],
    ['FindInMap', { 'Fn::FindInMap': ['Runtimes', ref('AWS::Region'), 'node'] }, 'nodejs24.x'],
    ['ImportValue', { 'Fn::ImportValue': 'State:Rows' }, 'State-Rows'],
    [
      'GetStackOutput',
      { 'Fn::GetStackOutput': { StackName: 'State', Region: ref('AWS::Region'), OutputName: 'RowsName' } },
      'State-Rows',
    ],
    ['NoValue in a group', { a: ref('AWS::NoValue'), b: 1 }, { b: 1 }],
    ['NoValue in a list', [1, { 'Fn::If': ['IsDev', ref('AWS::NoValue'), 2] }, 3], [1, 3]],
  ])('%s', (_, value, expected) => {
    expect(resolved(value)).toEqual(expected);
  });

  it.each([
    ['AWS::Region', 'us-east-1'],
    ['AWS::AccountId', '000000000000'],
    ['AWS::Partition', 'aws'],
    ['AWS::URLSuffix', 'amazonaws.com'],
    ['AWS::StackName', 'Shop'],
  ])('%s is of the one account and Region that are here', (name, value) => {
    expect(resolved(ref(name))).toBe(value);
  });
});

describe('a resource is called', () => {
  it.each<[string, unknown, unknown]>([
    ['a function by its construct', ref('Pay'), 'pay-now'],
    ['and its ARN', 'Pay.Arn', 'arn:aws:lambda:us-east-1:000000000000:function:pay-now'],
    ['as its template names it', ref('Named'), 'dev-pay'],
    [
      'a version, which leads to its function',
      ref('Version'),
      'arn:aws:lambda:us-east-1:000000000000:function:pay-now:1',
    ],
    ['an alias too', ref('Live'), 'arn:aws:lambda:us-east-1:000000000000:function:dev-pay:live'],
    ['a bucket, in small letters', ref('Objects'), 'shop-failed-objects'],
    ['and its ARN', 'Objects.Arn', 'arn:aws:s3:::shop-failed-objects'],
    ['a queue by its URL', ref('Letters'), 'https://sqs.us-east-1.amazonaws.com/000000000000/Shop-Letters'],
    [
      'a secret by its ARN',
      ref('Key'),
      'arn:aws:secretsmanager:us-east-1:000000000000:secret:Shop-Key-000000',
    ],
    ['a pool', ref('Tenants'), 'us-east-1_ShopTenants'],
    [
      'and its issuer',
      'Tenants.ProviderURL',
      'https://cognito-idp.us-east-1.amazonaws.com/us-east-1_ShopTenants',
    ],
  ])('%s', (_, value, expected) => {
    const asked = typeof value === 'string' ? { 'Fn::GetAtt': value.split('.') } : value;
    expect(resolved(asked)).toBe(expected);
  });
});

describe('what has no value here is a problem that says where and what', () => {
  it.each<[unknown, RegExp]>([
    [ref('Nowhere'), /^Shop, Pay, Value\.a: the stack Shop has no resource or parameter Nowhere\.$/],
    [att('Nowhere'), /has no resource or parameter Nowhere/],
    [att('Pay', 'Colour'), /no value for Colour of Pay \(AWS::Lambda::Function\)/],
    [ref('Topic'), /refers to Topic \(AWS::SNS::Topic\), which is not there/],
    [ref('Absent'), /Absent \(AWS::SQS::Queue\) is not made: its condition IsProd is false/],
    [ref('Asked'), /parameter Asked has no default/],
    [ref('Stored'), /Stored is read from the Parameter Store/],
    [ref('Ring'), /QueueName of Ring.* depends on itself/],
    [{ 'Fn::Cidr': ['a'] }, /does not know Fn::Cidr; it knows Ref, Fn::GetAtt/],
    [{ 'Fn::Join': ['-', 'a'] }, /second argument of Fn::Join is "a"; expected a list/],
    [{ 'Fn::Join': ['-', [{ a: 1 }]] }, /part of Fn::Join is \{"a":1\}; expected a text/],
    [{ 'Fn::Join': ['-'] }, /Fn::Join is \["-"\]; expected a list of 2/],
    [{ 'Fn::Select': [2, ['a', 'b']] }, /takes number 2 of 2/],
    [{ 'Fn::Sub': `\${Nowhere}` }, /no resource or parameter Nowhere/],
    [{ 'Fn::If': ['Nowhere', 1, 2] }, /the stack Shop has no condition Nowhere/],
    [{ 'Fn::If': ['Odd', 1, 2] }, /^Shop, condition Odd: it is \{"Fn::Contains"/],
    [{ 'Fn::If': ['Circular', 1, 2] }, /condition Circular depends on itself/],
    [{ 'Fn::FindInMap': ['Runtimes', 'mars', 'node'] }, /nothing at Runtimes, mars, node/],
    [{ 'Fn::ImportValue': 'elsewhere' }, /no stack of the app exports elsewhere/],
    [{ 'Fn::ImportValue': 'nobody' }, /no stack of the app exports nobody/],
    [{ 'Fn::ImportValue': 'circle' }, /the output Circle of State depends on itself/],
    [
      { 'Fn::GetStackOutput': { StackName: 'Mars', OutputName: 'X' } },
      /no stack Mars in the app; it has Shop, State/,
    ],
    [{ 'Fn::GetStackOutput': { StackName: 'State', OutputName: 'X' } }, /the stack State has no output X/],
    ['a {{resolve:ssm:/x}}', /\{\{resolve:ssm:\/x\}\} is looked up in an AWS account/],
  ])('%j', (value, why) => {
    expect(() => resolved({ a: value })).toThrow(why);
  });
});
