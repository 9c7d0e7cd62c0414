import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { chargeOnce, openStage, sdk } from './stage.ts';

const KEYS = 2_000;
const CLIENTS = 50;
/** Every key is asked for so often, by different clients. */
const ASKED = 2;

describe('a provider under load', () => {
  it('counts every charge, once', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'oncekey-provider-'));
    const { simulator, reports } = await openStage({ folder });
    const waiting = Array.from({ length: KEYS * ASKED }, (_, index) => `key-${index % KEYS}`);
    const told = new Map<string, Set<string>>();

    async function client(): Promise<void> {
      for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
        let answer = await chargeOnce(simulator, key, `&metadata[order]=${key}`);
        while (answer.status === 409) answer = await chargeOnce(simulator, key, `&metadata[order]=${key}`);
        expect(answer.status).toBe(200);
        told.set(key, (told.get(key) ?? new Set()).add(answer.body.id));
      }
    }
    await Promise.all(Array.from({ length: CLIENTS }, client));

    const charges = simulator.charges();
    expect(charges).toHaveLength(KEYS);
    for (const { id, idempotencyKey = '', metadata } of charges) {
      expect([metadata['order'], [...(told.get(idempotencyKey) ?? [])]]).toEqual([idempotencyKey, [id]]);
    }
    let listed = 0;
    for await (const { id } of sdk(simulator).paymentIntents.list({ limit: 100 })) {
      expect(id).toBe(charges.at(-1 - listed)?.id);
      listed += 1;
    }
    expect(listed).toBe(KEYS);
    expect(reports.filter(({ level }) => level !== 'info')).toEqual([]);
    await simulator.close();
    const reopened = await openStage({ folder });
    expect(reopened.simulator.charges()).toEqual(charges);
    rmSync(folder, { recursive: true });
  });
});
