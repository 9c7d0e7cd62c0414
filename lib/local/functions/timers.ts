/** What happens later. A test lets it happen when it likes. */
export interface Timers {
  /** Returns what calls it off. */
  after(ms: number, act: () => void): () => void;
}

export const realTimers: Timers = {
  after(ms, act) {
    const timer = setTimeout(act, ms);
    return () => clearTimeout(timer);
  },
};
