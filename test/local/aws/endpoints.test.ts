import { connect } from 'node:net';
import { join } from 'node:path';
import { DynamoDBClient, ListTablesCommand } from '@aws-sdk/client-dynamodb';
import { build } from 'esbuild';
import { describe, expect, it, onTestFinished } from 'vitest';
import { stage, temporaryFolder } from '../functions/stage.ts';
import { scene } from './stage.ts';

describe('what is not here', () => {
  it('of a service that is, is refused and reported', async () => {
    const { s3, lambda, secrets, reports } = await scene();
    const refused = [
      [() => s3.listObjectsV2({ Bucket: 'plain' }), 'GET of a bucket of S3 with list-type'],
      [() => s3.deleteObject({ Bucket: 'plain', Key: 'k' }), 'DELETE of an object of S3'],
      [() => s3.getObject({ Bucket: 'plain', Key: 'k', Range: 'bytes=0-1' }), 'with range'],
      [() => s3.getObjectTagging({ Bucket: 'plain', Key: 'k' }), 'with tagging'],
      [() => lambda.listFunctions({}), 'GET /2015-03-31/functions of Lambda'],
      [() => lambda.invoke({ FunctionName: 'payments', LogType: 'Tail' }), 'LogType: Tail'],
      [() => lambda.invoke({ FunctionName: 'payments', ClientContext: 'e30=' }), 'ClientContext'],
      [() => secrets.putSecretValue({ SecretId: 'x', SecretString: 'y' }), 'PutSecretValue'],
    ] as const;
    for (const [ask, named] of refused) {
      await expect(ask()).rejects.toMatchObject({
        name: 'NotImplemented',
        message: expect.stringContaining(named),
        $metadata: { httpStatusCode: 501, attempts: 1 },
      });
    }
    expect(reports.map(({ source, level }) => `${source} ${level}`)).toEqual(refused.map(() => 'aws error'));
  });

  it('at all is refused as well, so that no client gets as far as AWS', async () => {
    const { reports } = await scene();
    const dynamoDb = new DynamoDBClient();
    onTestFinished(() => dynamoDb.destroy());
    const message = expect.stringContaining('does not run dynamodb (DynamoDB_20120810.ListTables)');
    const asked = dynamoDb.send(new ListTablesCommand());
    await expect(asked).rejects.toMatchObject({ name: 'NotImplemented', message });
    expect(reports).toMatchObject([{ level: 'error', message }]);
  });

  it.each([
    ['application/x-www-form-urlencoded; charset=utf-8', 'application/xml', '<Code>NotImplemented</Code>'],
    ['application/json', 'application/json', '"Type":"Service"'],
  ])('is refused in the way of the service: %s', async (asked, answered, part) => {
    const { url } = await scene();
    const authorization = 'AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/sns/aws4_request, …'.slice(
      0,
      -3,
    );
    const response = await fetch(url, {
      method: 'POST',
      body: 'Action=Publish',
      headers: { authorization, 'content-type': asked },
    });
    expect([response.status, response.headers.get('content-type')]).toEqual([501, answered]);
    expect(await response.text()).toContain(part);
  });

  it('is what an unsigned request asks for', async () => {
    const { url } = await scene();
    const response = await fetch(`${url}/plain/k`);
    expect(response.status).toBe(501);
    expect(await response.text()).toContain('does not run an unsigned request (GET /plain/k)');
  });
});

it('a failure of our own is one of the service, and is reported', async () => {
  const { lambda, reports } = await scene(async () => {
    throw new RangeError('broken');
  }, 1);
  await expect(lambda.invoke({ FunctionName: 'payments' })).rejects.toMatchObject({
    name: 'InternalFailure',
    $metadata: { httpStatusCode: 500 },
  });
  expect(reports).toMatchObject([{ level: 'error', message: 'RangeError: broken' }]);
});

it('closes with requests under way and connections open', async () => {
  const { url, close, lambda } = await scene(() => new Promise(() => {}), 1);
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  await new Promise((resolve) => socket.once('connect', resolve));
  const underWay = lambda.invoke({ FunctionName: 'payments' });
  const failed = expect(underWay).rejects.toThrow();
  const ended = new Promise((resolve) => socket.once('close', resolve));
  await close();
  await Promise.all([failed, ended]);
});

it('a function’s own clients find their services, and nothing else', async () => {
  const folder = temporaryFolder();
  await build({
    stdin: { contents: HANDLER, resolveDir: process.cwd() },
    bundle: true,
    platform: 'node',
    format: 'esm',
    outfile: join(folder, 'index.mjs'),
    banner: { js: "import{createRequire}from'node:module';const require=createRequire(import.meta.url);" },
  });
  const { objects, url } = await scene();
  await objects.put('versioned', 'k', 'of the bucket');
  const endpoints = { AWS_ENDPOINT_URL: url };
  const { call, pool } = stage({ f: { code: '', file: 'unused', codeDir: folder } }, { endpoints });
  expect(await call({ fn: 'payments' })).toEqual(['{"from":"f"}', 'sk_test_1', 'of the bucket']);
  expect(pool.pids('f')).toHaveLength(1);
});

const HANDLER = `
  import { Lambda } from '@aws-sdk/client-lambda';
  import { S3 } from '@aws-sdk/client-s3';
  import { SecretsManager } from '@aws-sdk/client-secrets-manager';
  const [lambda, s3, secrets] = [new Lambda(), new S3(), new SecretsManager()];
  export const handler = async ({ fn }) => {
    const { Payload } = await lambda.invoke({ FunctionName: fn, Payload: JSON.stringify({ from: 'f' }) });
    const { SecretString } = await secrets.getSecretValue({ SecretId: 'stripe/key' });
    const { Body } = await s3.getObject({ Bucket: 'versioned', Key: 'k' });
    return [Payload.transformToString(), SecretString, await Body.transformToString()];
  };`;
