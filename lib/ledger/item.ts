import { InvalidArgument, RecordUnreadable } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type {
  AbnormalMove,
  Delivery,
  Due,
  LedgerRecord,
  Outbox,
  OutboxEvent,
  Step,
  StoredBody,
  StoredRequest,
  StoredResponse,
} from '../core/record.ts';
import type { AuditEntry } from './ledger.ts';
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

/** Where a record is due. Always written out together, or all left alone. */
export const dueAttributes = ['dueShard', 'dueAt', 'parkedAt', 'dueTries', 'dueError'] as const;

/** Attributes that some states have and others must not: an update removes those its target state lacks. */
export const stateAttributes = [
  'leaseUntil',
  'completedAt',
  'expiresAt',
  'ttl',
  'acceptedAt',
  'references',
  'response',
  'outbox',
  'lastErrorCode',
  'request',
  ...dueAttributes,
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
      return {
        leaseUntil: record.leaseUntil,
        request: encodeRequest(record.request),
        ...encodeDue(record.due),
      };
    case 'accepted':
      return { ...encodeAcceptance(record.accepted), ...encodeDue(record.due) };
    case 'completed':
      return {
        completedAt: record.completedAt,
        expiresAt: record.expiresAt,
        ttl: record.ttl,
        acceptedAt: record.acceptedAt,
        response: encodeBody(record.response),
        references: record.references,
        outbox: record.outbox && encodeOutbox(record.outbox),
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
        request: encodeRequest(record.request),
        ...(record.accepted && encodeAcceptance(record.accepted)),
        ...encodeDue(record.due),
      };
    default:
      return record satisfies never;
  }
}

function encodeAcceptance(accepted: Extract<LedgerRecord, { status: 'accepted' }>['accepted']): Item {
  const { at, response, outbox } = accepted;
  return { acceptedAt: at, response: encodeBody(response), outbox: encodeOutbox(outbox) };
}

function encodeDue(due: Due | undefined): Item {
  if (!due) return {};
  const { shard, at, parkedAt, tries, error } = due;
  return { dueShard: shard, dueAt: at, parkedAt, dueTries: tries, dueError: error };
}

export function encodeOutbox(outbox: Outbox): Item[] {
  return outbox.map(({ type, payload, delivery }) =>
    present({ type, payload, delivery: delivery && encodeDelivery(delivery) }),
  );
}

export function encodeDelivery(delivery: Delivery): Item {
  if (delivery.state === 'claimed') return { ...delivery };
  const { state, at, reference, response } = delivery;
  return present({ state, at, reference, response: response && encodeBody(response) });
}

export function encodeStep(step: Step): Item {
  if (step.state === 'open' || typeof step.result === 'string') return { ...step };
  return { ...step, result: encodeBody(step.result) };
}

function encodeRequest(request: StoredRequest | undefined): Item | undefined {
  return request && { function: request.function, event: encodeBody(request.event) };
}

/** Of a response, its status and headers as well. */
function encodeBody(stored: StoredBody | StoredResponse): Item {
  const { body, ...rest } = stored;
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
  const bytes = textBytes(record);
  if (bytes > limits.recordTextMaxBytes) {
    throw new InvalidArgument(
      `The headers and events of this record have ${bytes} bytes; at most ${limits.recordTextMaxBytes} fit. Nothing was written.`,
    );
  }
}

function textBytes(record: LedgerRecord): number {
  const kept = 'accepted' in record ? record.accepted : record.status === 'completed' ? record : undefined;
  const headers = kept?.response.headers.flat() ?? [];
  const events = kept?.outbox?.flatMap(({ type, payload }) => [type, payload]) ?? [];
  return [...headers, ...events].reduce((sum, text) => sum + Buffer.byteLength(text), 0);
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
      return {
        ...base,
        ...watch,
        ...decodeRequest(read),
        status: 'in_progress',
        leaseUntil: read.whole('leaseUntil'),
      };
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
        ...(read.has('references') && { references: read.list('references').map(String) }),
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
        ...decodeRequest(read),
        ...(read.has('acceptedAt') && { accepted: decodeAcceptance(read) }),
      };
  }
}

