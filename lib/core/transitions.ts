import type { Status } from './record.ts';

type Actor = 'request' | 'owner' | 'completer' | 'sweep' | 'dispatcher' | 'resolver' | 'webhook' | 'operator';

interface Transition {
  readonly move: string;
  readonly from: Status | 'none' | 'expired';
  readonly to: Status;
  readonly by: readonly Actor[];
  /** The condition its write carries, in words. `lib/ledger/dynamodb.ts` says it to DynamoDB. */
  readonly when: string;
}

const AS_READ = 'operationId and attempt as read';
const MINE = 'owner and attempt are mine';
const LAPSED = 'owner and attempt as read, lease passed by more than the skew';

/**
 * Every legal move. Nothing else changes a status, and nothing is ever deleted. Saving a step, noting a delivery and
 * putting a record where the sweep looks are writes too, under the same fences, but move nothing.
 */
export const transitions = [
  { move: 'reserve', from: 'none', to: 'in_progress', by: ['request'], when: 'no item' },
  {
    move: 'reserve',
    from: 'expired',
    to: 'in_progress',
    by: ['request'],
    when: 'terminal, past expiry by more than the skew, outbox delivered, readable version',
  },
  {
    move: 'retake',
    from: 'failed_retryable',
    to: 'in_progress',
    by: ['request'],
    when: 'owner and attempt as read, same fingerprint; new owner, attempt + 1',
  },
  {
    move: 'takeOver',
    from: 'in_progress',
    to: 'in_progress',
    by: ['request', 'completer'],
    when: `${LAPSED}; transactional, or steps by code that still has them; new owner, attempt + 1`,
  },
  {
    move: 'lapse',
    from: 'in_progress',
    to: 'unknown',
    by: ['request', 'sweep'],
    when: `${LAPSED}; the doubt still stands`,
  },
  {
    move: 'lapse',
    from: 'in_progress',
    to: 'failed_retryable',
    by: ['sweep'],
    when: `${LAPSED}; transactional`,
  },
  { move: 'complete', from: 'in_progress', to: 'completed', by: ['owner'], when: MINE },
  { move: 'accept', from: 'in_progress', to: 'accepted', by: ['owner'], when: MINE },
  {
    move: 'release',
    from: 'in_progress',
    to: 'failed_retryable',
    by: ['owner'],
    when: `${MINE}; no step began, no attempt was ever taken over`,
  },
  { move: 'markUnknown', from: 'in_progress', to: 'unknown', by: ['owner'], when: MINE },
  {
    move: 'handBack',
    from: 'in_progress',
    to: 'in_progress',
    by: ['owner'],
    when: `${MINE}; steps; the lease ends now`,
  },
  {
    move: 'completeLate',
    from: 'unknown',
    to: 'completed',
    by: ['owner'],
    when: `${MINE}; was never accepted`,
  },
  {
    move: 'settleAccepted',
    from: 'accepted',
    to: 'completed',
    by: ['dispatcher', 'operator'],
    when: AS_READ,
  },
  {
    move: 'settleAccepted',
    from: 'accepted',
    to: 'unknown',
    by: ['dispatcher'],
    when: `${AS_READ}; a claim it names still stands`,
  },
  {
    move: 'settle',
    from: 'unknown',
    to: 'completed',
    by: ['resolver', 'webhook', 'operator'],
    when: `${AS_READ}; not steps, or was accepted`,
  },
  {
    move: 'settle',
    from: 'unknown',
    to: 'failed_retryable',
    by: ['resolver', 'webhook', 'operator'],
    when: `${AS_READ}; was never accepted; not steps`,
  },
  {
    move: 'settle',
    from: 'unknown',
    to: 'accepted',
    by: ['resolver'],
    when: `${AS_READ}; was accepted; events as read; new owner, attempt + 1`,
  },
  {
    move: 'settle',
    from: 'unknown',
    to: 'in_progress',
    by: ['resolver'],
    when: `${AS_READ}; steps; was never accepted; a step it names is still open; lease ends now, new owner, attempt + 1`,
  },
  {
    move: 'attest',
    from: 'in_progress',
    to: 'completed',
    by: ['operator'],
    when: `${LAPSED}; operationId as read`,
  },
  {
    move: 'attest',
    from: 'failed_retryable',
    to: 'completed',
    by: ['operator'],
    when: `${AS_READ}; not expired`,
  },
  {
    move: 'deliver',
    from: 'completed',
    to: 'completed',
    by: ['dispatcher'],
    when: `${AS_READ}; its outbox was undelivered`,
  },
  {
    move: 'reopen',
    from: 'completed',
    to: 'failed_retryable',
    by: ['operator'],
    when: `${AS_READ}; the stored response is not 2xx, was never accepted, no step ran, outbox delivered`,
  },
  {
    move: 'erase',
    from: 'completed',
    to: 'completed',
    by: ['operator'],
    when: `${AS_READ}; outbox delivered, body still there; status, fingerprint and expiry stay`,
  },
] as const satisfies readonly Transition[];

export type Move = (typeof transitions)[number]['move'];

export function isLegal(move: Move, from: Transition['from'], to: Status): boolean {
  return transitions.some((known) => known.move === move && known.from === from && known.to === to);
}
