import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';

/*
 * Faults on the wire of a real client. They sit below all of the SDK's own middleware, where the network is: what the
 * SDK makes of a lost response or an error answer is what it would make of a real one.
 */

/** One request as it left, or would have left, for DynamoDB. */
export interface WireCall {
  /** Such as `PutItem`. */
  readonly name: string;
  /** In DynamoDB's own notation. */
  readonly input: WireInput;
  /** The bytes: equal for all tries of one call. */
  readonly body: string;
  /** Sends the very same request, once more or for the first time, whenever the test wants it to arrive. */
  arrive(): Promise<Arrival>;
}

interface Arrival {
  readonly status: number;
  /** DynamoDB's error name, if it answered with one. */
  readonly error: string | undefined;
}

interface WireInput {
  readonly TableName?: string;
  readonly Item?: WireItem;
  readonly Key?: WireItem;
  readonly ConditionExpression?: string;
  readonly UpdateExpression?: string;
  readonly ExpressionAttributeValues?: WireItem;
  readonly ReturnValuesOnConditionCheckFailure?: string;
  readonly ClientRequestToken?: string;
  readonly TransactItems?: readonly Readonly<Record<string, WireInput>>[];
}

export type WireItem = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

interface WireResponse {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: AsyncIterable<Uint8Array> | Uint8Array;
}

/** What happens to one request. `deliver` takes it to DynamoDB and brings the response back. */
export type Fault = (deliver: () => Promise<WireResponse>) => Promise<WireResponse>;

/** Chooses the fault of each request; `undefined` lets it pass. */
export type Plan = (call: WireCall) => Fault | undefined;

export interface Wire {
  /** Every request the SDK tried to send, in order, faults included. */
  readonly sent: readonly WireCall[];
  /** Their names, and a fresh list from here on. */
  takeNames(): string[];
  /** Replaces the plan. */
  follow(plan: Plan): void;
}

export function wireOf(client: DynamoDBClient, plan: Plan = () => undefined): Wire {
  const sent: WireCall[] = [];
  let current = plan;
  let named = 0;
  client.middlewareStack.add(
    (next) => async (args) => {
      const call = wireCall(client, args.request as WireRequest);
      sent.push(call);
      const deliver = async () => (await next(args)).response as WireResponse;
      const response = await (current(call) ?? passed)(deliver);
      return { response } as Awaited<ReturnType<typeof next>>;
    },
    { step: 'deserialize', priority: 'low', name: 'wireOfTest' },
  );
  return {
    sent,
    takeNames() {
      const names = sent.slice(named).map(({ name }) => name);
      named = sent.length;
      return names;
    },
    follow(next) {
      current = next;
    },
  };
}

/* Faults */

const passed: Fault = (deliver) => deliver();

/** DynamoDB did what it was asked, and nobody heard of it. */
export const responseLost: Fault = async (deliver) => {
  await textOf(await deliver());
  throw socketError();
};

/** The connection broke before the request left. With `arrive` it becomes a request that was only late. */
export const neverArrived: Fault = async () => {
  throw socketError();
};

/** The connection broke in the middle of the response: half of a JSON text is all there is. */
export const cutOff: Fault = async (deliver) => {
  const response = await deliver();
  await textOf(response);
  return { ...response, body: Buffer.from('{"Attributes":{"pk":{"S":"half of') };
};

/** Any error object of the network's, such as a timeout. */
export function thrown(error: Error & { code?: string }): Fault {
  return async () => {
    throw error;
  };
}

/** DynamoDB's own error answer, without having done anything. */
export function answered(type: string, status = 400, fields: object = {}): Fault {
  const body = { __type: `com.amazonaws.dynamodb.v20120810#${type}`, message: `injected ${type}`, ...fields };
  return async () => ({
    statusCode: status,
    headers: { 'content-type': 'application/x-amz-json-1.0' },
    body: Buffer.from(JSON.stringify(body)),
  });
}

export interface Reason {
  readonly Code: string;
  readonly Message?: string;
  readonly Item?: WireItem;
}

/** A cancelled transaction, one reason per item; the first is the record's. */
export function cancelled(...reasons: readonly (Reason | string)[]): Fault {
  const CancellationReasons = reasons.map((reason) =>
    typeof reason === 'string' ? { Code: reason } : reason,
  );
  return answered('TransactionCanceledException', 400, { CancellationReasons });
}

/* Plans */

export const always =
  (fault: Fault): Plan =>
  () =>
    fault;

/** The first so many requests, then none. */
export function times(count: number, fault: Fault): Plan {
  let left = count;
  return () => (left-- > 0 ? fault : undefined);
}

/** One fault after another, then none. */
export function inTurn(...faults: readonly (Fault | undefined)[]): Plan {
  const queue = faults.values();
  return () => queue.next().value;
}

/** The first try of every call: a call's tries are known by their equal bytes. */
export function firstTries(fault: Fault): Plan {
  const seen = new Set<string>();
  return ({ body }) => {
    if (seen.has(body)) return undefined;
    seen.add(body);
    return fault;
  };
}

export function everySecond(fault: Fault): Plan {
  let count = 0;
  return () => (count++ % 2 === 0 ? fault : undefined);
}

export function atRandom(share: number, random: () => number, fault: Fault): Plan {
  return () => (random() < share ? fault : undefined);
}

/** The plan for requests of one name; all others pass. */
export function only(name: string, plan: Plan): Plan {
  return (call) => (call.name === name ? plan(call) : undefined);
}

/* The wire itself */

interface WireRequest {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

function wireCall(client: DynamoDBClient, request: WireRequest): WireCall {
  const body = typeof request.body === 'string' ? request.body : new TextDecoder().decode(request.body);
  return {
    name: request.headers['x-amz-target']?.split('.').at(-1) ?? 'nothing of DynamoDB',
    body,
    get input() {
      return JSON.parse(body) as WireInput;
    },
    async arrive() {
      // Past the SDK: its signal has long aborted this request, and nobody waits for the answer but the test.
      type Handled = Parameters<typeof client.config.requestHandler.handle>[0];
      const { response } = await client.config.requestHandler.handle(request as unknown as Handled);
      const answer = JSON.parse((await textOf(response as WireResponse)) || '{}') as { __type?: string };
      return { status: response.statusCode, error: answer.__type?.split('#').at(-1) };
    },
  };
}

/** To the end, so that the connection is free again. */
async function textOf({ body }: WireResponse): Promise<string> {
  if (body === undefined) return '';
  const parts: Uint8Array[] = [];
  if (body instanceof Uint8Array) parts.push(body);
  else for await (const part of body) parts.push(part);
  return Buffer.concat(parts).toString();
}

export function socketError(): Error & { code: string } {
  return Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
}
