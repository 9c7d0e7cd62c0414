import type { Entry } from './records.ts';

/** The format of a line. A release that writes another one still reads this one, or says that it does not. */
const FORMAT = 1;

const FIELDS = ['n', 'v', 'intent', 'charge', 'refund', 'event', 'remembered', 'told'];

export function writeEntry(entry: Entry): string {
  return JSON.stringify({ v: FORMAT, ...entry });
}

/** Throws for what `writeEntry` does not write. */
export function readEntry(line: string): Entry {
  const read: unknown = JSON.parse(line);
  if (typeof read !== 'object' || read === null) throw new TypeError('It is no JSON object.');
  const { v, ...entry } = read as Entry & { readonly v?: unknown };
  if (v !== FORMAT) throw new TypeError(`Its format is ${JSON.stringify(v)}, and ${FORMAT} can be read.`);
  const unknown = Object.keys(read).find((name) => !FIELDS.includes(name));
  if (unknown !== undefined) throw new TypeError(`It has ${JSON.stringify(unknown)}, which means nothing.`);
  return entry;
}
