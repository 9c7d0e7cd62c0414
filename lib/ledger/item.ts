import { InvalidArgument, RecordUnreadable } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type {
  AbnormalMove,
  Due,
  LedgerRecord,
  Outbox,
  OutboxEvent,
  Step,
  StoredResponse,
} from '../core/record.ts';
import { RECORD_SK } from './schema.ts';

export type Item = Record<string, unknown>;

/**
 * A release reads the version it writes and the next one, and starts to write that one a release later: during a
 * rolling deployment, and after a rollback, every function can read what any other has written. That works because a
 * version may only add attributes, and no update touches `v` or an attribute it does not know.
 */
export interface ItemVersions {
  readonly writes: number;
  readonly reads: number;
}

export const itemVersions: ItemVersions = { writes: 1, reads: 2 };

/** Attributes that some states have and others must not: an update removes those its target state lacks. */
export const stateAttributes = [
  'leaseUntil',
  'completedAt',
  'expiresAt',
  'ttl',
  'acceptedAt',
  'response',
  'outbox',
  'lastErrorCode',
  'dueShard',
  'dueAt',
  'parkedAt',
] as const;

/** `steps` is not among what this returns: its entries are written one by one, never as a whole. */
export function encode(record: LedgerRecord): Item {
  return present({
    status: record.status,
    tenant: record.tenant,
    operation: record.operation,
    fingerprint: record.fingerprint,
    effects: record.effects,
    operationId: record.operationId,
    owner: record.owner,
    attempt: record.attempt,
    createdAt: record.createdAt,
    lastRunAt: record.lastRunAt,
    dedupeSince: record.dedupeSince === record.createdAt ? undefined : record.dedupeSince,
    takenOver: record.takenOver || undefined,
    moves: record.moves.length > 0 ? record.moves : undefined,
    ...encodeState(record),
  });
}

function encodeState(record: LedgerRecord): Item {
  switch (record.status) {
    case 'in_progress':
      return { leaseUntil: record.leaseUntil, ...encodeDue(record.due) };
    case 'accepted':
      return { ...encodeAcceptance(record.accepted), ...encodeDue(record.due) };
    case 'completed':
      return {
        completedAt: record.completedAt,
        expiresAt: record.expiresAt,
        ttl: record.ttl,
        acceptedAt: record.acceptedAt,
        response: encodeResponse(record.response),
        outbox: record.outbox,
        ...encodeDue(record.due),
      };
    case 'failed_retryable':
      return {
        completedAt: record.completedAt,
        expiresAt: record.expiresAt,
        ttl: record.ttl,
        lastErrorCode: record.errorCode,
      };
    case 'unknown':
      return {
        leaseUntil: record.leaseUntil,
        lastErrorCode: record.errorCode,
        ...(record.accepted && encodeAcceptance(record.accepted)),
        ...encodeDue(record.due),
      };
    default:
      return record satisfies never;
  }
}

function encodeAcceptance(accepted: Extract<LedgerRecord, { status: 'accepted' }>['accepted']): Item {
  return { acceptedAt: accepted.at, response: encodeResponse(accepted.response), outbox: accepted.outbox };
}

function encodeDue(due: Due | undefined): Item {
  return due ? { dueShard: due.shard, dueAt: due.at, parkedAt: due.parkedAt } : {};
}

function encodeResponse(response: StoredResponse): Item {
  const { body, ...rest } = response;
  return 'inline' in body
    ? { ...rest, body: body.inline }
    : { ...rest, chunkSet: body.set, chunks: body.chunks };
}

function present(item: Item): Item {
  return Object.fromEntries(Object.entries(item).filter(([, value]) => value !== undefined));
}

/**
 * Refuses what could be written but not read back: the caller would be locked out of its own key, after the effect. Text
 * that all lives on the record is bounded here as well, before anything is lost.
 */
export function requireReadable(record: LedgerRecord, versions: ItemVersions): void {
  try {
    decode({ pk: record.pk, sk: RECORD_SK, v: versions.writes, ...encode(record) }, versions);
  } catch (cause) {
    const why =
      cause instanceof Error ? cause.message.replace(/ It is not treated as absent.*$/, '') : String(cause);
    throw new InvalidArgument(`This cannot be stored, and nothing was written: ${why}`, cause);
  }
  const length = textLength(record);
  if (length > limits.recordTextMaxLength) {
    throw new InvalidArgument(
      `The headers and events of this record have ${length} characters; at most ${limits.recordTextMaxLength} fit. Nothing was written.`,
    );
  }
}

