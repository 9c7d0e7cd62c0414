import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { idempotent, lambdaAuthorizer, NotExecuted, type OnceContext } from 'oncekey';
import { ledger } from './ledger.ts';

export const handler = idempotent(book, {
  ledger,
  tenant: lambdaAuthorizer('tenantId'),
  effects: 'opaque',
  onUnknown: 'park', // What may have been booked waits for a person; it is never booked again.
});

async function book(event: APIGatewayProxyEventV2, { once }: OnceContext<unknown>) {
  const answer = await askAirline(event.body ?? '', once);
  const body = await answer.text();
  if (answer.status === 201) return { statusCode: 201, body };
  if (answer.status === 409) return { statusCode: 409, body }; // The seat is taken: final, stored and replayed.
  // This airline documents that its 429 comes before it books. Only such knowledge allows to say so.
  if (answer.status === 429) throw new NotExecuted('the airline wants fewer requests');
  throw new Error(`the airline answered ${answer.status}`); // 408, 5xx: it may have booked.
}

async function askAirline(seat: string, { operationId, signal }: OnceContext<unknown>['once']) {
  try {
    return await fetch(`${process.env['AIRLINE_URL']}/bookings`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': operationId },
      body: seat,
      redirect: 'error', // Else a refused connection could be the second one, after the booking.
      signal, // Ends the call before the lease ends.
    });
  } catch (error) {
    if (wasRefused(error)) throw new NotExecuted('no connection was made', { cause: error });
    throw error; // Sent, and the answer was lost: it may have booked.
  }
}

function wasRefused(error: unknown): boolean {
  const { cause } = error as { cause?: { code?: unknown } };
  return cause?.code === 'ECONNREFUSED';
}
