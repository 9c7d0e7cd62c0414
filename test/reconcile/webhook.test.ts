import { randomUUID } from 'node:crypto';
import middy from '@middy/core';
import httpCors from '@middy/http-cors';
import { describe, expect, it } from 'vitest';
import { InvalidArgument } from '../../lib/core/errors.ts';
import { limits } from '../../lib/core/limits.ts';
import { defaultPolicy } from '../../lib/core/policy.ts';
import type { Completed } from '../../lib/core/record.ts';
import { executed, notExecuted, undetermined } from '../../lib/effects/resolver.ts';
import { UnsupportedEvent } from '../../lib/http/errors.ts';
import { dueShard } from '../../lib/ledger/schema.ts';
import { stripeSignature } from '../../lib/reconcile/stripe-signature.ts';
import { webhook } from '../../lib/reconcile/webhook.ts';
import {
  acceptedBy,
  completedBy,
  failedBy,
  inProgress,
  LEASE_MS,
  SKEW_MS,
  START,
  unknownAfterAccept,
} from '../../lib/testing/contract/subject.ts';
import { alb, albMultiValue, functionUrl, httpApi, restApi } from '../http/events.ts';
import { useTable } from '../support/table.ts';
import { bothLedgers } from './stage.ts';
import {
  aboutRecord,
  codeOf,
  endpoint,
  eventOf,
  noted,
  paid,
  providerOf,
  signed,
  unknownRecord,
  unknownStep,
} from './webhook-stage.ts';

const table = useTable();