function textLength(record: LedgerRecord): number {
  const kept = 'accepted' in record ? record.accepted : record.status === 'completed' ? record : undefined;
  const headers = kept?.response.headers.flat() ?? [];
  const events = kept?.outbox?.map(({ payload }) => payload) ?? [];
  return [...headers, ...events].reduce((sum, text) => sum + text.length, 0);
}

/** Reads an item, or says what is wrong with it. Anything odd is an error: the record may say that money moved. */
export function decode(item: Item, versions: ItemVersions): LedgerRecord {
  const read = reader(item, `record ${String(item['pk'])}`);
  const version = read.whole('v');
  if (version < 1) throw read.damaged('v', 'at least 1');
  if (version > versions.reads) {
    throw new RecordUnreadable(
      `${read.what} has format version ${version}; this release reads up to ${versions.reads}. A newer release wrote it: roll forward. It is not treated as absent, because it may have executed.`,
    );
  }
  if (read.text('sk') !== RECORD_SK) throw read.damaged('sk', `"${RECORD_SK}"`);

  const createdAt = read.whole('createdAt');
  const base = {
    pk: read.text('pk'),
    tenant: read.text('tenant'),
    operation: read.text('operation'),
    fingerprint: read.text('fingerprint'),
    effects: read.oneOf('effects', ['transactional', 'steps', 'opaque']),
    operationId: read.text('operationId'),
    owner: read.text('owner'),
    attempt: read.whole('attempt'),
    createdAt,
    lastRunAt: read.whole('lastRunAt'),
    dedupeSince: read.has('dedupeSince') ? read.whole('dedupeSince') : createdAt,
    takenOver: read.has('takenOver') && read.flag('takenOver'),
    steps: read.has('steps') ? decodeSteps(read.map('steps'), read.what) : new Map(),
    moves: read.has('moves') ? read.list('moves').map((move) => decodeMove(move, read.what)) : [],
  };
  const due = decodeDue(read);
  const watch = due ? { due } : {};

  switch (read.oneOf('status', ['in_progress', 'accepted', 'completed', 'failed_retryable', 'unknown'])) {
    case 'in_progress':
      return { ...base, ...watch, status: 'in_progress', leaseUntil: read.whole('leaseUntil') };
    case 'accepted':
      return { ...base, ...watch, status: 'accepted', accepted: decodeAcceptance(read) };
    case 'completed': {
      const result = {
        ...base,
        status: 'completed',
        response: decodeResponse(read),
        completedAt: read.whole('completedAt'),
        expiresAt: read.whole('expiresAt'),
        ...(read.has('acceptedAt') && { acceptedAt: read.whole('acceptedAt') }),
      } as const;
      if (!read.has('outbox')) return { ...result, ttl: read.whole('ttl') };
      if (read.has('ttl')) throw read.damaged('ttl', 'absent while the outbox is undelivered');
      return { ...result, ...watch, outbox: decodeOutbox(read) };
    }
    case 'failed_retryable':
      return {
        ...base,
        status: 'failed_retryable',
        errorCode: read.text('lastErrorCode'),
        completedAt: read.whole('completedAt'),
        expiresAt: read.whole('expiresAt'),
        ttl: read.whole('ttl'),
      };
    case 'unknown':
      if (!due) throw read.damaged('dueShard', 'present on an unknown record');
      return {
        ...base,
        status: 'unknown',
        errorCode: read.text('lastErrorCode'),
        leaseUntil: read.whole('leaseUntil'),
        due,
        ...(read.has('acceptedAt') && { accepted: decodeAcceptance(read) }),
      };
  }
}

function decodeAcceptance(read: Reader) {
  return { at: read.whole('acceptedAt'), response: decodeResponse(read), outbox: decodeOutbox(read) };
}

function decodeDue(read: Reader): Due | undefined {
  if (!read.has('dueShard')) return undefined;
  const due = { shard: read.text('dueShard'), at: read.whole('dueAt') };
  return read.has('parkedAt') ? { ...due, parkedAt: read.whole('parkedAt') } : due;
}

