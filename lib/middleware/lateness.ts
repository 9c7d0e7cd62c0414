import type { EpochMs } from '../core/record.ts';
import type { Fault } from '../http/problem.ts';
import type { HttpRequest } from '../http/request.ts';

const HEADER = 'repeatability-first-sent';

/** IMF-fixdate, the one form that HTTP still writes: Sun, 06 Nov 1994 08:49:37 GMT. */
const HTTP_DATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/**
 * A client that says when it first sent a request lets us tell a late retry from a new one. Once that is longer ago
 * than results are kept, the record may be gone, and running the request could be the second time.
 */
export function lateness(
  { headers }: Pick<HttpRequest, 'headers'>,
  now: EpochMs,
  assuredSeconds: number,
  skewMs: number,
): { readonly tooOld: boolean; readonly faults: readonly Fault[] } {
  const [value, ...others] = headers.get(HEADER) ?? [];
  if (value === undefined) return { tooOld: false, faults: [] };
  const firstSent = HTTP_DATE.test(value) ? Date.parse(value) : Number.NaN;
  if (others.length > 0 || Number.isNaN(firstSent)) {
    const detail = 'Expected one HTTP date, such as Sun, 06 Nov 1994 08:49:37 GMT.';
    return { tooOld: false, faults: [{ path: `header.${HEADER}`, detail }] };
  }
  return { tooOld: now - firstSent > assuredSeconds * 1_000 + skewMs, faults: [] };
}
