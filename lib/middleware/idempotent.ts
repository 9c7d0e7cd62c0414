import type { Context } from 'aws-lambda';
import { idempotency, type OnceContext } from './idempotency.ts';
import type { IdempotencyOptions } from './options.ts';

type Hook = (request: Request) => Promise<void>;

interface Request {
  event: unknown;
  context: object;
  response: unknown;
  error: unknown;
}

/**
 * The same protection around a handler itself, with or without Middy: `middy().use(…).handler(idempotent(…))`. Every
 * hook is then outside of it, so that all of them run on replays too, also those that have only an `after`; and a body
 * parser that fails has failed before anything was reserved.
 */
export function idempotent<E, R, W = unknown>(
  handler: (event: E, context: Context & OnceContext<W>, ...rest: never[]) => Promise<R>,
  options: IdempotencyOptions<W>,
): (event: E, context: Context, ...rest: unknown[]) => Promise<R> {
  const { before, after, onError } = idempotency(options) as unknown as Record<
    'before' | 'after' | 'onError',
    Hook
  >;

  return async (event, context, ...rest) => {
    const request: Request = { event, context, response: undefined, error: undefined };
    try {
      await before(request);
      request.response = await handler(
        event,
        request.context as Context & OnceContext<W>,
        ...(rest as never[]),
      );
      await after(request);
    } catch (error) {
      request.response = undefined;
      request.error = error;
      await onError(request);
      if (request.response === undefined) throw error;
    }
    return request.response as R;
  };
}