for (const [name, ledgerOf] of Object.entries(bothLedgers(table))) {
  describe(`a webhook on ${name}`, () => {
    const time = { now: START };
    const ledger = ledgerOf(() => time.now);
    const at = (now: number) => ({ now });

    it('settles by what the provider says when it is asked, and not by what the event says', async () => {
      const { asked, fetch } = providerOf(() => executed({ statusCode: 402, body: '"declined"' }));
      const record = await unknownRecord(ledger);
      const event = aboutRecord(record);
      const { send, decisions, counted } = endpoint(ledger, time, { fetch });
      const answer = await send(event);
      expect(answer).toMatchObject({ statusCode: 200, body: '{"received":true}' });
      expect(answer.headers['Cache-Control']).toBe('no-store');
      const settled = (await ledger.read(record.pk)) as Completed;
      const reply = await ledger.reply(record.pk, settled.response);
      expect([reply.status, Buffer.from(reply.body).toString()]).toEqual([402, '"declined"']);
      expect(asked).toMatchObject([{ operationRef: record.pk, operationId: record.operationId }]);
      expect(decisions()).toEqual(['resolved_completed']);
      expect(counted()).toEqual({ 'reconcile.resolved.count': 1 });
      expect(await noted(ledger, event)).toMatchObject({ status: 'completed', effects: 'transactional' });
    });

    it("asks the operation's own resolver where it has no fetch", async () => {
      const { asked, fetch } = providerOf();
      const resolver = (operation: Parameters<typeof fetch>[1]) => fetch(undefined, operation);
      const operations = { 'POST /payments': { resolver } };
      const record = await unknownRecord(ledger);
      const { send } = endpoint(ledger, time, { operations });
      expect((await send(aboutRecord(record))).statusCode).toBe(200);
      expect(await ledger.read(record.pk)).toMatchObject({ status: 'completed' });
      expect(asked).toHaveLength(1);
      const other = await unknownRecord(ledger, { operation: 'POST /refunds' });
      const answer = await send(aboutRecord(other));
      expect([answer.statusCode, codeOf(answer)]).toEqual([503, 'not_settled']);
      expect(await ledger.read(other.pk)).toEqual(other);
    });

    it('believes that nothing happened only after the settling time, and says until when to wait', async () => {
      const settlesAt = START + LEASE_MS + SKEW_MS + 120_000;
      const clock = at(START + 60_000);
      const { fetch } = providerOf(() => notExecuted());
      const record = await unknownRecord(ledger);
      const event = aboutRecord(record);
      const { send, counted } = endpoint(ledger, clock, { fetch });
      const early = await send(event);
      expect([early.statusCode, early.headers['Retry-After']]).toEqual([503, '91']);
      expect(JSON.parse(early.body)).toMatchObject({ status: 503, retryAfter: 91 });
      clock.now = settlesAt - 1;
      expect((await send(event)).headers['Retry-After']).toBe('30');
      expect(await ledger.read(record.pk)).toEqual(record);
      expect(counted()).toEqual({});
      clock.now = settlesAt;
      expect((await send(event)).statusCode).toBe(200);
      expect(await ledger.read(record.pk)).toMatchObject({ status: 'failed_retryable' });
    });

    it('believes it as soon as the operation says that its requests have landed', async () => {
      const clock = at(START + LEASE_MS + SKEW_MS + 5_000 - 1);
      const { fetch } = providerOf(() => notExecuted());
      const record = await unknownRecord(ledger);
      const event = aboutRecord(record);
      const { send } = endpoint(ledger, clock, {
        fetch,
        operations: { [record.operation]: { effects: record.effects, onUnknown: 'park', settlingMs: 5_000 } },
      });
      expect((await send(event)).statusCode).toBe(503);
      clock.now += 1;
      expect((await send(event)).statusCode).toBe(200);
      expect(await ledger.read(record.pk)).toMatchObject({ status: 'failed_retryable' });
    });

    it('has the event sent again while nobody knows, and leaves the record and its tries alone', async () => {
      for (const [verdict, reason, retryAfter] of [
        [() => undetermined(), 'undetermined', '30'],
        [() => undetermined(45_001), 'undetermined', '46'],
        [() => undetermined(1), 'undetermined', '30'],
        [() => undetermined(Number.NaN), 'undetermined', '30'],
        [() => Promise.reject(new RangeError('secret')), 'RangeError', '30'],
        [() => ({ paid: true }), 'InvalidArgument', '30'],
        [() => undefined, 'InvalidArgument', '30'],
        [() => executed({ statusCode: 'created' }), 'UnstorableReply', '30'],
      ] as const) {
        const { asked, fetch } = providerOf((call) => (call === 1 ? verdict() : paid));
        const record = await unknownRecord(ledger);
        const event = aboutRecord(record);
        const { send, decisions, counted } = endpoint(ledger, time, { fetch });
        const answer = await send(event);
        expect([answer.statusCode, answer.headers['Retry-After']], reason).toEqual([503, retryAfter]);
        expect(await ledger.read(record.pk)).toEqual(record);
        expect(decisions()).toEqual([`webhook_unresolved: ${reason}`]);
        expect(counted()).toEqual({ 'reconcile.failed.count': 1 });
        expect(await noted(ledger, event)).toMatchObject({
          status: 'failed_retryable',
          errorCode: 'not_settled',
        });
        expect((await send(event)).statusCode).toBe(200); // At once: nobody waits for a lease.
        expect(asked).toHaveLength(2);
      }
    });

    it('tells when a verdict is about no effect that the record knows of', async () => {
      const record = await unknownStep(ledger);
      const { fetch } = providerOf(() => executed({}, 'charge'));
      const opaque = await unknownRecord(ledger, { effects: 'steps' });
      const { send, logged } = endpoint(ledger, time, { fetch });
      expect((await send(aboutRecord(record))).statusCode).toBe(200);
      expect(await ledger.read(record.pk)).toMatchObject({ status: 'in_progress', attempt: 2 });
      const nameless = endpoint(ledger, time, { fetch: () => executed({}) });
      expect((await nameless.send(aboutRecord(opaque))).statusCode).toBe(503);
      expect(nameless.logged).toMatchObject([{ level: 'error', reason: 'verdict_without_effect' }]);
      expect(await ledger.read(opaque.pk)).toEqual(opaque);
      expect(logged).toMatchObject([{ decision: 'resolved_in_progress' }]);
    });

    it('settles what is parked, and returns to its delivery what was accepted', async () => {
      const record = await unknownRecord(ledger);
      const due = { shard: dueShard(record.pk, 'parked'), at: START, parkedAt: START, tries: 10 };
      await ledger.watch(record, due);
      const { send } = endpoint(ledger, time, { fetch: () => paid });
      expect((await send(aboutRecord(record))).statusCode).toBe(200);
      expect(await ledger.read(record.pk)).toMatchObject({ status: 'completed' });

      const doubted = await unknownAfterAccept(ledger, await acceptedBy(ledger, await inProgress(ledger)));
      const later = endpoint(ledger, at(START + 3_600_000), { fetch: () => notExecuted() });
      expect((await later.send(aboutRecord(doubted))).statusCode).toBe(200);
      expect(await ledger.read(doubted.pk)).toMatchObject({ status: 'accepted', attempt: 2 });
    });

    it('has an event come again that is faster than the answer it is about, and asks nobody', async () => {
      const { asked, fetch } = providerOf();
      const running = await inProgress(ledger, { effects: 'opaque' });
      const accepted = await acceptedBy(ledger, await inProgress(ledger));
      for (const record of [running, accepted]) {
        const { send, logged } = endpoint(ledger, time, { fetch });
        const event = aboutRecord(record);
        const answer = await send(event);
        expect([answer.statusCode, answer.headers['Retry-After']]).toEqual([503, '30']);
        expect(logged).toMatchObject([
          { level: 'info', decision: 'webhook_early', operationRef: record.pk.slice(0, 12) },
        ]);
        expect(logged[0]?.reason).toBe(record.status);
        expect(await ledger.read(record.pk)).toEqual(record);
        expect(await noted(ledger, event)).toBeUndefined();
      }
      expect(asked).toEqual([]);
    });

    it('acknowledges an event about what has ended, and writes nothing for it', async () => {
      const { asked, fetch } = providerOf();
      const { send, logged } = endpoint(ledger, time, { fetch });
      for (const record of [
        await completedBy(ledger, await inProgress(ledger)),
        await failedBy(ledger, await inProgress(ledger)),
      ]) {
        const event = aboutRecord(record);
        expect((await send(event)).statusCode).toBe(200);
        expect(await ledger.read(record.pk)).toEqual(record);
        expect(await noted(ledger, event)).toBeUndefined();
      }
      expect([asked, logged]).toEqual([[], []]);
    });

    it('acknowledges what is about no record, and tells under which ref it came', async () => {
      for (const [ref, shown] of [
        ['of-another-deployment', 'of-another-d'],
        ['x'.repeat(501), '-'],
        [17, '-'],
        [{ S: 'x' }, '-'],
      ] as const) {
        const { send, logged, counted } = endpoint(ledger, time, { fetch: () => paid });
        expect((await send(eventOf({ operationRef: ref }))).statusCode).toBe(200);
        expect(logged).toMatchObject([
          { level: 'warn', decision: 'webhook_unmatched', reason: 'no_record', operationRef: shown },
        ]);
        expect(counted()).toEqual({ 'webhook.unmatched': 1 });
      }
    });

    it('tells all that an event carries about what is not found', async () => {
      const operationRef = randomUUID();
      const subject = () => ({ operationRef, operationId: 'op-1', tenant: 'acct_1' });
      const { send, logged } = endpoint(ledger, time, { fetch: () => paid, subject });
      await send(eventOf());
      expect(logged).toMatchObject([
        { decision: 'webhook_unmatched', fullRef: operationRef, operationId: 'op-1', tenant: 'acct_1' },
      ]);
    });

    it('lets an event come again whose answer cannot be kept, and says of which operation', async () => {
      const record = await unknownRecord(ledger);
      const huge = executed({ statusCode: 201, body: 'x'.repeat(limits.bodyMaxBytes + 1) });
      const { send, logged } = endpoint(ledger, time, { fetch: () => huge });
      expect((await send(aboutRecord(record))).statusCode).toBe(503);
      expect(logged).toMatchObject([
        { decision: 'webhook_unresolved', reason: 'InvalidArgument', operation: record.operation },
      ]);
      expect(await ledger.read(record.pk)).toEqual(record);
    });

    it('acknowledges what is about another operation or tenant, and moves nothing', async () => {
      const record = await unknownRecord(ledger);
      const { operationId, tenant } = record;
      const { asked, fetch } = providerOf();
      for (const [claimed, matches] of [
        [{ operationId: 'an earlier one' }, false],
        [{ tenant: 'tenant-2' }, false],
        [{ operationId, tenant: 'tenant-2' }, false],
        [{ operationId: 'an earlier one', tenant }, false],
        [{ operationId: '' }, false],
        [{ operationId, tenant }, true],
      ] as const) {
        const subject = () => ({ operationRef: record.pk, ...claimed });
        const { send, decisions, counted } = endpoint(ledger, time, { fetch, subject });
        expect((await send(eventOf())).statusCode).toBe(200);
        if (matches) continue;
        expect(await ledger.read(record.pk)).toEqual(record);
        expect(decisions()).toEqual(['webhook_unmatched: another_operation']);
        expect(counted()).toEqual({ 'webhook.unmatched': 1 });
      }
      expect(asked).toHaveLength(1);
      expect(await ledger.read(record.pk)).toMatchObject({ status: 'completed' });
    });

    it('keeps what is noted of an event for longer than a provider sends it again', async () => {
      const event = aboutRecord(await unknownRecord(ledger));
      await endpoint(ledger, time, { fetch: () => paid }).send(event);
      expect(await noted(ledger, event)).toMatchObject({ expiresAt: START + 4 * 24 * 3_600_000 });
    });
  });
}

