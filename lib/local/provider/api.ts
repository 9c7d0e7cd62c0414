import type { Pauses } from '../pauses.ts';
import { requireApiKey } from './api-key.ts';
import type { Books } from './books.ts';
import type { Command, Outcome } from './command.ts';
import { writeEntry } from './entries.ts';
import { type Fault, type FaultSwitch, NO_FAULT } from './fault-modes.ts';
import { decodeForm, type Params, paramsDigest } from './form.ts';
import { idsOfEntry, randomLetters } from './ids.ts';
import type { Journal } from './journal.ts';
import type { Answer, Entry, Remembered } from './records.ts';
import { invalidRequest, keyInUse, keyReused, ownFailure, Refusal } from './refusal.ts';
import { type Route, routeOf } from './routes.ts';
import type { WebhookSender } from './webhooks.ts';
import { wireAnswer, wireEvent } from './wire.ts';

export interface ApiRequest {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly body: string;
  readonly contentType: string | undefined;
  readonly authorization: string | undefined;
  readonly idempotencyKey: string | undefined;
  /** Of the API. */
  readonly version: string | undefined;
}

export type Reply =
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly body: string;
      /** The request that was answered so first, where the answer is one that is kept under the key. */
      readonly original?: string;
      readonly isReplay?: boolean;
    }
  /** No answer ever comes. */
  | { readonly kind: 'silence'; readonly heldMs: number };

export interface ApiOptions {
  readonly apiKey: string;
  readonly clock: () => number;
  readonly random: () => number;
  readonly books: () => Books;
  readonly journal: Journal;
  readonly faults: FaultSwitch;
  readonly webhooks: WebhookSender;
  readonly waits: Pauses;
  readonly searchLagMs: () => number;
  /** What is in the books and what is on disk are no longer the same for sure. */
  readonly broken: (error: unknown) => void;
}

const KEY_LENGTH_MAX = 255;

/**
 * Answers requests. What a request changes is decided and entered in the books in one go, without waiting for anything, so
 * two requests never see half of each other. But nobody is told of it, not even by a read, before it is on disk.
 */
