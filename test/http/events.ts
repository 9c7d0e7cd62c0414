/** Events as AWS sends them, whole, so that a reader which looks in the wrong place finds something there. */

const BODY = '{"amount":1250,"currency":"EUR"}';
const KEY = '"8e03978e-40d5-43dd-bc93-6894a57f9324"';

type Event = Record<string, unknown>;

/** Deep enough for events: objects are merged, everything else replaced, so that a test says only what differs. */
function withChanges(event: Event, changes: Event): Event {
  const merged: Event = structuredClone(event);
  for (const [name, value] of Object.entries(changes)) {
    const old = merged[name];
    merged[name] = isPlain(old) && isPlain(value) ? withChanges(old, value) : value;
  }
  return merged;
}

function isPlain(value: unknown): value is Event {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function httpApi(changes: Event = {}): Event {
  return withChanges(
    {
      version: '2.0',
      routeKey: 'POST /payments/{id}/refund',
      rawPath: '/payments/pay_1/refund',
      rawQueryString: 'expand=charge&expand=customer&note=caf%C3%A9+au+lait',
      cookies: ['session=abc', 'theme=dark'],
      headers: {
        accept: '*/*',
        'accept-encoding': 'gzip,deflate',
        'content-length': '32',
        'content-type': 'application/json',
        host: 'a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com',
        'idempotency-key': KEY,
        'user-agent': 'acme-checkout/4.2',
        'x-amzn-trace-id': 'Root=1-65f1c1a2-3b9f0d2c1a7e4f5b6c8d9e0f',
        'x-forwarded-for': '203.0.113.7',
        'x-tag': 'one,two',
      },
      queryStringParameters: { expand: 'charge,customer', note: 'café au lait' },
      pathParameters: { id: 'pay_1' },
      requestContext: {
        accountId: '123456789012',
        apiId: 'a1b2c3d4e5',
        authorizer: {
          jwt: {
            claims: {
              aud: 'checkout',
              'cognito:groups': '[admin finance]',
              exp: '1710345600',
              iss: 'https://login.example.com/',
              realm_access: 'map[roles:[admin]]',
              sub: 'user-17',
              'https://example.com/tenant': 'acme',
            },
            scopes: ['payments:write'],
          },
        },
        domainName: 'a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com',
        domainPrefix: 'a1b2c3d4e5',
        http: {
          method: 'POST',
          path: '/payments/pay_1/refund',
          protocol: 'HTTP/1.1',
          sourceIp: '203.0.113.7',
          userAgent: 'acme-checkout/4.2',
        },
        requestId: 'UxFGhj2dFiAEJ4w=',
        routeKey: 'POST /payments/{id}/refund',
        stage: '$default',
        time: '13/Mar/2024:15:09:22 +0000',
        timeEpoch: 1710342562000,
      },
      stageVariables: { ledger: 'live' },
      body: BODY,
      isBase64Encoded: false,
    },
    changes,
  );
}

export const httpApiLambdaAuthorizer = () =>
  httpApi({
    requestContext: {
      authorizer: {
        jwt: undefined,
        lambda: { tenantId: 'acme', plan: 'gold', seats: 12, roles: ['a', 'b'] },
      },
    },
  });

export const httpApiIam = () =>
  httpApi({
    requestContext: {
      authorizer: {
        jwt: undefined,
        iam: {
          accessKey: 'ASIAIOSFODNN7EXAMPLE',
          accountId: '111122223333',
          callerId: 'AROAIDPPEZS35WEXAMPLE:task-7f3a',
          cognitoIdentity: null,
          principalOrgId: 'o-exampleorgid',
          userArn: 'arn:aws:sts::111122223333:assumed-role/Checkout/task-7f3a',
          userId: 'AROAIDPPEZS35WEXAMPLE:task-7f3a',
        },
      },
    },
  });

export const httpApiCognitoIdentity = () =>
  httpApi({
    requestContext: {
      authorizer: {
        jwt: undefined,
        iam: {
          accessKey: 'ASIAIOSFODNN7EXAMPLE',
          accountId: '111122223333',
          callerId: 'AROA7ZJZYVRE7C3DUXHH6:CognitoIdentityCredentials',
          cognitoIdentity: {
            amr: ['authenticated'],
            identityId: 'eu-central-1:3f291106-8703-466b-8f2b-3ecee1ca56ce',
            identityPoolId: 'eu-central-1:4f291106-8703-466b-8f2b-3ecee1ca56ce',
          },
          principalOrgId: null,
          userArn: 'arn:aws:sts::111122223333:assumed-role/AppUsers/CognitoIdentityCredentials',
          userId: 'AROA7ZJZYVRE7C3DUXHH6',
        },
      },
    },
  });

export function functionUrl(changes: Event = {}): Event {
  return withChanges(
    {
      version: '2.0',
      routeKey: '$default',
      rawPath: '/payments/pay_1/refund',
      rawQueryString: 'dry=1',
      cookies: ['session=abc'],
      headers: {
        'content-length': '32',
        'content-type': 'application/json',
        cookie: 'session=abc',
        host: 'abcdefghijklmnop.lambda-url.eu-central-1.on.aws',
        'idempotency-key': KEY,
        'x-forwarded-for': '203.0.113.7',
      },
      queryStringParameters: { dry: '1' },
      requestContext: {
        accountId: '123456789012',
        apiId: 'abcdefghijklmnop',
        authentication: null,
        authorizer: {
          iam: {
            accessKey: 'AKIAIOSFODNN7EXAMPLE',
            accountId: '111122223333',
            callerId: 'AIDACKCEVSQ6C2EXAMPLE',
            cognitoIdentity: null,
            principalOrgId: null,
            userArn: 'arn:aws:iam::111122223333:user/billing',
            userId: 'AIDACKCEVSQ6C2EXAMPLE',
          },
        },
        domainName: 'abcdefghijklmnop.lambda-url.eu-central-1.on.aws',
        domainPrefix: 'abcdefghijklmnop',
        http: {
          method: 'PATCH',
          path: '/payments/pay_1/refund',
          protocol: 'HTTP/1.1',
          sourceIp: '203.0.113.7',
          userAgent: 'curl/8.5.0',
        },
        requestId: 'e1506fd5-9e7b-434f-bd42-4f8fa224b599',
        routeKey: '$default',
        stage: '$default',
        time: '13/Mar/2024:15:09:22 +0000',
        timeEpoch: 1710342562000,
      },
      body: BODY,
      isBase64Encoded: false,
    },
    changes,
  );
}

export function restApi(changes: Event = {}): Event {
  return withChanges(
    {
      resource: '/payments/{id}/refund',
      path: '/payments/pay_1/refund',
      httpMethod: 'POST',
      headers: {
        Accept: '*/*',
        'Content-Type': 'application/json',
        'CloudFront-Viewer-Country': 'DE',
        Host: 'gy415nuibc.execute-api.eu-central-1.amazonaws.com',
        'Idempotency-Key': KEY,
        'X-Tag': 'two',
      },
      multiValueHeaders: {
        Accept: ['*/*'],
        'Content-Type': ['application/json'],
        'CloudFront-Viewer-Country': ['DE'],
        Host: ['gy415nuibc.execute-api.eu-central-1.amazonaws.com'],
        'Idempotency-Key': [KEY],
        'X-Tag': ['one', 'two'],
      },
      queryStringParameters: { expand: 'customer', note: '100%25 + tip' },
      multiValueQueryStringParameters: { expand: ['charge', 'customer'], note: ['100%25 + tip'] },
      pathParameters: { id: 'pay_1' },
      stageVariables: null,
      requestContext: {
        accountId: '123456789012',
        apiId: 'gy415nuibc',
        authorizer: {
          claims: {
            aud: '5ij1e8example',
            'cognito:groups': 'admin,finance',
            email_verified: 'true',
            sub: 'b9a2c3d4-0000-4000-8000-1234567890ab',
            token_use: 'id',
          },
        },
        domainName: 'gy415nuibc.execute-api.eu-central-1.amazonaws.com',
        domainPrefix: 'gy415nuibc',
        extendedRequestId: 'JKJaXmPLvHcESHA=',
        httpMethod: 'POST',
        identity: {
          accessKey: null,
          accountId: null,
          caller: null,
          cognitoAuthenticationProvider: null,
          cognitoAuthenticationType: null,
          cognitoIdentityId: null,
          cognitoIdentityPoolId: null,
          principalOrgId: null,
          sourceIp: '203.0.113.7',
          user: null,
          userAgent: 'acme-checkout/4.2',
          userArn: null,
        },
        path: '/live/payments/pay_1/refund',
        protocol: 'HTTP/1.1',
        requestId: 'c6af9ac6-7b61-11e6-9a41-93e8deadbeef',
        requestTime: '13/Mar/2024:15:09:22 +0000',
        requestTimeEpoch: 1710342562000,
        resourceId: 'roq9wj',
        resourcePath: '/payments/{id}/refund',
        stage: 'live',
      },
      body: BODY,
      isBase64Encoded: false,
    },
    changes,
  );
}

export const restApiLambdaAuthorizer = () =>
  restApi({
    requestContext: {
      authorizer: { claims: undefined, principalId: 'user-17', tenantId: 'acme', integrationLatency: 42 },
    },
  });

export const restApiIam = () =>
  restApi({
    requestContext: {
      authorizer: null,
      identity: {
        accessKey: 'AKIAIOSFODNN7EXAMPLE',
        accountId: '111122223333',
        caller: 'AIDACKCEVSQ6C2EXAMPLE',
        user: 'AIDAUSERIDEXAMPLE0000',
        userArn: 'arn:aws:iam::111122223333:user/billing',
      },
    },
  });

/** An HTTP API whose integration asks for format 1.0; it sends `version`, and the stage in the path. */
export const httpApiPayload1 = () =>
  restApi({
    version: '1.0',
    path: '/live/payments/pay_1/refund',
    requestContext: { authorizer: { claims: { sub: 'user-17' }, scopes: null } },
  });

export function alb(changes: Event = {}): Event {
  return withChanges(
    {
      requestContext: {
        elb: {
          targetGroupArn:
            'arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/payments/6d0ecf831eec9f09',
        },
      },
      httpMethod: 'POST',
      path: '/payments/pay_1/refund',
      queryStringParameters: { 'filter%5Bname%5D': 'caf%C3%A9+au+lait', bad: '50%' },
      headers: {
        'content-length': '32',
        'content-type': 'application/json',
        host: 'payments-1234567.eu-central-1.elb.amazonaws.com',
        'idempotency-key': KEY,
        'x-amzn-oidc-data': 'eyJ0eXAiOiJKV1QifQ.eyJzdWIiOiJmb3JnZWQifQ.c2ln',
        'x-amzn-trace-id': 'Root=1-5c34e7d4-00ca239424b68028d4c56d68',
        'x-forwarded-for': '203.0.113.7',
      },
      body: BODY,
      isBase64Encoded: false,
    },
    changes,
  );
}

export function albMultiValue(changes: Event = {}): Event {
  return withChanges(
    alb({
      headers: undefined,
      queryStringParameters: undefined,
      multiValueHeaders: {
        'content-type': ['application/json'],
        host: ['payments-1234567.eu-central-1.elb.amazonaws.com'],
        'idempotency-key': [KEY],
        'x-tag': ['one', 'two'],
      },
      multiValueQueryStringParameters: { expand: ['charge%2Bfee', 'customer'] },
    }),
    changes,
  );
}

/** Everything else a function can be invoked by, with what the message must call it and send its author to. */
export const unsupportedEvents: readonly (readonly [is: string, instead: string, event: unknown])[] = [
  [
    'an SQS batch',
    'protectBatch',
    {
      Records: [
        {
          messageId: '059f36b4-87a3-44ab-83d2-661975830a7d',
          receiptHandle: 'AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a',
          body: BODY,
          attributes: { ApproximateReceiveCount: '1', SentTimestamp: '1545082649183' },
          messageAttributes: {},
          md5OfBody: 'e4e68fb7bd0e697a0ae8f1bb342846b3',
          eventSource: 'aws:sqs',
          eventSourceARN: 'arn:aws:sqs:eu-central-1:123456789012:payments',
          awsRegion: 'eu-central-1',
        },
      ],
    },
  ],
  [
    'an SNS notification',
    'protect',
    {
      Records: [
        {
          EventVersion: '1.0',
          EventSubscriptionArn: 'arn:aws:sns:eu-central-1:123456789012:payments:2c3d',
          EventSource: 'aws:sns',
          Sns: { Type: 'Notification', MessageId: '95df01b4', Message: BODY },
        },
      ],
    },
  ],
  [
    'a DynamoDB stream batch',
    'protect',
    {
      Records: [
        {
          eventID: 'c4ca4238a0b923820dcc509a6f75849b',
          eventName: 'INSERT',
          eventVersion: '1.1',
          eventSource: 'aws:dynamodb',
          awsRegion: 'eu-central-1',
          dynamodb: { Keys: { pk: { S: 'x' } }, SequenceNumber: '111', StreamViewType: 'NEW_IMAGE' },
        },
      ],
    },
  ],
  [
    'a Kinesis batch',
    'protect',
    { Records: [{ eventSource: 'aws:kinesis', eventName: 'aws:kinesis:record', kinesis: { data: 'e30=' } }] },
  ],
  [
    'an S3 notification',
    'protect',
    {
      Records: [
        {
          eventVersion: '2.1',
          eventSource: 'aws:s3',
          awsRegion: 'eu-central-1',
          eventName: 'ObjectCreated:Put',
          s3: { bucket: { name: 'receipts' }, object: { key: 'a.pdf', size: 1024 } },
        },
      ],
    },
  ],
  ['an SES message', 'protect', { Records: [{ eventSource: 'aws:ses', eventVersion: '1.0', ses: {} }] }],
  [
    'a Kafka batch',
    'protect',
    {
      eventSource: 'aws:kafka',
      eventSourceArn: 'arn:aws:kafka:…',
      records: { 'payments-0': [{ offset: 15 }] },
    },
  ],
  [
    'a Kafka batch',
    'protect',
    { eventSource: 'SelfManagedKafka', bootstrapServers: 'b-1:9092', records: {} },
  ],
  ['an Amazon MQ batch', 'protect', { eventSource: 'aws:rmq', rmqMessagesByQueue: {} }],
  ['an Amazon MQ batch', 'protect', { eventSource: 'aws:mq', messages: [] }],
  [
    'a Lambda@Edge request',
    'without idempotency()',
    {
      Records: [
        { cf: { config: { distributionId: 'EDFDVBD6EXAMPLE' }, request: { method: 'POST', uri: '/' } } },
      ],
    },
  ],
  [
    'a scheduled event',
    'protect',
    {
      version: '0',
      id: '53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa',
      'detail-type': 'Scheduled Event',
      source: 'aws.events',
      account: '123456789012',
      time: '2024-03-13T15:09:22Z',
      region: 'eu-central-1',
      resources: ['arn:aws:events:eu-central-1:123456789012:rule/nightly'],
      detail: {},
    },
  ],
  [
    'an EventBridge event',
    'protectBatch',
    {
      version: '0',
      id: '7bf73129-1428-4cd3-a780-95db273d1602',
      'detail-type': 'PaymentRequested',
      source: 'shop.checkout',
      account: '123456789012',
      time: '2024-03-13T15:09:22Z',
      region: 'eu-central-1',
      resources: [],
      detail: { amount: 1250 },
    },
  ],
  [
    'an API Gateway authorizer request',
    'without idempotency()',
    restApi({
      type: 'REQUEST',
      methodArn: 'arn:aws:execute-api:eu-central-1:123456789012:abc/live/POST/payments',
    }),
  ],
  [
    'an API Gateway authorizer request',
    'without idempotency()',
    httpApi({
      type: 'REQUEST',
      routeArn: 'arn:aws:execute-api:eu-central-1:123456789012:abc/$default/POST/x',
    }),
  ],
  [
    'an API Gateway authorizer request',
    'without idempotency()',
    { type: 'TOKEN', authorizationToken: 'secret-token', methodArn: 'arn:aws:execute-api:…' },
  ],
  [
    'a WebSocket event',
    'protect',
    {
      headers: { Host: 'abc.execute-api.eu-central-1.amazonaws.com', 'Sec-WebSocket-Version': '13' },
      multiValueHeaders: { Host: ['abc.execute-api.eu-central-1.amazonaws.com'] },
      requestContext: {
        routeKey: '$connect',
        eventType: 'CONNECT',
        messageDirection: 'IN',
        stage: 'live',
        connectionId: 'TWegAcC4EowCHnA=',
        apiId: 'abc',
      },
      isBase64Encoded: false,
    },
  ],
  [
    'a WebSocket event',
    'protect',
    {
      requestContext: {
        routeKey: 'pay',
        messageId: 'm1',
        eventType: 'MESSAGE',
        connectionId: 'TWegAcC4EowCHnA=',
        stage: 'live',
      },
      body: BODY,
      isBase64Encoded: false,
    },
  ],
  [
    'a VPC Lattice request',
    'protect',
    {
      version: '2.0',
      path: '/payments',
      method: 'POST',
      headers: { 'idempotency-key': [KEY] },
      requestContext: { serviceNetworkArn: 'arn:aws:vpc-lattice:…', serviceArn: 'arn:aws:vpc-lattice:…' },
      body: BODY,
    },
  ],
  ['a VPC Lattice request', 'protect', { raw_path: '/payments', method: 'POST', headers: {}, body: BODY }],
  [
    'an AppSync request',
    'protect',
    {
      arguments: { amount: 1250 },
      identity: { sub: 'user-17' },
      source: null,
      request: { headers: { host: 'example.appsync-api.eu-central-1.amazonaws.com' } },
      info: { fieldName: 'pay', parentTypeName: 'Mutation', variables: {} },
    },
  ],
  [
    'an AppSync request',
    'protect',
    [{ arguments: {}, info: { fieldName: 'pay', parentTypeName: 'Mutation' } }],
  ],
  ['an AppSync request', 'protect', { info: { channel: { path: '/a' }, operation: 'PUBLISH' }, events: [] }],
  ['a CloudWatch Logs batch', 'protect', { awslogs: { data: 'H4sIAAAA' } }],
  [
    'a Firehose batch',
    'protect',
    { invocationId: 'i', deliveryStreamArn: 'arn:aws:firehose:…', records: [] },
  ],
  [
    'a Cognito trigger',
    'without idempotency()',
    {
      version: '1',
      triggerSource: 'PreSignUp_SignUp',
      userPoolId: 'eu-central-1_abc',
      request: {},
      response: {},
    },
  ],
  [
    'a CloudFormation request',
    'without idempotency()',
    { RequestType: 'Create', ResponseURL: 'https://…', LogicalResourceId: 'x', ResourceProperties: {} },
  ],
  ['a direct invocation with an object', 'protect', { amount: 1250 }],
  ['a direct invocation with an object', 'protect', {}],
  ['a direct invocation with an array', 'protect', [1, 2, 3]],
  ['a direct invocation with an array', 'protect', []],
  ['a direct invocation with null', 'protect', null],
  ['a direct invocation with undefined', 'protect', undefined],
  ['a direct invocation with a string', 'protect', 'POST /payments'],
  ['a direct invocation with a number', 'protect', 42],
  ['a direct invocation with a boolean', 'protect', true],
];
