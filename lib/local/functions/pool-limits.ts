export interface FleetLimits {
  /** Environments of one function. */
  readonly maxEnvironments: number;
  /** Requests of one function that wait for an environment which is not even starting. */
  readonly maxWaiting: number;
  /** How long one waits. */
  readonly waitMs: number;
  readonly initMs: number;
  /** An environment that nobody has used for so long is ended. */
  readonly idleMs: number;
}

export interface PoolLimits extends FleetLimits {
  /** Of all functions together; but each may always have one. */
  readonly maxProcesses: number;
}

/**
 * Lambda throttles at once when a function has all its environments, which are a thousand. Here they are few, and they
 * start the slower the busier the machine is: a burst that Lambda would not notice would be turned away. So a request
 * waits for an environment; what is too many even for that, or waits too long, is throttled as Lambda throttles.
 */
export const defaultLimits: PoolLimits = {
  // A process has some 70 MB, and a developer's machine a few cores: ten already do more than the cores can.
  maxEnvironments: 10,
  maxProcesses: 32,
  // Ten for each environment.
  maxWaiting: 100,
  // An HTTP API answers its client after 30 seconds, whatever becomes of the function: nobody waits longer.
  waitMs: 30_000,
  // https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html
  initMs: 10_000,
  // Lambda says no number. Long enough to read a log and try again with a warm one.
  idleMs: 10 * 60_000,
};
