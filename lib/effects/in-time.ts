import { OncekeyError } from '../core/errors.ts';

/** Whoever was asked has not answered in time. What it still does, it does for nobody. */
export class NoAnswer extends OncekeyError {
  override readonly remedy = 'retry-same-key';
}

/** Does the work, or gives up on it after so long: it is told by its signal, and not waited for if it does not listen. */
export async function inTime<T>(ms: number, work: (signal: AbortSignal) => Promise<T> | T): Promise<T> {
  const given = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => {
        const error = new NoAnswer(`There was no answer within ${ms} ms.`);
        given.abort(error);
        reject(error);
      },
      Math.max(0, ms),
    );
  });
  try {
    return await Promise.race([work(given.signal), over]);
  } finally {
    clearTimeout(timer);
  }
}
