import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { lineOf, startChild } from '../../support/children.ts';
import { API_KEY, chargeOnce, openStage, plain } from './stage.ts';

const PROCESS = new URL('./provider-process.ts', import.meta.url);
const CLIENTS = 24;
/** Of the answers after which the process is killed. */
const KILLED_AFTER = [1, 40, 250];

/** Charges under ever new keys until nobody answers; a key that got no answer is the last. */
async function chargeUntilDeath(url: string, name: string, onAnswer: () => void) {
  const answered: { readonly key: string; readonly id: string; readonly text: string }[] = [];
  for (let index = 0; ; index += 1) {
    const key = `${name}-${index}`;
    const answer = await chargeOnce({ url } as never, key).catch(() => undefined);
    if (!answer) return { answered, unanswered: key };
    expect(answer.status).toBe(200);
    answered.push({ key, id: answer.body.id, text: answer.text });
    onAnswer();
  }
}

describe('a provider that is killed under load', () => {
  it('has every charge that it answered, once, and none that nobody asked for', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'oncekey-provider-'));
    const answered: { readonly key: string; readonly id: string; readonly text: string }[] = [];
    const unanswered: string[] = [];
    for (const [run, count] of KILLED_AFTER.entries()) {
      const child = startChild(PROCESS, { folder, apiKey: API_KEY });
      const url = await lineOf(child);
      let answers = 0;
      const onAnswer = () => {
        answers += 1;
        if (answers === count) child.kill('SIGKILL');
      };
      const clients = Array.from({ length: CLIENTS }, (_, client) =>
        chargeUntilDeath(url, `run-${run}-${client}`, onAnswer),
      );
      const exited = once(child, 'exit');
      for (const ended of await Promise.all(clients)) {
        answered.push(...ended.answered);
        unanswered.push(ended.unanswered);
      }
      expect((await exited)[1]).toBe('SIGKILL');
    }

    // It runs again, on a clock of its own: the process was on the real one.
    const { simulator } = await openStage({ folder, clock: Date.now });
    const charged = simulator.charges();
    const keys = charged.map(({ idempotencyKey }) => idempotencyKey ?? 'none');
    expect(new Set(keys).size).toBe(keys.length);
    expect(new Set(charged.map(({ id }) => id)).size).toBe(charged.length);
    const byKey = new Map(charged.map(({ idempotencyKey, id }) => [idempotencyKey, id]));
    for (const { key, id } of answered) expect([key, byKey.get(key)]).toEqual([key, id]);
    const asked = new Set([...answered.map(({ key }) => key), ...unanswered]);
    expect(keys.filter((key) => !asked.has(key))).toEqual([]);
    expect(answered.length).toBeGreaterThanOrEqual(KILLED_AFTER.reduce((sum, count) => sum + count, 0));

    // Whoever got no answer asks again, and is charged once in all; whoever got one is told the same.
    for (const key of unanswered) expect((await chargeOnce(simulator, key)).status).toBe(200);
    for (const { key, text } of answered.slice(-50))
      expect((await chargeOnce(simulator, key)).text).toBe(text);
    const after = simulator.charges().map(({ idempotencyKey }) => idempotencyKey ?? 'none');
    expect(after.toSorted()).toEqual([...asked].toSorted());
    for (const { id } of answered.slice(-50)) {
      expect((await plain(simulator, `/v1/payment_intents/${id}`)).body.status).toBe('succeeded');
    }
    await simulator.close();
    rmSync(folder, { recursive: true });
  });
});
