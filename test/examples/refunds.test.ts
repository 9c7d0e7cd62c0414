import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import {
  completer,
  idempotent,
  jwtClaim,
  type LambdaInvoke,
  lambdaInvoker,
  type Once,
  scopePk,
} from 'oncekey';
import { memoryLedger } from 'oncekey/testing';
import { beforeEach, expect, it } from 'vitest';
import { post } from '../middleware/stage.ts';

let now: number;
beforeEach(() => {
  now = Date.UTC(2030, 0, 15, 12);
});
const clock = () => now;
const ledger = memoryLedger({ clock });
const quiet = { clock, log: () => {}, metrics: () => {} };

const ran: string[] = [];
let dies = true;
const never = new Promise<never>(() => {});

async function refund({ headers }: APIGatewayProxyEventV2, { once }: { once: Once<unknown> }) {
  await once.step('refund', () => void ran.push('refund'));
  if (dies) await never;
  await once.step('letter', () => void ran.push('letter'));
  return { statusCode: 201, body: JSON.stringify(headers) };
}

const invoked: Parameters<LambdaInvoke['invoke']>[0][] = [];
const lambda: LambdaInvoke = { invoke: async (input) => void invoked.push(input) };

// #region function
const handler = idempotent(refund, {
  ledger,
  tenant: jwtClaim('sub'),
  effects: 'steps',
  complete: 'auto',
  requestHeaders: ['x-channel'], // What the handler reads beside the body.
  ...quiet,
});
// #endregion function

// #region completer
const finish = completer({ ledger, invoke: lambdaInvoker(lambda), ...quiet }); // new Lambda() of the AWS SDK

async function finishAbandoned(operationRef: string) {
  const record = await ledger.read(operationRef);
  return record?.status === 'in_progress' && record.leaseUntil < now ? finish(record) : 'nothing to do';
}
// #endregion completer

it('an abandoned refund is finished without its client, from where it stopped', async () => {
  const invokedFunctionArn = 'arn:aws:lambda:eu-west-1:123456789012:function:refunds:live';
  const context = { invokedFunctionArn, getRemainingTimeInMillis: () => 10_000 } as never;
  const headers = { 'x-channel': 'app', cookie: 'session=1' };
  const operationRef = scopePk({ tenant: 'tenant-1', operation: 'POST /refunds', key: 'r-1' });
  void handler(post({ key: 'r-1', path: '/refunds', headers }) as never, context);
  await expect.poll(async () => (await ledger.read(operationRef))?.steps.size).toBe(1);
  expect(await finishAbandoned(operationRef)).toBe('nothing to do');

  dies = false;
  now += 60_000;
  expect(await finishAbandoned(operationRef)).toBe('invoked');
  const [{ FunctionName, Payload } = { FunctionName: '', Payload: new Uint8Array() }] = invoked;
  expect(FunctionName).toBe(invokedFunctionArn);
  const answer = await handler(JSON.parse(Buffer.from(Payload).toString()), context);
  expect(ran).toEqual(['refund', 'letter']);
  expect(JSON.parse(answer.body)).toEqual({ 'content-type': 'application/json', 'x-channel': 'app' });
  expect(await ledger.read(operationRef)).toMatchObject({ status: 'completed', attempt: 2 });
});
