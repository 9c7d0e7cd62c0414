import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { eventKey, stepKey } from '../../lib/core/downstream-key.ts';

const text = fc.string({ unit: 'binary', maxLength: 20 });
const index = fc.nat({ max: 200 });
/** Which effect of which operation. An index and a name may read the same. */
const effect = fc.oneof(
  fc.record({
    kind: fc.constant('step' as const),
    operationId: text,
    name: fc.oneof(text, index.map(String)),
  }),
  fc.record({ kind: fc.constant('event' as const), operationId: text, name: index.map(String) }),
);
type Effect = typeof effect extends fc.Arbitrary<infer E> ? E : never;

const keyOf = ({ kind, operationId, name }: Effect) =>
  kind === 'step' ? stepKey(operationId, name) : eventKey(operationId, Number(name));

describe('a downstream key', () => {
  it('is pinned, because a silent change would charge again what a provider already has', () => {
    expect(stepKey('operation-1', 'charge')).toBe('aaMv-cGRZsf9ukwWARQlm06w41JaEkbDcTtvA_Oko1I');
    expect(eventKey('operation-1', 0)).toBe('IRyfuXyM3fuAvAgjIDyiY_GEbpoBnnibZFpZ4VXGpOw');
  });

  it('is 43 characters that any header takes, and the same every time', () => {
    fc.assert(
      fc.property(effect, (one) => {
        expect(keyOf(one)).toMatch(/^[A-Za-z0-9_-]{43}$/);
        expect(keyOf({ ...one })).toBe(keyOf(one));
      }),
    );
  });

  it('is another for every other effect, step or event, of every other operation', () => {
    fc.assert(
      fc.property(effect, effect, (one, other) => {
        const same = JSON.stringify(one) === JSON.stringify(other);
        expect(keyOf(one) === keyOf(other)).toBe(same);
      }),
      { numRuns: 2_000 },
    );
  });

  it('of a step is not that of an event with the same name', () => {
    fc.assert(
      fc.property(text, index, (operationId, at) => {
        expect(stepKey(operationId, String(at))).not.toBe(eventKey(operationId, at));
      }),
    );
  });

  it('differs when text moves from the operation to the step', () => {
    fc.assert(
      fc.property(text, text, fc.string({ minLength: 1, maxLength: 5 }), (before, after, moved) => {
        expect(stepKey(before + moved, after)).not.toBe(stepKey(before, moved + after));
      }),
    );
  });
});
