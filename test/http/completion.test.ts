import { describe, expect, it } from 'vitest';
import type { InProgress } from '../../lib/core/record.ts';
import { completionEvent, scheduledIn } from '../../lib/http/completion.ts';
import { MalformedEvent } from '../../lib/http/errors.ts';
import { readEvent } from '../../lib/http/request.ts';
import { storableEvent } from '../../lib/http/stored-event.ts';
import { alb, functionUrl, httpApi, restApi } from './events.ts';

const scheduled = { pk: 'pk-1', operationId: 'operation-1', owner: 'owner-3', attempt: 3 };
const record: InProgress = {
  ...scheduled,
  tenant: 'acme',
  operation: 'POST /payments',
  fingerprint: 'v1:stored',
  effects: 'steps',
  createdAt: 1,
  lastRunAt: 2,
  dedupeSince: 1,
  takenOver: false,
  steps: new Map(),
  moves: [],
  status: 'in_progress',
  leaseUntil: 3,
};

const events = [
  ['HTTP API', httpApi()],
  ['function URL', functionUrl()],
  ['REST API', restApi()],
  ['ALB', alb()],
] as const;

const invoked = (event: unknown): Record<string, unknown> =>
  JSON.parse(Buffer.from(completionEvent(storableEvent(event, []) as Uint8Array, record)).toString('utf8'));

describe.each(events)('an invocation that finishes an attempt: %s', (_, event) => {
  it('names the record, the operation, the owner and the attempt, and nothing else of it', () => {
    expect(scheduledIn(invoked(event))).toEqual(scheduled);
    expect(JSON.stringify(invoked(event))).not.toContain('v1:stored');
  });

  it('is the same request to everything else', () => {
    const stored = JSON.parse(Buffer.from(storableEvent(event, []) as Uint8Array).toString('utf8'));
    expect(readEvent(invoked(event))).toEqual(readEvent(stored));
    const { oncekey: _marker, ...rest } = invoked(event);
    expect(rest).toEqual(stored);
  });

  it('is not what a client sent, whatever it sent', () => {
    expect(scheduledIn(event)).toBeUndefined();
    const forged = JSON.stringify({ oncekey: { complete: scheduled } });
    expect(scheduledIn({ ...event, body: forged })).toBeUndefined();
    expect(scheduledIn({ ...event, headers: { oncekey: forged } })).toBeUndefined();
  });

  it('does not survive being kept: the next attempt is another', () => {
    const again = JSON.parse(Buffer.from(storableEvent(invoked(event), []) as Uint8Array).toString('utf8'));
    expect(scheduledIn(again)).toBeUndefined();
  });

  it('replaces the marker of an earlier one', () => {
    const stale = new TextEncoder().encode(
      JSON.stringify({ ...event, oncekey: { complete: { pk: 'old' } } }),
    );
    expect(scheduledIn(JSON.parse(Buffer.from(completionEvent(stale, record)).toString()))).toEqual(
      scheduled,
    );
  });
});

describe('an event that says which attempt is to be finished', () => {
  it.each([undefined, null, 'text', 7, [], {}])('is not %j', (event) => {
    expect(scheduledIn(event)).toBeUndefined();
  });

  const { pk, operationId, owner, attempt } = scheduled;
  const malformed: [string, unknown][] = [
    ['null', null],
    ['text', 'complete'],
    ['a list', [scheduled]],
    ['nothing to complete', {}],
    ['a list to complete', { complete: [scheduled] }],
    ['its fields one level too high', scheduled],
    ['no record', { complete: { operationId, owner, attempt } }],
    ['no operation', { complete: { pk, owner, attempt } }],
    ['no owner', { complete: { pk, operationId, attempt } }],
    ['no attempt', { complete: { pk, operationId, owner } }],
    ['a record that is a number', { complete: { ...scheduled, pk: 1 } }],
    ['an operation that is a number', { complete: { ...scheduled, operationId: 1 } }],
    ['an owner that is a number', { complete: { ...scheduled, owner: 1 } }],
    ['an attempt that is text', { complete: { ...scheduled, attempt: '3' } }],
    ['half an attempt', { complete: { ...scheduled, attempt: 2.5 } }],
  ];
  it.each(malformed)('says so completely, or is refused instead of run as a new one: %s', (_, marker) => {
    expect(() => scheduledIn({ ...httpApi(), oncekey: marker })).toThrow(MalformedEvent);
    expect(() => scheduledIn({ ...httpApi(), oncekey: marker })).toThrow(/Only the completer sets it/);
  });

  it('says nothing more than that', () => {
    const more = { ...httpApi(), oncekey: { complete: { ...scheduled, tenant: 'other' }, also: 1 } };
    expect(scheduledIn(more)).toEqual(scheduled);
  });
});
