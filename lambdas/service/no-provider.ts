import type { Provider } from './provider.ts';

/** For functions that leave the provider to others: they are given neither its key nor its client, and cannot ask it. */
export const noProvider: Provider = { charge: refused, find: refused, read: refused, made: refused };

function refused(): never {
  throw new TypeError('This function does not speak with the payment provider.');
}