export function decodeAudit(item: Item): AuditEntry {
  const read = reader(item, `an audit entry of ${String(item['pk'])}`);
  const [who, why, move] = [read.text('who'), read.text('why'), read.text('move')];
  return { at: read.whole('at'), id: read.text('id'), who, why, move };
}

function decodeAcceptance(read: Reader) {
  return { at: read.whole('acceptedAt'), response: decodeResponse(read), outbox: decodeOutbox(read) };
}

function decodeDue(read: Reader): Due | undefined {
  if (!read.has('dueShard')) return undefined;
  return {
    shard: read.text('dueShard'),
    at: read.whole('dueAt'),
    ...(read.has('parkedAt') && { parkedAt: read.whole('parkedAt') }),
    ...(read.has('dueTries') && { tries: read.whole('dueTries') }),
    ...(read.has('dueError') && { error: read.text('dueError') }),
  };
}

function decodeOutbox(read: Reader): Outbox {
  const [first, ...others] = read.list('outbox').map((event): OutboxEvent => {
    const inner = reader(event, `an outbox event of ${read.what}`);
    const emitted = { type: inner.text('type'), payload: inner.text('payload') };
    return inner.has('delivery') ? { ...emitted, delivery: decodeDelivery(inner) } : emitted;
  });
  if (!first) throw read.damaged('outbox', 'a list of events');
  return [first, ...others];
}

function decodeDelivery(read: Reader): Delivery {
  const inner = reader(read.map('delivery'), `the delivery of ${read.what}`);
  const state = inner.oneOf('state', ['claimed', 'done', 'refused']);
  if (state === 'claimed') return { state, id: inner.text('id'), until: inner.whole('until') };
  return {
    state,
    at: inner.whole('at'),
    ...(inner.has('reference') && { reference: inner.text('reference') }),
    ...(inner.has('response') && { response: decodeResponse(inner) }),
  };
}

function decodeRequest(read: Reader): { request?: StoredRequest } {
  if (!read.has('request')) return {};
  const inner = reader(read.map('request'), `the request of ${read.what}`);
  const event = reader(inner.map('event'), `the event of ${read.what}`);
  return { request: { function: inner.text('function'), event: decodeBody(event) } };
}

function decodeResponse(read: Reader): StoredResponse {
  const inner = reader(read.map('response'), `the response of ${read.what}`);
  if (inner.whole('schemaVersion') !== 1) throw inner.damaged('schemaVersion', '1');
  return {
    schemaVersion: 1,
    status: inner.whole('status'),
    headers: inner.list('headers').map((pair) => decodeHeader(pair, inner)),
    base64: inner.flag('base64'),
    ...(inner.has('erasedAt') && { erasedAt: inner.whole('erasedAt') }),
    ...decodeBody(inner),
  };
}

function decodeBody(read: Reader): StoredBody {
  return {
    encoding: read.oneOf('encoding', ['identity', 'zstd']),
    ...(read.has('sealed') && read.flag('sealed') && { sealed: true as const }),
    length: read.whole('length'),
    crc: read.whole('crc'),
    body: read.has('chunks')
      ? { set: read.text('chunkSet'), chunks: read.whole('chunks') }
      : { inline: read.bytes('body') },
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
  if (inner.oneOf('state', ['open', 'done']) === 'open')
    return { state: 'open', ...base, id: inner.text('id') };
  const result = inner.isText('result')
    ? inner.text('result')
    : decodeBody(reader(inner.map('result'), `the result of ${inner.what}`));
  return { state: 'done', ...base, result };
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
    isText: (name: string): boolean => typeof source[name] === 'string',
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
