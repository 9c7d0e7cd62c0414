import type { Invoker } from '../../lib/index.ts';

/** What looks through something large: where it stopped, it says how to go on. */
type Search<R> = (event: unknown, context: object) => Promise<R>;

/** Its time ended before it had looked at a single page: invoked again with the same event, it would go on for ever. */
class NoProgress extends Error {
  override readonly name = 'NoProgress';
}

/**
 * A search that ends with its time is gone on with by another invocation of the same function, so that a table of any size
 * is looked through from one event of the schedule. The function needs `lambda:InvokeFunction` on itself, and
 * `RecursiveLoop: Allow`: by default Lambda takes some sixteen invocations in a row for a mistake and stops them. The
 * chain has an end: every link begins behind the one before, and what cannot be invoked is thrown, so that Lambda tries
 * this link again.
 */
export function goingOn<R extends { readonly next?: object }>(
  search: Search<R>,
  invoke: Invoker,
  start: object = {},
): Search<R> {
  return async (event, context) => {
    const result = await search(event, context);
    if (!result.next) return result;
    if (isSame(event, result.next, start)) {
      throw new NoProgress('There was no time to look at anything; give the function a minute or more.');
    }
    await invoke(functionOf(context), new TextEncoder().encode(JSON.stringify(result.next)));
    return result;
  };
}

/** Whether every member of the next event is as it was: a cursor moves, or makes room for a later part. */
function isSame(event: unknown, next: object, start: object): boolean {
  const had = new Map(Object.entries({ ...start, ...(event ?? {}) }));
  return Object.entries(next).every(([name, value]) => had.get(name) === value);
}

/** With its version or alias, if it was invoked by one: the rest of the search is for the same code. */
function functionOf(context: object): string {
  const { invokedFunctionArn, functionName } = context as {
    readonly invokedFunctionArn?: string;
    readonly functionName?: string;
  };
  const name = invokedFunctionArn ?? functionName;
  if (name !== undefined && name !== '') return name;
  throw new NoProgress(
    "The context names no function, so the search cannot go on; it needs Lambda's context.",
  );
}
