import type { AuditEvidence, AuditedCharge, AuditWindow } from '../core/audit.ts';
import { InvalidArgument, OncekeyError } from '../core/errors.ts';
import type { EpochMs } from '../core/record.ts';
import { kindOf } from '../http/kind.ts';
import { nameOf } from '../observe/report.ts';

/** What the provider has: one charge, transfer, booking, or whatever it is that an operation makes there once. */
export interface ProviderObject {
  /** What the provider calls it. Listed twice, it is still one. */
  readonly id: string;
  /** The operation it was made for, as it was given to the provider in its metadata. */
  readonly operationRef?: string | undefined;
  /** Tells two uses of one key apart, the second after the first had expired. */
  readonly operationId?: string | undefined;
  /** When it was made, in milliseconds. */
  readonly at: EpochMs;
  /**
   * What was refused is not there. What was made and then refunded or cancelled is `undone`: its record had its charge, and
   * nobody was charged too much. What is pending is not missing, and raises no alarm itself.
   */
  readonly state: 'succeeded' | 'undone' | 'refused' | 'pending';
}

/** What the caller's own table says has been charged. */
export interface DomainRow {
  readonly operationRef: string;
  /** What the provider calls it, where the row knows: then the provider's object need not carry the operationRef. */
  readonly reference?: string | undefined;
  /** When it was written, in milliseconds. */
  readonly at: EpochMs;
}

/** Lists what came to be from one moment until another, to its end. Throws where a page is missing: half a list is no list. */
export type AuditSource<T> = (
  window: AuditWindow,
  call: { readonly signal: AbortSignal },
) => AsyncIterable<T> | Iterable<T>;

/** The window cannot be audited as it is; the message says what to change. Nothing was compared. */
export class AuditRefused extends OncekeyError {
  override readonly remedy = 'fix-deployment';
}

/** What both lists have of one operation. */
export interface AuditUnit extends AuditEvidence {
  readonly operationRef: string | undefined;
  readonly charges: AuditedCharge[];
  readonly rows: { readonly reference: string | undefined; readonly at: EpochMs }[];
}

export interface AuditLists {
  /** By a key that orders them, so that a run that stopped can go on: the operationRef, or that there is none. */
  readonly units: ReadonlyMap<string, AuditUnit>;
  readonly charges: ReadonlySet<string>;
  readonly rows: number;
}

export interface AuditReading {
  /** The window, and what is around it. */
  readonly listed: AuditWindow;
  readonly objectsMax: number;
  readonly until: EpochMs;
  readonly clock: () => EpochMs;
}

/** Times in seconds are below this until the year 5138, in milliseconds since 1973. */
const SECONDS_END = 1e11;

const STATES: readonly unknown[] = [
  'succeeded',
  'undone',
  'refused',
  'pending',
] satisfies ProviderObject['state'][];

/** Longer is no operationRef of ours, and DynamoDB would refuse to look for it. */
const REF_MAX_LENGTH = 1_024;

/**
 * Reads both lists to their end, and keeps ids and times alone. The provider is asked last: whatever a row claims has
 * happened there by then.
 */
export async function readLists(
  reading: AuditReading,
  provider: AuditSource<ProviderObject>,
  rows: AuditSource<DomainRow> | undefined,
): Promise<AuditLists> {
  const units = new Map<string, AuditUnit>();
  const refByReference = new Map<string, string>();
  const charges = new Set<string>();
  let [read, rowsRead] = [0, 0];

  if (rows) {
    await each('rows', rows, (row) => {
      const { operationRef, reference, at } = checkedRow(row);
      rowsRead += 1;
      if (reference !== undefined) refByReference.set(reference, operationRef);
      unitOf(operationRef).rows.push({ reference, at });
    });
  }
  await each('provider', provider, (object) => {
    const { id, at, state, operationId } = checkedObject(object);
    if (state === 'refused' || charges.has(id)) return;
    charges.add(id);
    const ref = refOf(object) ?? refByReference.get(id);
    const stands = { pending: state === 'pending', undone: state === 'undone' };
    unitOf(ref, id).charges.push({ id, at, ...stands, operationId });
  });
  return { units, charges, rows: rowsRead };

  async function each<T>(name: string, source: AuditSource<T>, take: (item: T) => void): Promise<void> {
    const { listed, until, clock, objectsMax } = reading;
    const signal = AbortSignal.timeout(Math.max(0, until - clock()));
    try {
      for await (const item of source(listed, { signal })) {
        read += 1;
        if (read > objectsMax) throw tooMany(listed, objectsMax);
        if (clock() >= until) throw tooSlow(listed, name, read);
        checkTime(name, item);
        take(item);
      }
    } catch (error) {
      if (error instanceof OncekeyError) throw error;
      throw halfAList(listed, name, read, error);
    }
    if (clock() >= until) throw tooSlow(listed, name, read);
  }

  function unitOf(operationRef: string | undefined, id = ''): AuditUnit {
    const key = operationRef ?? `~${id}`;
    const unit = units.get(key) ?? { operationRef, charges: [], rows: [] };
    units.set(key, unit);
    return unit;
  }
}

/** A slip in what a source yields would pass for a clean day. */
function checkTime(name: string, item: unknown): void {
  const at: unknown = (item as { at?: unknown } | null | undefined)?.at;
  if (typeof at === 'number' && at >= SECONDS_END) return;
  throw new InvalidArgument(
    `auditor(): ${name} yielded something whose at is ${typeof at === 'number' ? at : kindOf(at)}; expected milliseconds since 1970, such as ${Date.UTC(2030, 0)}. Seconds are to be multiplied by 1000.`,
  );
}

function checkedObject(object: ProviderObject): ProviderObject {
  const { id, state } = object;
  if (typeof id === 'string' && id !== '' && STATES.includes(state)) return object;
  throw new InvalidArgument(
    `auditor(): provider yielded an object whose id is ${kindOf(id)} and whose state is ${JSON.stringify(state)}; expected a text, and one of ${STATES.join(', ')}.`,
  );
}

function checkedRow(row: DomainRow): DomainRow {
  if (refOf(row) !== undefined) return row;
  throw new InvalidArgument(
    `auditor(): rows yielded a row whose operationRef is ${kindOf(row.operationRef)}; expected the operationRef under which it was made.`,
  );
}

function refOf({ operationRef }: { readonly operationRef?: unknown }): string | undefined {
  const isRef = typeof operationRef === 'string' && operationRef.length > 0;
  return isRef && operationRef.length <= REF_MAX_LENGTH ? operationRef : undefined;
}

function tooMany(listed: AuditWindow, most: number): AuditRefused {
  return new AuditRefused(
    `There are more than ${most} objects and rows ${text(listed)}, and nothing was compared. Audit shorter windows more often (windowMs), or raise objectsMax together with the function's memory.`,
  );
}

function tooSlow(listed: AuditWindow, name: string, read: number): AuditRefused {
  return new AuditRefused(
    `The time for listing was over after ${read} objects and rows ${text(listed)}, while ${name} was read, and nothing was compared. Give the function more time, or audit shorter windows more often (windowMs).`,
  );
}

function halfAList(listed: AuditWindow, name: string, read: number, cause: unknown): AuditRefused {
  return new AuditRefused(
    `${name} ended in ${nameOf(cause)} after ${read} objects and rows ${text(listed)}, and nothing was compared: half a list is no list.`,
    cause,
  );
}

function text({ from, to }: AuditWindow): string {
  return `from ${new Date(from).toISOString()} to ${new Date(to).toISOString()}`;
}
