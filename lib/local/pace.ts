/**
 * What `--fast` tells the functions. A killed request is settled within half a minute: its lease is the 6 seconds that a
 * function then has, and the margin of 5; a look comes every second, and what the provider may still do is waited for no
 * longer than its client waits. Nothing is skipped, and each number keeps its order to the others.
 */
export const fastPace = {
  /** Of functions behind the API: their leases follow from it. */
  timeoutMsMax: 6_000,
  environment: {
    PROVIDER_TIMEOUT_MS: '3000',
    SETTLING_MS: '4000',
    RECONCILE_BASE_MS: '1000',
    RECONCILE_CAP_MS: '4000',
  },
} as const;