function decodeOutbox(read: Reader): Outbox {
  const [first, ...others] = read.list('outbox').map((event): OutboxEvent => {
    const inner = reader(event, `an outbox event of ${read.what}`);
    return { type: inner.text('type'), payload: inner.text('payload') };
  });
  if (!first) throw read.damaged('outbox', 'a list of events');
  return [first, ...others];
}

function decodeResponse(read: Reader): StoredResponse {
  const inner = reader(read.map('response'), `the response of ${read.what}`);
  if (inner.whole('schemaVersion') !== 1) throw inner.damaged('schemaVersion', '1');
  return {
    schemaVersion: 1,
    status: inner.whole('status'),
    headers: inner.list('headers').map((pair) => decodeHeader(pair, inner)),
    base64: inner.flag('base64'),
    encoding: inner.oneOf('encoding', ['identity', 'zstd']),
    ...(inner.has('sealed') && inner.flag('sealed') && { sealed: true as const }),
    length: inner.whole('length'),
    crc: inner.whole('crc'),
    body: inner.has('chunks')
      ? { set: inner.text('chunkSet'), chunks: inner.whole('chunks') }
      : { inline: inner.bytes('body') },
  };
}

function decodeHeader(pair: unknown, read: Reader): readonly [string, string] {
  if (!Array.isArray(pair) || pair.length !== 2) throw read.damaged('headers', 'pairs of name and value');
  const [name, value]: unknown[] = pair;
  if (typeof name !== 'string' || typeof value !== 'string') throw read.damaged('headers', 'pairs of text');
  return [name, value];
}

function decodeMove(move: unknown, of: string): AbnormalMove {
  const inner = reader(move, `a move of ${of}`);
  return { move: inner.text('move'), at: inner.whole('at'), attempt: inner.whole('attempt') };
}

function decodeSteps(steps: Item, of: string): Map<string, Step> {
  const decoded = Object.entries(steps).map(([name, step]) => [name, decodeStep(step, of)] as const);
  return new Map(decoded);
}

function decodeStep(step: unknown, of: string): Step {
  const inner = reader(step, `a step of ${of}`);
  const base = { attempt: inner.whole('attempt'), at: inner.whole('at') };
  return inner.oneOf('state', ['open', 'done']) === 'open'
    ? { state: 'open', ...base, id: inner.text('id') }
    : { state: 'done', ...base, result: inner.text('result') };
}

type Reader = ReturnType<typeof reader>;

/** Typed access to a map that came from outside, with one wording for all that can be wrong with it. */
function reader(source: unknown, what: string) {
  const damaged = (name: string, expected: string): RecordUnreadable => {
    const value = isMap(source) ? source[name] : source;
    const got =
      value === undefined ? 'nothing' : `${typeof value}${typeof value === 'number' ? ` ${value}` : ''}`;
    return new RecordUnreadable(
      `${what} is damaged: attribute ${name} should be ${expected}, found ${got}. It is not treated as absent, because it may have executed; inspect the item.`,
    );
  };
  if (!isMap(source)) throw damaged('(itself)', 'a map');
  const expect = <T>(name: string, expected: string, test: (value: unknown) => value is T): T => {
    const value = source[name];
    if (!test(value)) throw damaged(name, expected);
    return value;
  };
  return {
    what,
    damaged,
    has: (name: string): boolean => source[name] !== undefined,
    text: (name: string) => expect(name, 'text', (value) => typeof value === 'string'),
    flag: (name: string) => expect(name, 'a boolean', (value) => typeof value === 'boolean'),
    whole: (name: string) => expect(name, 'a whole number of 0 or more', isWhole),
    bytes: (name: string) => expect(name, 'bytes', (value) => value instanceof Uint8Array),
    list: (name: string) => expect(name, 'a list', (value): value is unknown[] => Array.isArray(value)),
    map: (name: string) => expect(name, 'a map', isMap),
    oneOf: <const T extends string>(name: string, options: readonly T[]): T =>
      expect(name, `one of ${options.join(', ')}`, (value): value is T =>
        options.some((option) => option === value),
      ),
  };
}

function isMap(value: unknown): value is Item {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
  );
}

function isWhole(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
