import { expect, it } from 'vitest';
import { EVENT_MAX_BYTES, LATER_EVENT_MAX_BYTES } from '../../../lib/local/functions/limits.ts';
import { scene } from './stage.ts';

const ARN = 'arn:aws:lambda:us-east-1:000000000000:function:payments';
const bytes = (text: string) => new TextEncoder().encode(text);

it.each(['payments', ARN, `${ARN}:$LATEST`, '000000000000:function:payments', 'payments:$LATEST'])(
  'invokes the function that is called %s',
  async (FunctionName) => {
    const { lambda, invoked } = await scene();
    const { StatusCode, Payload, FunctionError, ExecutedVersion } = await lambda.invoke({
      FunctionName,
      Payload: bytes('{"a":"€"}'),
    });
    expect([StatusCode, Payload?.transformToString(), FunctionError, ExecutedVersion]).toEqual([
      200,
      '{"a":"€"}',
      undefined,
      '$LATEST',
    ]);
    expect(invoked).toEqual([{ name: 'payments', event: '{"a":"€"}' }]);
  },
);

it('gives a function an empty event where there is none', async () => {
  const { lambda, invoked } = await scene();
  await lambda.invoke({ FunctionName: 'payments', Qualifier: '$LATEST' });
  expect(invoked).toEqual([{ name: 'payments', event: '{}' }]);
});

it('says that a function has failed, and with what', async () => {
  const payload = '{"errorType":"TypeError","errorMessage":"no"}';
  const { lambda } = await scene(async () => ({ kind: 'failed', error: 'Timeout', payload }));
  const { StatusCode, FunctionError, Payload } = await lambda.invoke({ FunctionName: 'payments' });
  expect([StatusCode, FunctionError, Payload?.transformToString()]).toEqual([200, 'Unhandled', payload]);
});

it('hands over an event that nobody waits for, and only looks in a dry run', async () => {
  const { lambda, invoked } = await scene();
  const later = await lambda.invoke({
    FunctionName: ARN,
    InvocationType: 'Event',
    Payload: bytes('{"n":1}'),
  });
  expect([later.StatusCode, later.Payload?.length ?? 0]).toEqual([202, 0]);
  const dry = await lambda.invoke({ FunctionName: ARN, InvocationType: 'DryRun' });
  expect(dry.StatusCode).toBe(204);
  expect(invoked).toEqual([{ name: 'payments', event: '{"n":1}', later: true }]);
});

it.each([
  [{ FunctionName: 'nobody' }, 'function:nobody'],
  [{ FunctionName: 'nobody', InvocationType: 'DryRun' as const }, 'function:nobody'],
  [{ FunctionName: ARN, Qualifier: '7' }, 'function:payments:7'],
  [{ FunctionName: `${ARN}:live` }, 'function:payments:live'],
])('does not find %o', async (input, named) => {
  const { lambda, invoked } = await scene();
  await expect(lambda.invoke(input)).rejects.toMatchObject({
    name: 'ResourceNotFoundException',
    $metadata: { httpStatusCode: 404, attempts: 1 },
    message: expect.stringMatching(new RegExp(`^Function not found: arn:aws:lambda:.*:${named}$`)),
  });
  expect(invoked).toEqual([]);
});

it('throttles so that the SDK comes again', async () => {
  let tries = 0;
  const { lambda } = await scene(async (payload) => {
    tries += 1;
    return tries === 1 ? { kind: 'throttled' } : { kind: 'returned', payload };
  });
  const { $metadata } = await lambda.invoke({ FunctionName: 'payments' });
  expect($metadata.attempts).toBe(2);
});

it('says of a function that stays throttled what AWS says', async () => {
  const { lambda } = await scene(async () => ({ kind: 'throttled' }), 1);
  await expect(lambda.invoke({ FunctionName: 'payments' })).rejects.toMatchObject({
    name: 'TooManyRequestsException',
    Reason: 'ConcurrentInvocationLimitExceeded',
    $metadata: { httpStatusCode: 429 },
  });
});

it('takes the largest events, and none that is a byte larger', async () => {
  const { lambda, invoked } = await scene(async () => ({ kind: 'returned', payload: 'null' }));
  const sized = (size: number) => bytes(JSON.stringify('x'.repeat(size - 2)));
  const invoke = (InvocationType: 'Event' | 'RequestResponse', size: number) =>
    lambda.invoke({ FunctionName: 'payments', InvocationType, Payload: sized(size) });
  await invoke('RequestResponse', EVENT_MAX_BYTES);
  await invoke('Event', LATER_EVENT_MAX_BYTES);
  expect(invoked.map(({ event }) => event.length)).toEqual([6 * 1024 * 1024, 1024 * 1024]);
  const tooLarge = { name: 'RequestTooLargeException', $metadata: { httpStatusCode: 413 } };
  await expect(invoke('RequestResponse', EVENT_MAX_BYTES + 1)).rejects.toMatchObject(tooLarge);
  await expect(invoke('Event', LATER_EVENT_MAX_BYTES + 1)).rejects.toMatchObject(tooLarge);
  await expect(invoke('Event', 20 * 1024 * 1024)).rejects.toMatchObject(tooLarge);
  await invoke('RequestResponse', 2);
  expect(invoked).toHaveLength(3);
});

it('takes no event that is no JSON', async () => {
  const { lambda, invoked } = await scene();
  const refused = lambda.invoke({ FunctionName: 'payments', Payload: bytes('{') });
  await expect(refused).rejects.toMatchObject({ name: 'InvalidRequestContentException' });
  expect(invoked).toEqual([]);
});
