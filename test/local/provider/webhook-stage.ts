import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export interface Delivery {
  readonly body: string;
  readonly signature: string;
  readonly contentType: string | undefined;
  readonly event: { readonly id: string; readonly type: string };
}

/** Where webhooks go in a test. It answers with the statuses that are waiting, and 200 after those. */
export async function webhookEndpoint() {
  const deliveries: Delivery[] = [];
  /** 0: never answers. */
  const statuses: number[] = [];
  const server = createServer(async (request, response) => {
    const body = (await buffer(request)).toString('utf8');
    const { 'stripe-signature': signature = '', 'content-type': contentType } = request.headers;
    deliveries.push({ body, signature: String(signature), contentType, event: JSON.parse(body) });
    const status = statuses.shift() ?? 200;
    if (status === 0) return;
    response.writeHead(status, status === 302 ? { location: '/elsewhere' } : {}).end('received');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    ...{ deliveries, statuses },
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks/stripe`,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
