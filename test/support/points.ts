import type { Ledger } from '../../lib/ledger/ledger.ts';

/** Called at every point, in order; what it returns is waited for. */
export type Passing = (point: string) => Promise<void>;

/** A ledger that is passed through at a point before and at one after each of its calls. */
export function pointed<W>(ledger: Ledger<W>, at: Passing): Ledger<W> {
  const methods = Object.entries(ledger).map(([name, method]) => [
    name,
    async (...args: unknown[]) => {
      const what = typeof args[1] === 'string' ? `${name} ${args[1]}` : name;
      await at(`before ${what}`);
      const result = await method(...args);
      await at(`after ${what}`);
      return result;
    },
  ]);
  return Object.fromEntries(methods);
}
