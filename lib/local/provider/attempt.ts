import { DECLINED, type Fate, requireCard } from './cards.ts';
import { newEvent, type Outcome, type Scene, seconds, shownIntent } from './command.ts';
import type { Charge, Failure, Intent, UsedCard } from './records.ts';

export interface Confirming {
  readonly methodTypes?: readonly string[];
  /** The card's owner is not there: a card that wants to ask them is declined, with this code. */
  readonly asksNobody?: 'authentication_not_handled' | 'authentication_required';
}

type WithCard = Intent & { readonly card: UsedCard };

/** The one place where money moves. `intent` is the version that is about to be kept. */
export function attempt(scene: Scene, intent: WithCard, { asksNobody }: Confirming): Outcome {
  const fate = scene.declinesAll ? DECLINED : requireCard(intent.card.name).fate;
  switch (fate.kind) {
    case 'succeeds':
      return succeeded(scene, intent);
    case 'declined':
      return declined(scene, intent, fate);
    case 'asks':
      return asksNobody === undefined ? asked(intent) : unasked(scene, intent, asksNobody);
    default:
      return fate satisfies never;
  }
}

function succeeded(scene: Scene, intent: WithCard): Outcome {
  const charge = newCharge(scene, intent);
  const paid: Intent = { ...intent, status: 'succeeded', charge: charge.id };
  const shown = shownIntent(paid);
  const event = newEvent(scene, 'payment_intent.succeeded', shown);
  return { changes: { intent: paid, charge, event }, answer: { status: 200, shown } };
}

function declined(
  scene: Scene,
  intent: WithCard,
  { code, declineCode, message }: Extract<Fate, { kind: 'declined' }>,
): Outcome {
  const id = scene.newId('ch');
  const card = intent.card;
  const failure: Failure = { type: 'card_error', code, declineCode, message, charge: id, card };
  const charge = { ...newCharge(scene, intent), id, failure };
  return failed(scene, { ...intent, charge: id }, failure, charge);
}

function unasked(scene: Scene, intent: WithCard, declineCode: string): Outcome {
  return failed(scene, intent, {
    type: 'card_error',
    code: 'authentication_required',
    declineCode,
    message: 'Your card was declined. This transaction requires authentication.',
    card: intent.card,
  });
}

/** The intent stays, and waits for another card. */
function failed(scene: Scene, intent: WithCard, failure: Failure, charge?: Charge): Outcome {
  const { card: _, ...rest } = intent;
  const open: Intent = { ...rest, status: 'requires_payment_method', failure };
  const shown = shownIntent(open);
  const event = newEvent(scene, 'payment_intent.payment_failed', shown);
  return {
    changes: { intent: open, event, ...(charge && { charge }) },
    answer: { status: 402, shown, failure },
  };
}

function asked(intent: WithCard): Outcome {
  const asking: Intent = { ...intent, status: 'requires_action' };
  return { changes: { intent: asking }, answer: { status: 200, shown: shownIntent(asking) } };
}

function newCharge({ newId, now, idempotencyKey }: Scene, intent: WithCard): Charge {
  const { id, amount, currency, metadata, description, card } = intent;
  return {
    id: newId('ch'),
    ...{ version: 0, created: seconds(now), intent: id, amount, currency, metadata, card, amountRefunded: 0 },
    ...(description !== undefined && { description }),
    ...(idempotencyKey !== undefined && { idempotencyKey }),
  };
}
