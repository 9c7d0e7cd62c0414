import { describe, expect, it } from 'vitest';
import { handler as health } from '../../lambdas/health/index.ts';
import manifest from '../../package.json' with { type: 'json' };
import { ORDER, onBothLedgers, toldIn } from './stage.ts';

describe('what a caller may see', () => {
  onBothLedgers((stage) => {
    it.each(['/payments', '/orders', '/transfers'])(
      'of %s is its own, and another finds nothing',
      async (path) => {
        const { post, get, status } = stage();
        const { body } = await post(path, { key: 'k-1', body: ORDER, tenant: 'shop-7' });
        expect((await get(`${path}/${body.id}`, 'shop-7')).body).toMatchObject({ id: body.id, ...ORDER });
        const another = await get(`${path}/${body.id}`, 'shop-8');
        expect([another.status, another.body.code]).toEqual([404, 'not_found']);
        expect(another.text).toBe((await get(`${path}/none`, 'shop-7')).text);

        expect((await status(`POST ${path}`, 'k-1', 'shop-7')).status).toBe(200);
        expect((await status(`POST ${path}`, 'k-1', 'shop-8')).status).toBe(404);
      },
    );

    it('is asked for by its own kind', async () => {
      const { post, get } = stage();
      const { body } = await post('/orders', { key: 'k-1', body: ORDER });
      expect((await get(`/payments/${body.id}`)).status).toBe(404);
      expect((await get(`/orders/${body.receipt}`)).status).toBe(404);
    });

    it('does not depend on what a tenant is called', async () => {
      const { post, get } = stage();
      const { body } = await post('/orders', { key: 'k-1', body: ORDER, tenant: 'a","b' });
      expect((await get(`/orders/${body.id}`, 'a","b')).status).toBe(200);
      expect((await get(`/orders/b","${body.id}`, 'a')).status).toBe(404);
    });

    it('uses the same key of two tenants for two operations', async () => {
      const { post, stripe } = stage();
      await post('/transfers', { key: 'k-1', body: ORDER, tenant: 'shop-7' });
      await post('/transfers', { key: 'k-1', body: ORDER, tenant: 'shop-8' });
      expect(stripe.charged()).toHaveLength(2);
    });

    it('is nothing under an id that is longer than a key may be', async () => {
      expect((await stage().get(`/orders/${'x'.repeat(3_000)}`)).status).toBe(404);
    });

    it('is refused to a request without a tenant', async () => {
      await expect(stage().get('/orders/ord_1', ' ')).rejects.toThrow('TENANT_CLAIM');
    });
  });
});

describe('GET /health', () => {
  it('says which version has started, and asks no store', async () => {
    const told = toldIn(await health());
    expect(told.body).toEqual({ status: 'ok', version: manifest.version });
  });
});
