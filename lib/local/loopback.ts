import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** This machine only: what runs here asks nobody for a password. */
const HOST = '127.0.0.1';

/** Where a server listens from now on; 0 is any port that is free. Rejects with what Node says where it cannot. */
export async function listening(server: Server, port: number): Promise<{ port: number; url: string }> {
  server.listen(port, HOST);
  await once(server, 'listening');
  const { port: chosen } = server.address() as AddressInfo;
  return { port: chosen, url: `http://${HOST}:${chosen}` };
}

/** Ends a server with all that is connected to it: whoever still waits is not answered. */
export async function closed(server: Server): Promise<void> {
  const gone = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await gone;
}
