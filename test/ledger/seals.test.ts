import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { DynamoDBDocumentClient, QueryCommand } from '@aws-sdk/lib-dynamodb';
import { describe, expect, it } from 'vitest';
import { RecordUnreadable } from '../../lib/core/errors.ts';
import { limits } from '../../lib/core/limits.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { BodySeals } from '../../lib/ledger/table.ts';
import { completedBy, inProgress, outcomeAt, replyOf, START } from '../../lib/testing/contract/subject.ts';
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

  it('leave what was stored before them readable', async () => {
    const done = await completedBy(plain, await inProgress(plain));
    expect(await sealed.reply(done.pk, done.response)).toEqual(outcomeAt(START).reply);
  });
});
