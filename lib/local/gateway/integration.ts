import type { Functions, Invoked } from '../ports.ts';
import type { Timers } from '../timers.ts';
import type { Integration } from './access-log.ts';
import { type Answer, ownAnswer } from './answer.ts';
import { InvalidResult, readResult } from './function-result.ts';

/** The longest that an HTTP API waits; no setting makes it longer. */
const TIMEOUT_MS = 30_000;

/** Lambda's limit for what a synchronous invocation is given. */
const EVENT_MAX_BYTES = 6 * 1_024 * 1_024;

export interface Integrated {
  readonly answer: Answer;
  readonly integration: Integration;
}

type Outcome = Omit<Integrated, 'integration'> & { readonly integration: Omit<Integration, 'latencyMs'> };

/**
 * Asks a function, and makes an answer of whatever comes back. Nothing here ends an invocation that has begun: neither
 * the time that the gateway waits, nor a client that has gone.
 */
export function integrations(functions: Functions, clock: () => number, timers: Timers) {
  return async (functionName: string, event: object): Promise<Integrated> => {
    const begun = clock();
    const { answer, integration } = await outcome(functionName, JSON.stringify(event));
    return { answer, integration: { ...integration, latencyMs: clock() - begun } };
  };

  async function outcome(functionName: string, event: string): Promise<Outcome> {
    if (Buffer.byteLength(event) > EVENT_MAX_BYTES) return failed(413, 413, 'The event is larger than 6 MB.');
    const invoked = await inTime(functions.invoke(functionName, event));
    if (invoked === undefined) return failed(503, 504, 'The function did not answer within 30 seconds.');
    return outcomeOf(invoked);
  }

  async function inTime(invocation: Promise<Invoked>): Promise<Invoked | undefined> {
    let cancel = () => {};
    const late = new Promise<undefined>((resolve) => {
      cancel = timers.after(TIMEOUT_MS, () => resolve(undefined));
    });
    try {
      return await Promise.race([invocation, late]);
    } finally {
      cancel();
    }
  }
}

function outcomeOf(invoked: Invoked): Outcome {
  switch (invoked.kind) {
    case 'returned':
      return returned(invoked.payload);
    case 'failed':
      return failed(500, 200, failure(invoked.payload));
    case 'throttled':
      return failed(503, 429, 'Rate Exceeded.');
    default:
      return invoked satisfies never;
  }
}

function returned(payload: string): Outcome {
  try {
    const answer = readResult(payload);
    const integration = { lambdaStatus: 200, functionStatus: answer.status, error: undefined };
    return { answer, integration };
  } catch (error) {
    if (error instanceof InvalidResult) return failed(500, 200, error.message);
    throw error;
  }
}

function failed(status: 413 | 500 | 503, lambdaStatus: number, error: string): Outcome {
  return { answer: ownAnswer(status), integration: { lambdaStatus, functionStatus: undefined, error } };
}

/** The client learns nothing of it; the access log does. */
function failure(payload: string): string {
  return `The Lambda function returned the following error: ${errorMessage(payload)}. Check your Lambda function code and try again.`;
}

function errorMessage(payload: string): string {
  try {
    const { errorMessage } = JSON.parse(payload) as { errorMessage?: unknown };
    return typeof errorMessage === 'string' ? errorMessage : '';
  } catch {
    return '';
  }
}
