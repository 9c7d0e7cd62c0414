import { describe, expect, it } from 'vitest';
import { ORDER, onBothLedgers } from './stage.ts';

describe('a request for a charge', () => {
  onBothLedgers((stage) => {
    it.each(['/payments', '/orders', '/transfers'])(
      'to %s is told all its faults at once, and uses no key up',
      async (path) => {
        const { post, stripe, status } = stage();
        const body = { customerId: ' ', amount: 12.5, currency: 'eur', colour: 'red', paymentMethod: 'visa' };
        const refused = await post(path, { key: 'k-1', body });
        expect(refused.status).toBe(400);
        expect(refused.body.code).toBe('validation_failed');
        const pointers = refused.body.errors.map(({ pointer }: { pointer: string }) => pointer);
        expect(pointers.sort()).toEqual([
          '#/amount',
          '#/colour',
          '#/currency',
          '#/customerId',
          '#/paymentMethod',
        ]);
        expect((await status(`POST ${path}`, 'k-1')).status).toBe(404);
        expect(stripe.requests).toEqual([]);
        expect((await post(path, { key: 'k-1', body: ORDER })).status).toBeLessThan(300);
      },
    );
  });
});

describe('the body of a charge', () => {
  onBothLedgers((stage) => {
    it.each([
      ['no body', '', ['#']],
      ['no object', '[1]', ['#']],
      ['nothing', '{}', ['#/amount', '#/currency', '#/customerId']],
      ['no money', { ...ORDER, amount: 0 }, ['#/amount']],
      ['more than Stripe takes', { ...ORDER, amount: 100_000_000 }, ['#/amount']],
      ['a number in quotes', { ...ORDER, amount: '5' }, ['#/amount']],
      ['a currency that is none', { ...ORDER, currency: 'QQQ' }, ['#/currency']],
      ['a customer of two lines', { ...ORDER, customerId: 'a\nb' }, ['#/customerId']],
      ['half a character', '{"customerId":"\\ud800","amount":1,"currency":"EUR"}', ['#/customerId']],
      ['too much to say', { ...ORDER, description: 'x'.repeat(201) }, ['#/description']],
      ['a long customer', { ...ORDER, customerId: 'x'.repeat(65) }, ['#/customerId']],
      ['a long reference', { ...ORDER, reference: 'x'.repeat(65) }, ['#/reference']],
      ['a long payment method', { ...ORDER, paymentMethod: `pm_${'x'.repeat(65)}` }, ['#/paymentMethod']],
      ['a payment method with more in it', { ...ORDER, paymentMethod: 'pm_a&b=c' }, ['#/paymentMethod']],
      [
        'what every object has',
        '{"customerId":"a","amount":1,"currency":"EUR","constructor":1}',
        ['#/constructor'],
      ],
    ])('is refused with %s', async (_, body, pointers) => {
      const refused = await stage().post('/transfers', { key: 'k-1', body });
      expect(refused.status).toBe(400);
      expect(refused.body.errors.map(({ pointer }: { pointer: string }) => pointer).sort()).toEqual(pointers);
    });

    it('may have what Stripe takes at the most, in any currency of the list', async () => {
      const body = { customerId: 'c', amount: 99_999_999, currency: 'JPY', description: 'ä'.repeat(200) };
      expect((await stage().post('/transfers', { key: 'k-1', body })).status).toBe(201);
    });

    it('may come in base64, as API Gateway sends what it takes for binary', async () => {
      const body = Buffer.from(JSON.stringify({ ...ORDER, reference: 'ü' })).toString('base64');
      const paid = await stage().post('/transfers', { key: 'k-1', body, isBase64Encoded: true });
      expect([paid.status, paid.body.reference]).toEqual([201, 'ü']);
    });

    it('is answered briefly however many fields nobody knows', async () => {
      const strange = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`f${index}`, 1]));
      const refused = await stage().post('/transfers', { key: 'k-1', body: { ...ORDER, ...strange } });
      expect(refused.body.errors).toHaveLength(21);
      expect(refused.body.errors.at(-1).detail).toContain('4980 more');
    });
  });
});
