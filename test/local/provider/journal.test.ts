import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { JournalUnreadable } from '../../../lib/local/provider/journal.ts';
import { seededRandom } from '../../support/random.ts';
import { CHARGE, chargeOnce, errorOf, HOUR_MS, openStage, plain, sdk } from './stage.ts';

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true });
});

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'oncekey-provider-'));
  folders.push(folder);
  return folder;
}

const fileIn = (folder: string) => join(folder, 'provider.jsonl');

/** Everything that can be read over the API. */
async function everything(simulator: Awaited<ReturnType<typeof openStage>>['simulator']) {
  const paths = ['payment_intents', 'charges', 'refunds', 'events'];
  const lists = paths.map(async (path) => (await plain(simulator, `/v1/${path}?limit=100`)).text);
  return { lists: await Promise.all(lists), charges: simulator.charges(), intents: simulator.intents() };
}

describe('the journal', () => {
  it('brings everything back after a restart: objects, refunds, events and answers under their keys', async () => {
    const folder = newFolder();
    const first = await openStage({ folder });
    const stripe = sdk(first.simulator);
    const answered = [await chargeOnce(first.simulator, 'key-1'), await chargeOnce(first.simulator, 'key-2')];
    await stripe.refunds.create(
      { payment_intent: answered[0]?.body.id, amount: 5 },
      { idempotencyKey: 'key-3' },
    );
    const made = await stripe.paymentIntents.create({ ...CHARGE, confirm: false });
    await errorOf(stripe.paymentIntents.confirm(made.id, { payment_method: 'pm_card_chargeDeclined' }));
    await stripe.paymentIntents.cancel(made.id);
    first.simulator.faults.set({ mode: 'error' });
    answered.push(await chargeOnce(first.simulator, 'key-4'));
    const before = await everything(first.simulator);
    await first.simulator.close();

    const { simulator } = await openStage({ folder });
    expect(await everything(simulator)).toEqual(before);
    for (const [index, key] of ['key-1', 'key-2', 'key-4'].entries()) {
      const again = await chargeOnce(simulator, key);
      expect([again.status, again.text]).toEqual([answered[index]?.status, answered[index]?.text]);
      expect(again.headers.get('idempotent-replayed')).toBe('true');
      expect(again.headers.get('original-request')).toBe(answered[index]?.headers.get('request-id'));
    }
    expect((await chargeOnce(simulator, 'key-1', '&metadata[a]=1')).body.error.type).toBe(
      'idempotency_error',
    );
    expect(await everything(simulator)).toEqual(before);
  });

  it('makes no id again after a restart, though the random source is seeded alike', async () => {
    const folder = newFolder();
    const seen = new Set<string>();
    for (let run = 1; run <= 3; run += 1) {
      const { simulator } = await openStage({ folder, random: seededRandom(1) });
      for (const key of ['a', 'b']) seen.add((await chargeOnce(simulator, `${key}-${run}`)).body.id);
      await simulator.close();
    }
    expect(seen.size).toBe(6);
  });

  it('forgets keys after a day, also those from before a restart', async () => {
    const folder = newFolder();
    const first = await openStage({ folder });
    await chargeOnce(first.simulator, 'key-1');
    await first.simulator.close();
    const { simulator, time } = await openStage({ folder });
    time.now += 24 * HOUR_MS;
    expect((await chargeOnce(simulator, 'key-1')).headers.get('idempotent-replayed')).toBeNull();
    expect(simulator.charges()).toHaveLength(2);
  });

  it('cuts off a last line that was not written whole, wherever it ends, and goes on', async () => {
    const folder = newFolder();
    const first = await openStage({ folder });
    await chargeOnce(first.simulator, 'key-1');
    await first.simulator.close();
    const whole = readFileSync(fileIn(folder));
    for (const cut of [1, 2, 100, whole.length - 1, whole.length]) {
      writeFileSync(fileIn(folder), Buffer.concat([whole, whole]));
      truncateSync(fileIn(folder), 2 * whole.length - cut);
      const { simulator } = await openStage({ folder });
      expect(simulator.charges()).toHaveLength(1);
      await chargeOnce(simulator, 'key-2');
      await simulator.close();
      const reopened = await openStage({ folder });
      expect(reopened.simulator.charges().map(({ idempotencyKey }) => idempotencyKey)).toEqual([
        'key-1',
        'key-2',
      ]);
      await reopened.simulator.close();
    }
  });

  it.each([
    ['a line that is no JSON', (line: string) => `{"v":1,"n":1\n${line}`, 'Line 1'],
    ['a line twice', (line: string) => `${line}${line}`, 'Line 2'],
    ['a line too few', (line: string) => line.replace('"n":1', '"n":2'), 'Line 1'],
    ['another format', (line: string) => line.replace('"v":1', '"v":2'), 'format'],
    ['a field that means nothing', (line: string) => line.replace('"n":1', '"n":1,"x":1'), '"x"'],
    ['no object', () => '7\n', 'Line 1'],
    ['an empty line', (line: string) => `\n${line}`, 'Line 1'],
    ['a version too many', (line: string) => line.replace('"version":0', '"version":1'), 'version'],
  ])('with %s is refused, and left as it is', async (_, damage, message) => {
    const folder = newFolder();
    const { simulator } = await openStage({ folder });
    await chargeOnce(simulator, 'key-1');
    await simulator.close();
    const damaged = damage(readFileSync(fileIn(folder), 'utf8'));
    writeFileSync(fileIn(folder), damaged);
    const opening = openStage({ folder });
    await expect(opening).rejects.toThrow(JournalUnreadable);
    await expect(opening).rejects.toThrow(message);
    expect(readFileSync(fileIn(folder), 'utf8')).toBe(damaged);
  });

  it('that somebody else writes to ends everything, because nobody could count any more', async () => {
    const folder = newFolder();
    const { simulator, reports } = await openStage({ folder });
    await chargeOnce(simulator, 'key-1');
    appendFileSync(fileIn(folder), 'x');
    expect((await chargeOnce(simulator, 'key-2')).status).toBe(500);
    expect((await plain(simulator, '/v1/payment_intents')).status).toBe(500);
    expect((await chargeOnce(simulator, 'key-1')).status).toBe(500);
    expect(() => simulator.charges()).toThrow('cannot be told');
    const errors = reports.filter(({ level }) => level === 'error');
    expect(errors.map(({ message }) => message)).toEqual([
      expect.stringContaining('another payment provider'),
    ]);
  });

  it('is empty after a reset, also after a restart', async () => {
    const folder = newFolder();
    const { simulator } = await openStage({ folder });
    const before = await chargeOnce(simulator, 'key-1');
    await simulator.reset();
    expect([simulator.charges(), simulator.intents()]).toEqual([[], []]);
    expect((await plain(simulator, `/v1/payment_intents/${before.body.id}`)).status).toBe(404);
    const after = await chargeOnce(simulator, 'key-1');
    expect([after.status, after.headers.get('idempotent-replayed')]).toEqual([200, null]);
    await simulator.close();
    const reopened = await openStage({ folder });
    expect(reopened.simulator.charges().map(({ id }) => id)).toEqual([after.body.id]);
  });

  it('on a port that is taken says so, and lets go of the folder', async () => {
    const folder = newFolder();
    const { simulator } = await openStage();
    const port = Number(new URL(simulator.url).port);
    await expect(openStage({ folder, port })).rejects.toThrow(`port ${port}`);
    const other = await openStage({ folder });
    expect((await chargeOnce(other.simulator, 'key-1')).status).toBe(200);
  });
});
