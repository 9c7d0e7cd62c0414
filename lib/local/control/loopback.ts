import type { IncomingMessage } from 'node:http';

const LOOPBACK_ADDRESS = /^(127\.|::1$|::ffff:127\.)/;
const LOOPBACK_HOST = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i;

/**
 * Why a request is not of this machine, if it is not. A web page that is open in a browser here may send requests to this
 * address too: under a name of its own that leads here, which the host tells, or from elsewhere, which the origin tells.
 */
export function forbiddenBecause({
  headers,
  socket,
}: Pick<IncomingMessage, 'headers' | 'socket'>): string | undefined {
  const { host = '', origin } = headers;
  if (!LOOPBACK_ADDRESS.test(socket.remoteAddress ?? ''))
    return 'The control plane answers this machine only.';
  if (!LOOPBACK_HOST.test(host)) return `The control plane answers to localhost, not to ${host}.`;
  if (origin !== undefined && origin !== `http://${host}`)
    return `The control plane answers no page of ${origin}.`;
  return undefined;
}