export function stripeApi(options: ApiOptions): (request: ApiRequest) => Promise<Reply> {
  const { apiKey, clock, random, journal, faults, webhooks, waits } = options;
  const inUse = new Set<string>();

  async function answer(request: ApiRequest): Promise<Reply> {
    requireApiKey(request.authorization, apiKey);
    const route = routeOf(request.method, request.path);
    if (!route) throw notThere(request);
    const fault = faults.draw();
    return route.kind === 'read' ? read(route, request, fault) : command(route, request, fault);
  }

  async function read(route: Extract<Route, { kind: 'read' }>, request: ApiRequest, fault: Fault) {
    if (fault.mode === 'slow') await waits.pause(fault.latencyMs);
    const at = clock() - (route.isSearch ? options.searchLagMs() : 0);
    const body = JSON.stringify(route.read(decodeForm(request.query), options.books(), at));
    await journal.settled();
    return { kind: 'answer', status: 200, body } as const;
  }

  async function command(
    route: Extract<Route, { kind: 'command' }>,
    request: ApiRequest,
    fault: Fault,
  ): Promise<Reply> {
    const params = paramsOf(request);
    const key = keyOf(request);
    if (key !== undefined) {
      if (inUse.has(key)) throw keyInUse(key);
      const known = options.books().remembered(key, clock());
      if (known) return replay(known, request, params, fault);
    }
    const understood = route.understand(params);
    if (understood.charges && fault.mode === 'timeout-before-charge') {
      return { kind: 'silence', heldMs: fault.latencyMs };
    }
    if (key !== undefined) inUse.add(key);
    try {
      return await carryOut(understood, request, params, fault);
    } catch (error) {
      options.broken(error);
      throw error;
    } finally {
      if (key !== undefined) inUse.delete(key);
    }
  }

  async function replay(
    known: Remembered,
    request: ApiRequest,
    params: Params,
    fault: Fault,
  ): Promise<Reply> {
    if (known.path !== request.path || known.params !== paramsDigest(params)) {
      throw keyReused(known.key, known.path, request.path);
    }
    const body = JSON.stringify(wireAnswer(known.answer, options.books()));
    if (fault.mode === 'slow') await waits.pause(fault.latencyMs);
    await journal.settled();
    const { status } = known.answer;
    return { kind: 'answer', status, body, original: known.request, isReplay: true };
  }

  async function carryOut(
    understood: Command,
    request: ApiRequest,
    params: Params,
    fault: Fault,
  ): Promise<Reply> {
    const books = options.books();
    const { mode, latencyMs } = understood.charges || fault.mode === 'slow' ? fault : NO_FAULT;
    const { entry, answer, isKept } = enter(books, understood, request, params, mode);
    const body = JSON.stringify(wireAnswer(answer, books));
    await (isKept ? journal.append(writeEntry(entry)) : journal.settled());
    await tellOf(entry, books);
    if (mode === 'timeout-after-charge') return { kind: 'silence', heldMs: latencyMs };
    await waits.pause(latencyMs);
    const original = request.idempotencyKey ? { original: request.id } : {};
    return { kind: 'answer', status: answer.status, body, ...original };
  }

  /** Of a request without a key that changes nothing there is nothing to keep. */
  function enter(
    books: Books,
    understood: Command,
    request: ApiRequest,
    params: Params,
    mode: Fault['mode'],
  ): { readonly entry: Entry; readonly answer: Answer; readonly isKept: boolean } {
    const n = books.next();
    const now = clock();
    const key = keyOf(request);
    const { changes, answer: honest } = outcomeOf(understood, {
      ...{ books, now, request: request.id, sendsEvents: webhooks.isOn },
      newId: idsOfEntry(n, random),
      newSecret: () => randomLetters(random, 25),
      declinesAll: mode === 'decline',
      ...(key !== undefined && { idempotencyKey: key }),
    });
    const answer = mode === 'error' ? BROKEN : honest;
    const remembered = key !== undefined && {
      ...{ key, at: now, path: request.path, params: paramsDigest(params), request: request.id, answer },
    };
    const entry: Entry = { n, ...changes, ...(remembered && { remembered }) };
    const isKept = remembered !== false || Object.keys(changes).length > 0;
    if (isKept) books.enter(entry);
    return { entry, answer, isKept };
  }

  async function tellOf({ event }: Entry, books: Books): Promise<void> {
    // Of what a reset has forgotten meanwhile nobody is told.
    if (!event?.isSent || options.books() !== books) return;
    const { id, type } = event;
    const told = webhooks.tell({ id, type, body: () => JSON.stringify(wireEvent(event, books)) });
    if (webhooks.beforeAnswer) await told;
  }

  return async (request) => {
    try {
      return await answer(request);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return refuse(error, options.books());
    }
  };
}

const BROKEN: Answer = {
  status: 500,
  failure: {
    type: 'api_error',
    message: 'An unknown error occurred. (The local provider was told to fail.)',
  },
};

function outcomeOf(understood: Command, scene: Parameters<Command['run']>[0]): Outcome {
  try {
    return understood.run(scene);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { changes: {}, answer: answerOf(error, scene.books) };
  }
}

function answerOf({ status, failure, intent }: Refusal, books: Books): Answer {
  const shown = intent === undefined ? undefined : books.intents.get(intent);
  return {
    status,
    failure,
    ...(shown && { shown: { kind: 'intent', id: shown.id, version: shown.version } }),
  };
}

export function refuse(refusal: Refusal, books: Books): Reply {
  const answer = answerOf(refusal, books);
  return { kind: 'answer', status: answer.status, body: JSON.stringify(wireAnswer(answer, books)) };
}

function paramsOf({ query, body, contentType }: ApiRequest): Params {
  if (body !== '' && !/^application\/x-www-form-urlencoded\b/i.test(contentType ?? '')) {
    throw invalidRequest(
      `Invalid request (check that your POST content type is application/x-www-form-urlencoded). It is ${contentType ?? 'not given'}.`,
    );
  }
  return decodeForm([query, body].filter((part) => part !== '').join('&'));
}

function keyOf({ idempotencyKey }: ApiRequest): string | undefined {
  if (!idempotencyKey) return undefined;
  if (idempotencyKey.length <= KEY_LENGTH_MAX) return idempotencyKey;
  throw invalidRequest(
    `Idempotency keys are up to ${KEY_LENGTH_MAX} characters long; yours has ${idempotencyKey.length}.`,
  );
}

function notThere({ method, path }: ApiRequest): Refusal {
  return new Refusal(404, {
    type: 'invalid_request_error',
    message: `Unrecognized request URL (${method}: ${path}). The local payment provider covers payment intents, refunds, charges and events.`,
  });
}

export const brokenDown = () => ownFailure('The local payment provider failed. Its log says why.');
