import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { DynamoDBDocumentClient, QueryCommand } from '@aws-sdk/lib-dynamodb';
import { describe, expect, it } from 'vitest';
import { RecordUnreadable } from '../../lib/core/errors.ts';
import { limits } from '../../lib/core/limits.ts';
import type { DoneStep, InProgress, Undelivered } from '../../lib/core/record.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { BodySeals } from '../../lib/ledger/table.ts';
import {
  acceptedBy,
  claimOf,
  completedBy,
  execute,
  inProgress,
  movedRecord,
  outcomeAt,
  replyOf,
  START,
  unknownBy,
} from '../../lib/testing/contract/subject.ts';
import { useTable } from '../support/table.ts';

/** AES-256-GCM with the record's name as associated data, as a user would write it. */
function aesSeals(key: Uint8Array): BodySeals {
  return {
    seal(body, operationRef) {
      const nonce = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(operationRef));
      return Buffer.concat([nonce, cipher.update(body), cipher.final(), cipher.getAuthTag()]);
    },
    open(sealed, operationRef) {
      const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, 12));
      decipher.setAAD(Buffer.from(operationRef)).setAuthTag(sealed.subarray(-16));
      return Buffer.concat([decipher.update(sealed.subarray(12, -16)), decipher.final()]);
    },
  };
}

describe('sealed bodies', () => {
  const table = useTable();
  const clock = () => START;
  const seals = aesSeals(randomBytes(32));
  const sealed = dynamoDbLedger({ ...table, clock, seals });
  const plain = dynamoDbLedger({ ...table, clock });
  const secret = '{"card":"4242 4242 4242 4242"}';

  async function raw(pk: string): Promise<string> {
    const { Items = [] } = await DynamoDBDocumentClient.from(table.client).send(
      new QueryCommand({
        TableName: table.tableName,
        KeyConditionExpression: 'pk = :pk',
        ExpressionAttributeValues: { ':pk': pk },
      }),
    );
    const texts = Items.map((item) => JSON.stringify(item, (_, value) => asText(value)));
    return texts.join('\n');
  }

  const asText = (value: unknown) =>
    value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : value;

  it('are replayed byte for byte, inline and in chunks, and are not in the table', async () => {
    const large = { ...replyOf(''), body: randomBytes(3 * limits.inlineBodyMaxBytes), base64: true };
    for (const reply of [replyOf(secret), replyOf(secret.repeat(50)), replyOf(''), large]) {
      const done = await completedBy(sealed, await inProgress(sealed), { ...outcomeAt(START), reply });
      const replayed = await sealed.reply(done.pk, done.response);
      expect(Buffer.compare(replayed.body, reply.body)).toBe(0);
      expect(await raw(done.pk)).not.toContain('4242');
      expect(await sealed.read(done.pk)).toEqual(done);
    }
  });

  it('do not open for another record, with another key, or when changed', async () => {
    const one = await completedBy(sealed, await inProgress(sealed));
    const two = await inProgress(sealed);
    await expect(sealed.reply(two.pk, one.response)).rejects.toThrow(/its seal does not open/);
    const stranger = dynamoDbLedger({ ...table, clock, seals: aesSeals(randomBytes(32)) });
    await expect(stranger.reply(one.pk, one.response)).rejects.toThrow(RecordUnreadable);
    if (!('inline' in one.response.body)) throw new Error('expected an inline body');
    const changed = Uint8Array.from(one.response.body.inline);
    changed[20] = (changed[20] ?? 0) ^ 1;
    const response = { ...one.response, body: { inline: changed } };
    await expect(sealed.reply(one.pk, response)).rejects.toThrow(/its sealed form has been changed/);
  });

  it('say that they are sealed to a ledger that cannot open them', async () => {
    const done = await completedBy(sealed, await inProgress(sealed));
    await expect(plain.reply(done.pk, done.response)).rejects.toThrow(/given nothing to open it with/);
  });

  it('are the results of steps as well, short and long, of the owner and of a verdict', async () => {
    for (const text of [
      '',
      `"${secret}"`,
      secret.repeat(50),
      randomBytes(2_000).toString('base64') + secret,
    ]) {
      const mine = await inProgress(sealed, { effects: 'steps' });
      const saved = movedRecord<InProgress>(await sealed.saveStep(mine, 'charge', text, START));
      const intent = movedRecord<InProgress>(await sealed.openStep(saved, 'ship', START));
      const unknown = await unknownBy(sealed, intent);
      const step = { state: 'done', attempt: 1, at: START, result: text } as const;
      const resumed = movedRecord<InProgress>(
        await sealed.settle(unknown, {
          to: 'in_progress',
          step: { name: 'ship', step },
          owner: 'resolver',
          now: START,
          due: unknown.due,
        }),
      );
      expect(await sealed.read(mine.pk)).toEqual(resumed);
      expect(await raw(mine.pk)).not.toContain('4242');
      for (const name of ['charge', 'ship']) {
        const done = resumed.steps.get(name) as DoneStep;
        expect(await sealed.stepResult(mine.pk, done)).toBe(text);
        await expect(plain.stepResult(mine.pk, done)).rejects.toThrow(/given nothing to open it with/);
        await expect(sealed.stepResult('another', done)).rejects.toThrow(RecordUnreadable);
      }
    }
  });

  it('are the requests that are kept as well', async () => {
    for (const text of [secret, secret.repeat(50)]) {
      const request = { function: 'payments', event: new Uint8Array(Buffer.from(text)) };
      const mine = movedRecord<InProgress>(await sealed.reserve({ ...claimOf(), request }, execute));
      expect(await sealed.read(mine.pk)).toEqual(mine);
      expect(await raw(mine.pk)).not.toContain('4242');
      expect(await sealed.request(mine)).toEqual(request);
      await expect(plain.request(mine)).rejects.toThrow(/given nothing to open it with/);
      await expect(sealed.request({ ...mine, pk: 'another' })).rejects.toThrow(RecordUnreadable);
    }
  });

  it('are the answers of deliveries as well', async () => {
    const accepted = await acceptedBy(sealed, await inProgress(sealed));
    const note = { to: 'done', at: START, reply: replyOf(secret) } as const;
    const noted = movedRecord<Undelivered>(await sealed.noteDelivery(accepted, 0, note));
    const delivery = noted.status === 'accepted' ? noted.accepted.outbox[0].delivery : undefined;
    if (delivery?.state !== 'done' || !delivery.response) throw new Error('expected a response');
    expect(await raw(noted.pk)).not.toContain('4242');
    expect(await sealed.reply(noted.pk, delivery.response)).toEqual(replyOf(secret));
  });

  it('leave what was stored before them readable', async () => {
    const done = await completedBy(plain, await inProgress(plain));
    expect(await sealed.reply(done.pk, done.response)).toEqual(outcomeAt(START).reply);
    const request = { function: 'payments', event: new Uint8Array([1, 2, 3]) };
    const claim = { ...claimOf({ effects: 'steps' }), request };
    const mine = movedRecord<InProgress>(await plain.reserve(claim, execute));
    const saved = movedRecord<InProgress>(await plain.saveStep(mine, 'charge', '"ch_1"', START));
    expect(await sealed.stepResult(mine.pk, saved.steps.get('charge') as DoneStep)).toBe('"ch_1"');
    expect(await sealed.request(saved)).toEqual(request);
  });
});
