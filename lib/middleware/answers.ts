import type { Reply } from '../core/record.ts';
import { lowerCase } from '../http/ascii.ts';
import { freshHeaders, replayHeaders } from '../http/headers.ts';
import { type Preset, problem, stillRunning } from '../http/problem.ts';
import type { Answer } from './operation.ts';

/** Before delivery has finished there is nothing new to see; it takes about as long as a provider's answer. */
const PENDING_RETRY_SECONDS = 2;

/** What the engine found, in the words of HTTP. */
export function replyTo(answer: Answer, operationRef: string, preset: Preset, docsBase?: string): Reply {
  switch (answer.kind) {
    case 'replay': {
      const { reply, record } = answer;
      return { ...reply, headers: replayHeaders(reply.headers, record.expiresAt) };
    }
    case 'pending':
      return pendingReply(answer.reply);
    case 'in_progress': {
      const details = { operationRef, retryAfterMs: answer.retryAfterMs };
      return answer.accept
        ? stillRunning(details, docsBase)
        : problem('in_progress', details, preset, docsBase);
    }
    case 'unknown': {
      const { parked, retryAfterMs } = answer;
      const details = parked ? ({ operationRef, parked: true } as const) : { operationRef, retryAfterMs };
      return problem('outcome_unknown', details, preset, docsBase);
    }
    case 'misuse':
      return problem('key_reused', { operationRef }, preset, docsBase);
    case 'gone':
      return problem('key_expired', { operationRef }, preset, docsBase);
    case 'too_old':
      return problem('request_too_old', { operationRef }, preset, docsBase);
    case 'over_quota': {
      const { retryAfterMs } = answer;
      return problem('quota_exceeded', { operationRef, retryAfterMs }, preset, docsBase);
    }
    case 'unavailable':
      return problem(
        'store_unavailable',
        { operationRef, retryAfterMs: answer.retryAfterMs },
        preset,
        docsBase,
      );
    default:
      return answer satisfies never;
  }
}

/** The 202 of a deferred operation, to its first caller and to every duplicate until it is settled. */
export function pendingReply(reply: Reply): Reply {
  return { ...reply, headers: withRetryAfter(freshHeaders(reply.headers)) };
}

function withRetryAfter(headers: Reply['headers']): Reply['headers'] {
  const given = headers.some(([name]) => lowerCase(name) === 'retry-after');
  return given ? headers : [...headers, ['Retry-After', String(PENDING_RETRY_SECONDS)]];
}