describe('an endpoint', () => {
  const time = { now: START };
  /** A ledger that must not be needed. */
  const untouched = new Proxy({} as never, {
    get: () => () => {
      throw new Error('the ledger was asked');
    },
  });

  it('acknowledges events that are none of ours, and looks nothing up', async () => {
    for (const operationRef of [undefined, null, '']) {
      const { send, logged } = endpoint(untouched, time, { fetch: () => paid });
      expect((await send(eventOf({ operationRef }))).statusCode).toBe(200);
      expect((await send(eventOf(null))).statusCode).toBe(200);
      expect(logged).toEqual([]);
    }
    for (const subject of [() => undefined, async () => null as never]) {
      const { send, logged } = endpoint(untouched, time, { fetch: () => paid, subject });
      expect((await send(eventOf())).statusCode).toBe(200);
      expect(logged).toEqual([]);
    }
  });

  it('acknowledges types that it does not take, before anything is looked at', async () => {
    const subjects: string[] = [];
    const { send } = endpoint(untouched, time, {
      fetch: () => paid,
      types: ['payment.succeeded', 'payment.failed'],
      subject: ({ type }) => void subjects.push(type),
    });
    for (const type of ['payment.failed', 'payment.succeeded', 'balance.available', 'payment']) {
      expect((await send(eventOf({}, type))).statusCode).toBe(200);
    }
    expect(subjects).toEqual(['payment.failed', 'payment.succeeded']);
  });

  it('refuses what is not signed, and anything but a clear yes is a no', async () => {
    for (const verify of [() => false, () => 'true', () => 1, () => undefined, async () => ({})]) {
      const { send, decisions, counted } = endpoint(untouched, time, {
        fetch: () => paid,
        verify: verify as () => boolean,
        event: () => {
          throw new Error('read before it was verified');
        },
      });
      const answer = await send(eventOf());
      expect([answer.statusCode, codeOf(answer)]).toEqual([400, 'signature_invalid']);
      expect(answer.headers['Retry-After']).toBeUndefined();
      expect(decisions()).toEqual(['webhook_unsigned: signature']);
      expect(counted()).toEqual({ 'webhook.rejected': 1 });
    }
  });

  it('that cannot read its secrets calls nobody a forger, and has the event sent again', async () => {
    let secrets: () => Promise<string[]> = async () => {
      throw new TypeError('whsec_hidden is not there');
    };
    const { send, logged, counted } = endpoint(untouched, time, {
      fetch: () => paid,
      verify: stripeSignature({ secrets: () => secrets(), clock: () => time.now }),
    });
    const answer = await send(eventOf());
    expect([answer.statusCode, codeOf(answer)]).toEqual([503, 'signature_unchecked']);
    expect(answer.headers['Retry-After']).toBe(String(defaultPolicy.reconcileBaseMs / 1_000));
    expect(logged).toMatchObject([{ level: 'error', decision: 'webhook_unchecked', reason: 'TypeError' }]);
    expect(counted()).toEqual({ 'reconcile.failed.count': 1 });
    expect(JSON.stringify([answer, logged])).not.toContain('hidden');
    secrets = async () => ['']; // As an environment variable that is not set.
    expect((await send(eventOf())).statusCode).toBe(503);
    secrets = async () => ['whsec_new', 'whsec_current'];
    expect((await send(eventOf())).statusCode).toBe(200);
  });

  it('refuses a signed body that is no event, before anything is looked at', async () => {
    for (const body of [
      '',
      '{',
      'null',
      '[]',
      '"evt_1"',
      '{"type":"paid"}',
      '{"id":"evt_1"}',
      '{"id":"","type":"paid"}',
      '{"id":7,"type":"paid"}',
      '{"id":"evt_1","type":null}',
      `{"id":"${'e'.repeat(501)}","type":"paid"}`,
      `${'['.repeat(200_000)}`,
    ]) {
      const { send, logged, counted } = endpoint(untouched, time, { fetch: () => paid });
      const answer = await send(body);
      expect([answer.statusCode, codeOf(answer)], body.slice(0, 40)).toEqual([400, 'event_unreadable']);
      expect(logged).toMatchObject([{ level: 'error', decision: 'webhook_unreadable' }]);
      expect(counted()).toEqual({ 'webhook.rejected': 1 });
    }
    const { send } = endpoint(untouched, time, { fetch: () => paid });
    const longest = { ...eventOf(), id: 'e'.repeat(500) };
    expect((await send(longest)).statusCode).toBe(200);
  });

  it('reads an event as it is told to, also if that takes a while', async () => {
    const seen: string[] = [];
    const form = (body: Uint8Array) => new URLSearchParams(Buffer.from(body).toString());
    const { send, decisions } = endpoint(untouched, time, {
      fetch: () => paid,
      event: async ({ body }) => ({ ...eventOf(), id: form(body).get('id') ?? '' }),
      subject: ({ id }) => void seen.push(id),
    });
    expect((await send('id=tr_1')).statusCode).toBe(200);
    expect((await send('payment=1')).statusCode).toBe(400);
    expect(seen).toEqual(['tr_1']);
    expect(decisions()).toEqual(['webhook_unreadable: event']);
  });

  it('checks the bytes that were sent, whichever gateway passed them on', async () => {
    const text = JSON.stringify({ ...eventOf(), name: 'Zoë 🦊 \u2028' }, null, 2); // Stripe's are indented.
    const broken = Buffer.concat([
      Buffer.from('{"id":"evt_1","type":"'),
      Buffer.from([0xff, 0xfe]),
      Buffer.from('"}'),
    ]);
    const { hook } = endpoint(untouched, time, { fetch: () => paid });
    for (const eventWith of [httpApi, functionUrl, restApi, alb]) {
      const statusOf = async (body: unknown, from: string | Uint8Array, isBase64Encoded = false) => {
        const event = eventWith({ headers: signed(from), body, isBase64Encoded });
        return (await hook(event)).statusCode;
      };
      expect(await statusOf(text, text)).toBe(200);
      expect(await statusOf(Buffer.from(text).toString('base64'), text, true)).toBe(200);
      expect(await statusOf(`${text} `, text)).toBe(400);
      expect(await statusOf(JSON.parse(text), text)).toBe(400); // A parser was first.
      expect(await statusOf(null, text)).toBe(400);
      // It is signed, so it was sent like this; and it is no text that anybody could have meant.
      expect(await statusOf(broken.toString('base64'), broken, true)).toBe(400);
    }
    const [[header = '', value = '']] = Object.entries(signed(text)) as [[string, string]];
    const answer = await hook(albMultiValue({ multiValueHeaders: { [header]: [value] }, body: text }));
    expect(answer).toMatchObject({ statusCode: 200, multiValueHeaders: { 'Cache-Control': ['no-store'] } });
  });

  it('takes a body as large as Lambda does', async () => {
    const { send } = endpoint(untouched, time, { fetch: () => paid });
    expect((await send({ ...eventOf(), padding: 'x'.repeat(5_900_000) })).statusCode).toBe(200);
  });

  it('is a handler for Middy, whose hooks see its answers', async () => {
    const { hook } = endpoint(untouched, time, { fetch: () => paid });
    const handler = middy()
      .use(httpCors({ origin: 'https://pay.example' }))
      .handler(hook);
    const body = JSON.stringify(eventOf());
    const context = { getRemainingTimeInMillis: () => 5_000 } as never;
    const good = await handler(httpApi({ headers: signed(body), body }), context);
    expect(good).toMatchObject({
      statusCode: 200,
      headers: { 'Access-Control-Allow-Origin': 'https://pay.example' },
    });
    const bad = await handler(httpApi({ body }), context);
    expect(bad).toMatchObject({ statusCode: 400 });
  });

  it('says that it takes HTTP requests, when it is invoked with something else', async () => {
    const { hook } = endpoint(untouched, time, { fetch: () => paid });
    await expect(hook({ Records: [{ eventSource: 'aws:sqs' }] })).rejects.toThrow(UnsupportedEvent);
  });

  it('is not made with options that cannot be right', () => {
    const good = {
      ledger: untouched,
      verify: () => true,
      subject: () => undefined,
      fetch: () => paid,
    };
    const made = (options: object) => () => webhook({ ...good, ...options } as never);
    expect(made({})).not.toThrow();
    for (const [options, why] of [
      [{ ledger: {} }, /needs ledger/],
      [{ verify: undefined }, /needs verify, a function, as in verify: stripeSignature/],
      [{ subject: 'ref' }, /needs subject, a function, .*; received a string/],
      [{ fetch: undefined }, /neither fetch nor a resolver/],
      [{ fetch: undefined, operations: { a: { onUnknown: 'park' } } }, /neither fetch nor a resolver/],
      [{ fetch: 'pi' }, /The option fetch is "pi"; expected a function/],
      [{ event: 1 }, /The option event is 1/],
      [{ name: '' }, /name is ""; expected a text of 1 to 64 characters/],
      [{ name: 'n'.repeat(65) }, /expected a text of 1 to 64/],
      [{ types: [] }, /at least one; leave it out to take all/],
      [{ types: [1] }, /types is a list of event types/],
      [{ types: 'paid' }, /The option types is "paid"/],
      [{ type: ['paid'] }, /has no option type\. Did you mean types\?/],
    ] as const) {
      expect(made(options), String(why)).toThrow(InvalidArgument);
      expect(made(options)).toThrow(why);
    }
    const resolver = () => paid;
    expect(made({ fetch: undefined, resolver })).not.toThrow();
    expect(made({ fetch: undefined, operations: { a: { resolver } } })).not.toThrow();
    expect(() => webhook(undefined as never)).toThrow(/takes an object of options/);
  });
});
