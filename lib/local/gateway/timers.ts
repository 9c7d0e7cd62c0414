export interface Timers {
  /** Calls back once, after so long. What it returns calls that off. */
  after(ms: number, then: () => void): () => void;
}

export const systemTimers: Timers = {
  after(ms, then) {
    const timer = setTimeout(then, ms);
    return () => clearTimeout(timer);
  },
};
