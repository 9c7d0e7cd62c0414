/** How often each size is measured, in turns; the fastest counts, because a busy machine only ever adds time. */
const ROUNDS = 7;

/** What takes less than this is over before it could grow. */
const NOTHING_MS = 10;

/**
 * How many times as long eight times the input takes: 8 if it grows with its length, 64 with the square of it. A ratio of
 * two measurements in one run, so it says the same on a slow machine.
 */
export function growthOfEightfold(run: (size: number) => unknown, size: number): number {
  let [small, large] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let round = 0; round < ROUNDS; round += 1) {
    small = Math.min(small, timeOf(run, size / 8));
    large = Math.min(large, timeOf(run, size));
  }
  return large < NOTHING_MS ? 1 : large / Math.max(small, NOTHING_MS / 8);
}

function timeOf(run: (size: number) => unknown, size: number): number {
  const started = performance.now();
  run(size);
  return performance.now() - started;
}

/** Nearer to the square than to the length: caches and collections make long texts dearer than short ones. */
export const LINEAR_MAX = 40;
