import { Agent, request as ask, type IncomingMessage } from 'node:http';

/** DynamoDB's, to the byte. */
export interface Answer {
  readonly status: number;
  readonly message: string;
  /** Names and values in turn, as they came: their spelling and their order stay. */
  readonly headers: string[];
  readonly body: Buffer;
}

export interface Target {
  /** Rejects if no whole answer came back; the request may have been carried out all the same. */
  forward(request: IncomingMessage, body: Buffer): Promise<Answer>;
  close(): void;
}

/** Jetty hangs up after 30 s of silence, and a request that meets a hang-up is lost: we hang up first. */
const IDLE_MS = 20_000;

/** They are about one connection, and there are two. */
const PER_CONNECTION = new Set(['connection', 'keep-alive', 'proxy-connection', 'upgrade']);

export function openTarget(url: URL): Target {
  const agent = new Agent({ keepAlive: true, timeout: IDLE_MS });
  const { hostname: host, port } = url;
  return {
    forward: (request, body) =>
      new Promise((resolve, reject) => {
        const { method, url: path } = request;
        const headers = endToEnd(request.rawHeaders);
        const outgoing = ask({ host, port, agent, method, path, headers }, (incoming) => {
          bodyOf(incoming).then((answer) => {
            const { statusCode: status = 0, statusMessage: message = '', rawHeaders } = incoming;
            resolve({ status, message, headers: endToEnd(rawHeaders), body: answer });
          }, reject);
        });
        outgoing.on('error', reject);
        outgoing.end(body);
      }),
    close: () => agent.destroy(),
  };
}

/** Rejects if the other side leaves in the middle of it. */
export async function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of message) parts.push(part);
  return Buffer.concat(parts);
}

function endToEnd(raw: readonly string[]): string[] {
  const kept: string[] = [];
  for (let index = 0; index < raw.length; index += 2) {
    const [name = '', value = ''] = raw.slice(index, index + 2);
    if (!PER_CONNECTION.has(name.toLowerCase())) kept.push(name, value);
  }
  return kept;
}
