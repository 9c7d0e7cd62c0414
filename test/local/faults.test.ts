import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InvalidFault, LATENCY_MAX_MS, parseFaults } from '../../lib/local/faults.ts';

const MODES = ['none', 'slow', 'lost'] as const;

describe('what somebody asks to go wrong', () => {
  it.each([
    [{ mode: 'none' }, { mode: 'none', probability: 1 }],
    [
      { mode: 'slow', probability: 0 },
      { mode: 'slow', probability: 0 },
    ],
    [
      { mode: 'lost', probability: 0.25, latencyMs: 0 },
      { mode: 'lost', probability: 0.25, latencyMs: 0 },
    ],
    [
      { mode: 'slow', latencyMs: LATENCY_MAX_MS },
      { mode: 'slow', probability: 1, latencyMs: LATENCY_MAX_MS },
    ],
  ])('%j is read as %j', (value, faults) => {
    expect(parseFaults(MODES, value)).toEqual(faults);
  });

  const allowed = 'expected one of none, slow, lost. Nothing was changed.';
  it.each([
    [undefined, 'The faults are not given; expected an object'],
    [null, 'The faults are null; expected an object'],
    [['slow'], 'The faults are ["slow"]; expected an object'],
    [
      'slow',
      'The faults are "slow"; expected an object such as {"mode":"none"}, with mode, probability, latencyMs.',
    ],
    [{}, `mode is not given; ${allowed}`],
    [{ mode: 'Slow' }, `mode is "Slow"; ${allowed}`],
    [{ mode: 'toString' }, `mode is "toString"; ${allowed}`],
    [{ mode: ['slow'] }, `mode is ["slow"]; ${allowed}`],
    [{ mode: 'x'.repeat(1_000) }, `mode is "${'x'.repeat(79)}…; ${allowed}`],
    [
      { mode: 'slow', probability: 1.5 },
      'probability is 1.5; expected a number from 0 to 1. Nothing was changed.',
    ],
    [{ mode: 'slow', probability: -0.1 }, 'probability is -0.1; expected a number from 0 to 1.'],
    [{ mode: 'slow', probability: Number.NaN }, 'probability is NaN; expected a number from 0 to 1.'],
    [{ mode: 'slow', probability: '0.5' }, 'probability is "0.5"; expected a number from 0 to 1.'],
    [{ mode: 'slow', probability: null }, 'probability is null; expected a number from 0 to 1.'],
    [{ mode: 'slow', latencyMs: -1 }, 'latencyMs is -1; expected a number from 0 to 900000.'],
    [
      { mode: 'slow', latencyMs: Number.POSITIVE_INFINITY },
      'latencyMs is Infinity; expected a number from 0 to',
    ],
    [{ mode: 'slow', latencyMs: null }, 'latencyMs is null; expected a number from 0 to 900000.'],
    [
      { mode: 'slow', latency: 5 },
      'Faults have no "latency"; what can be set is mode, probability, latencyMs.',
    ],
  ])('%j is refused with what is allowed', (value, sentence) => {
    const refused = () => parseFaults(MODES, value);
    expect(refused).toThrow(InvalidFault);
    expect(refused).toThrow(sentence);
  });

  it('is either read or refused with a sentence, whatever it is', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.anything(), fc.record({ mode: fc.anything(), probability: fc.anything() })),
        (value) => {
          try {
            const { mode, probability, latencyMs = 0 } = parseFaults(MODES, value);
            expect(MODES).toContain(mode);
            expect(
              probability >= 0 && probability <= 1 && latencyMs >= 0 && latencyMs <= LATENCY_MAX_MS,
            ).toBe(true);
          } catch (error) {
            expect(error).toBeInstanceOf(InvalidFault);
          }
        },
      ),
    );
  });
});
