import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { ApiModel } from '../model.ts';
import type { Functions, Reporter } from '../ports.ts';
import { realTimers, type Timers } from '../timers.ts';
import { type Access, accessReport, type Integration } from './access-log.ts';
import { type Answer, ownAnswer } from './answer.ts';
import type { Authorization, Authorize } from './authorization.ts';
import { eventOf } from './event.ts';
import { integrations } from './integration.ts';
import { type Received, received } from './received.ts';
import { readBody } from './request-body.ts';
import { requestBytes } from './request-headers.ts';
import { requestedPath } from './requested-path.ts';
import { routeTable } from './routes.ts';
import { tokenBucket } from './token-bucket.ts';

export interface HttpApiOptions {
  readonly api: ApiModel;
  readonly functions: Functions;
  readonly authorize: Authorize;
  readonly report: Reporter;
  readonly clock?: () => number;
  readonly random?: () => number;
  readonly timers?: Timers;
}

/** API Gateway's quotas for HTTP APIs; none of them can be raised. */
const HEADERS_MAX_BYTES = 10_240;
const BODY_MAX_BYTES = 10 * 1_024 * 1_024;

/** What is known of a request by the time it is answered. */
interface Progress {
  readonly received: Received;
  routeKey?: string;
  authorization?: Authorization;
  integration?: Integration;
  requestBytes: number;
}

/** API Gateway's HTTP API on this machine: one stage, `$default`, and functions behind every route. */
export function httpApi(options: HttpApiOptions): RequestListener {
  const { api, functions, authorize, report } = options;
  const { clock = Date.now, random = Math.random, timers = realTimers } = options;
  const routeOf = routeTable(api.routes);
  const admits = tokenBucket(api.throttle, clock);
  const integrate = integrations(functions, clock, timers);

  return (request, response) => {
    const progress: Progress = { received: received(request, clock(), random), requestBytes: 0 };
    answerTo(request, progress)
      .catch((error: unknown) => broken(progress, error))
      .then((answer) => answer && tell(response, progress, answer));
  };

  /** Nothing, where nobody is left who asks. */
  async function answerTo(request: IncomingMessage, progress: Progress): Promise<Answer | undefined> {
    const { received } = progress;
    // At once: with the connection goes what is not read yet, and a request that came whole is carried out.
    const body = readBody(request, BODY_MAX_BYTES);
    if (requestBytes(request) > HEADERS_MAX_BYTES) return ownAnswer(431);
    const path = requestedPath(request.url ?? '/');
    if (!path) return ownAnswer(400);
    const matched = routeOf(received.method, path.segments);
    if (!matched) return ownAnswer(404);
    const { routeKey, functionName, authorizer } = matched.route;
    progress.routeKey = routeKey;
    if (!admits()) return ownAnswer(429);

    const authorization =
      authorizer && (await authorize(authorizer, received.headers.get(authorizer.header.toLowerCase())));
    if (authorization) progress.authorization = authorization;
    if (authorization?.kind === 'refused') return refusal(authorization);

    const read = await body;
    if (read.kind === 'too-large') return ownAnswer(413);
    if (read.kind === 'broken') return undefined;
    progress.requestBytes = read.bytes.length;

    const event = eventOf({
      apiId: api.name,
      received,
      path,
      matched,
      body: read.bytes,
      allowed: authorization,
    });
    const { answer, integration } = await integrate(functionName, event);
    progress.integration = integration;
    return answer;
  }

  function tell(response: ServerResponse, progress: Progress, answer: Answer): void {
    send(response, answer, progress.received.requestId);
    const access = accessOf(progress, answer);
    const error = access.integration?.error;
    if (error !== undefined) reportFailure(access.routeKey, access.status, error);
    if (api.accessLogFormat !== undefined) report(accessReport(api.accessLogFormat, access));
  }

  function accessOf(progress: Progress, { status, body, ownMessage }: Answer): Access {
    const { received, routeKey, authorization, integration, requestBytes } = progress;
    return {
      ...{ apiId: api.name, received, routeKey, authorization, integration, requestBytes },
      ...{ status, responseBytes: body.length, ownMessage },
      latencyMs: clock() - received.at,
    };
  }

  function broken({ routeKey }: Progress, error: unknown): Answer {
    reportFailure(routeKey, 500, error instanceof Error ? error.message : String(error));
    return ownAnswer(500);
  }

  /** By its route, never by its path. */
  function reportFailure(routeKey: string | undefined, status: number, why: string): void {
    const message = `${routeKey ?? '-'} was answered with ${status}: ${why}`;
    report({ at: clock(), source: 'api', level: 'error', kind: 'platform', message });
  }
}

function refusal({ status, challenge }: Extract<Authorization, { kind: 'refused' }>): Answer {
  return ownAnswer(status, [['www-authenticate', challenge]]);
}

/** Statuses that have no body by their meaning, and so no length. */
const BODILESS = [204, 304];

/** Whether anybody still listens makes no difference: what the function did is done. */
function send(response: ServerResponse, { status, headers, body }: Answer, requestId: string): void {
  const bodiless = BODILESS.includes(status);
  const lines = [
    ...headers,
    ...(bodiless ? [] : [['content-length', String(body.length)] as const]),
    ['apigw-requestid', requestId] as const,
  ];
  response.writeHead(status, lines.flat());
  response.end(bodiless ? undefined : body);
}
