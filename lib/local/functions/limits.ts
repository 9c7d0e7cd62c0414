/** https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html: 6 MB each way where the invoker waits. */
export const EVENT_MAX_BYTES = 6_291_456;

/** A hundred bytes more, as Lambda's own message says. */
export const RESPONSE_MAX_BYTES = 6_291_556;

/** Where nobody waits. It was 256 KB until 2025. */
export const LATER_EVENT_MAX_BYTES = 1_048_576;
