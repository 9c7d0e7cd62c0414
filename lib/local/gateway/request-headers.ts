import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';

/** They are between the client and the gateway. */
const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];

/** As they came: names in small letters, every line of its own. */
export function headerLines({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): [string, string][] {
  const lines: [string, string][] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    lines.push([(rawHeaders[index] ?? '').toLowerCase(), asUtf8(rawHeaders[index + 1] ?? '')]);
  }
  return lines;
}

/** Several lines of one name are one, with commas. */
export function joinedHeaders(lines: readonly (readonly [string, string])[]): Map<string, string> {
  const joined = new Map<string, string>();
  for (const [name, value] of lines) {
    const known = joined.get(name);
    joined.set(name, known === undefined ? value : `${known},${value}`);
  }
  return joined;
}

export function cookiesIn(lines: readonly (readonly [string, string])[]): readonly string[] {
  return lines
    .filter(([name]) => name === 'cookie')
    .flatMap(([, value]) => value.split(';'))
    .map((cookie) => cookie.trim())
    .filter((cookie) => cookie !== '');
}

/** Those for the function: without cookies, which have a field of their own, and without what is only for this hop. */
export function forwardedLines(lines: readonly (readonly [string, string])[]): (readonly [string, string])[] {
  const named = lines
    .filter(([name]) => name === 'connection')
    .flatMap(([, value]) => value.split(',').map((name) => name.trim().toLowerCase()));
  const dropped = new Set(['cookie', ...HOP_BY_HOP, ...named]);
  return lines.filter(([name]) => !dropped.has(name));
}

/** What API Gateway counts against its limit: the request line, and the values of the headers. */
export function requestBytes(
  request: Pick<IncomingMessage, 'method' | 'url' | 'httpVersion' | 'rawHeaders'>,
): number {
  const { method = '', url = '', httpVersion, rawHeaders } = request;
  const line = `${method} ${url} HTTP/${httpVersion}`.length;
  return rawHeaders.reduce((sum, text, index) => (index % 2 === 1 ? sum + text.length : sum), line);
}

/** Node reads one character from each byte. */
function asUtf8(value: string): string {
  const bytes = Buffer.from(value, 'latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : value;
}
