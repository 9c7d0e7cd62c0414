/** What somebody who has just started it can do next: three commands, to be pasted as they are. */
export function tryThis(url: string): string {
  return `
Ready at ${url}. Try this in another terminal:

  # 1. A token for a tenant, from the local issuer
  TOKEN=$(curl -s ${url}/_local/token -d '{"tenant":"acme"}' | cut -d'"' -f4)

  # 2. A payment. Send it as often as you like: it is the same payment
  curl -i ${url}/payments -H "authorization: Bearer $TOKEN" \\
    -H 'content-type: application/json' -H 'idempotency-key: order-1842' \\
    -d '{"customerId":"c-7","amount":500,"currency":"EUR"}'

  # 3. What the payment provider has charged: once
  curl -s ${url}/_local/provider/charges

Ctrl-C ends it.
`;
}
