/** How often each size is measured; the fastest counts, because a busy machine only ever adds time. */
const ROUNDS = 3;

/** What takes less than this is over before it could grow. */
const NOTHING_MS = 5;

/**
 * How many times as long eight times the input takes: 8 if it grows with its length, 64 with the square of it. A ratio of
 * two measurements in one run, so it says the same on a slow machine.
 */
export function growthOfEightfold(run: (size: number) => unknown, size: number): number {
  const [small, large] = [size / 8, size].map((each) => {
    const times = Array.from({ length: ROUNDS }, () => {
      const started = performance.now();
      run(each);
      return performance.now() - started;
    });
    return Math.min(...times);
  }) as [number, number];
  return large < NOTHING_MS ? 1 : large / Math.max(small, NOTHING_MS / 8);
}

/** Between the two, and nearer to neither. */
export const LINEAR_MAX = 24;
