import { type Faults, parseFaults } from '../faults.ts';

/**
 * What goes wrong with a request that tries to take money. All but `slow` leave everything else alone: reads, refunds, and
 * answers that are repeated under their key.
 */
export const FAULT_MODES = [
  'none',
  /** It charges, and never answers. */
  'timeout-after-charge',
  /** It never charges, and never answers. The key stays unused. */
  'timeout-before-charge',
  /**
   * It charges, and then answers 500, which stays the answer under the key. After, not before: of the two this is the one that
   * costs somebody money if the 500 is read as "nothing happened".
   */
  'error',
  /** The card is declined, whichever it is. */
  'decline',
  /** It answers late, and so does everything else. While it is under way, its key is in use. */
  'slow',
] as const;

export type FaultMode = (typeof FAULT_MODES)[number];

/** How late an answer is; of the timeouts, how long the connection is held if the client does not give up before. */
const LATENCY_MS: Readonly<Record<FaultMode, number>> = {
  none: 0,
  /** Longer than any function here lives, and than Stripe's own client waits (80 s). */
  'timeout-after-charge': 120_000,
  'timeout-before-charge': 120_000,
  error: 0,
  decline: 0,
  /** Enough to overlap with a retry. */
  slow: 2_000,
};

export interface Fault {
  readonly mode: FaultMode;
  readonly latencyMs: number;
}

export interface FaultSwitch {
  /** Takes what a person or a control plane sends; throws `InvalidFault` and changes nothing if it makes no sense. */
  set(faults: unknown): Faults<FaultMode>;
  current(): Faults<FaultMode>;
  /** What happens to one request. */
  draw(): Fault;
}

export const NO_FAULT: Fault = { mode: 'none', latencyMs: 0 };

export function faultSwitch(random: () => number): FaultSwitch {
  let current: Faults<FaultMode> = { mode: 'none', probability: 1 };
  return {
    set(faults) {
      current = parseFaults(FAULT_MODES, faults);
      return current;
    },
    current: () => current,
    draw() {
      const { mode, probability, latencyMs = LATENCY_MS[mode] } = current;
      return mode === 'none' || random() >= probability ? NO_FAULT : { mode, latencyMs };
    },
  };
}
