import type { IncomingMessage, ServerResponse } from 'node:http';
import { InvalidArgument } from '../../core/errors.ts';
import { FunctionUnknown } from '../functions/errors.ts';
import { readBody } from '../gateway/request-body.ts';
import { forbiddenBecause } from './loopback.ts';

/** What the control plane shows and moves. */
export interface ControlPorts {
  readonly health: () => { readonly ready: boolean; readonly functions: readonly string[] };
  readonly token: (tenant: string) => Promise<string>;
  readonly charges: () => readonly object[];
  readonly providerFaults: Faults;
  readonly storeFaults: Faults;
  /** How many of its processes there were. Throws `FunctionUnknown`. */
  readonly signal: (functionName: string, signal: FunctionSignal) => number;
  readonly records: () => Promise<readonly object[]>;
}

interface Faults {
  /** Throws `InvalidFault`, and leaves all as it was. */
  set(value: unknown): unknown;
  get(): object;
}

const SIGNALS = ['SIGKILL', 'SIGSTOP', 'SIGCONT'] as const;
type FunctionSignal = (typeof SIGNALS)[number];

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

/** What a request of the control plane carries is a few words. */
const BODY_MAX_BYTES = 16_384;

const TENANT_MAX_LENGTH = 128;

/** The request is at fault: what it says is for its sender. */
class Refused extends Error {
  override readonly name = 'Refused';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Of one path: its methods, and what they do with what the path and the body say. */
type Methods = Readonly<
  Record<string, (words: readonly string[], body: unknown) => Answer | Promise<Answer>>
>;

const PREFIX = '/_local';
const WITHIN = new RegExp(`^${PREFIX}(?:[/?]|$)`);

/** Whether a request is for the control plane and not for the API beside it. */
export function isControl({ url = '' }: Pick<IncomingMessage, 'url'>): boolean {
  return WITHIN.test(url);
}

/** JSON in and out, for whoever sits at this machine: there is no other authority here than being on it. */
export function controlPlane(ports: ControlPorts) {
  const paths = pathsOf(ports);

  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { status, body } = await answered(request).catch(refusal);
    const text = `${readable(body)}\n`;
    response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
    response.end(text);
  };

  async function answered(request: IncomingMessage): Promise<Answer> {
    const why = forbiddenBecause(request);
    if (why !== undefined) throw new Refused(403, why);
    const path = (request.url ?? '').slice(PREFIX.length).split('?')[0] ?? '';
    for (const [pattern, methods] of paths) {
      const match = pattern.exec(path);
      if (!match) continue;
      const act = methods[request.method ?? ''];
      if (!act) throw new Refused(405, `${PREFIX}${path} takes ${Object.keys(methods).join(' and ')}.`);
      const words = match.slice(1).map(decodeURIComponent);
      return act(words, request.method === 'GET' ? undefined : await bodyOf(request));
    }
    throw new Refused(404, `There is nothing at ${PREFIX}${path}; GET ${PREFIX} lists what there is.`);
  }
}

function pathsOf(ports: ControlPorts): readonly (readonly [RegExp, Methods])[] {
  return [
    [/^\/?$/, { GET: () => ok({ paths: PATHS }) }],
    [
      /^\/health$/,
      {
        GET() {
          const health = ports.health();
          return { status: health.ready ? 200 : 503, body: health };
        },
      },
    ],
    [/^\/token$/, { POST: async (_, body) => ok({ token: await ports.token(tenantIn(body)) }) }],
    [/^\/records$/, { GET: async () => ok(await ports.records()) }],
    [/^\/provider\/charges$/, { GET: () => ok(ports.charges()) }],
    [/^\/provider\/faults$/, faults(ports.providerFaults)],
    [/^\/store\/faults$/, faults(ports.storeFaults)],
    [
      /^\/functions\/([^/]+)\/kill$/,
      { POST: ([name = ''], body) => ok({ signalled: ports.signal(name, signalIn(body)) }) },
    ],
  ];
}

const PATHS = [
  'GET /_local/health',
  'POST /_local/token {"tenant": "acme"}',
  'GET /_local/records',
  'GET /_local/provider/charges',
  'GET, PUT /_local/provider/faults {"mode", "probability", "latencyMs"}',
  'GET, PUT /_local/store/faults {"mode", "probability", "latencyMs"}',
  'POST /_local/functions/{name}/kill',
];

const ok = (body: unknown): Answer => ({ status: 200, body });

function faults(of: Faults): Methods {
  return {
    GET: () => ok(of.get()),
    PUT(_, body) {
      of.set(body);
      return ok(of.get());
    },
  };
}

function tenantIn(body: unknown): string {
  const tenant = memberOf(body, 'tenant');
  if (typeof tenant === 'string' && tenant.trim() !== '' && tenant.length <= TENANT_MAX_LENGTH) return tenant;
  throw new Refused(
    400,
    `tenant is ${JSON.stringify(tenant) ?? 'missing'}; expected a text of 1 to ${TENANT_MAX_LENGTH} characters, as in {"tenant": "acme"}.`,
  );
}

function signalIn(body: unknown): FunctionSignal {
  const named = memberOf(body, 'signal') ?? 'SIGKILL';
  const signal = SIGNALS.find((one) => one === named);
  if (signal) return signal;
  throw new Refused(400, `signal is ${JSON.stringify(named)}; expected one of ${SIGNALS.join(', ')}.`);
}

function memberOf(body: unknown, name: string): unknown {
  return typeof body === 'object' && body !== null ? (body as Record<string, unknown>)[name] : undefined;
}

/** A list has a line for each of its elements: most of who reads it does so in a terminal. */
function readable(body: unknown): string {
  if (!Array.isArray(body) || body.length === 0) return JSON.stringify(body);
  return `[\n${body.map((one) => JSON.stringify(one)).join(',\n')}\n]`;
}

/** Whatever content type it says: curl's default for -d is a form. No body is none. */
async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const read = await readBody(request, BODY_MAX_BYTES);
  if (read.kind === 'too-large') throw new Refused(413, `The body has more than ${BODY_MAX_BYTES} bytes.`);
  if (read.kind === 'broken') throw new Refused(400, 'The body has ended before it was whole.');
  const text = read.bytes.toString('utf8').trim();
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw new Refused(400, 'The body is no JSON; expected an object such as {"mode": "none"}.');
  }
}

function refusal(error: unknown): Answer {
  const { name, message } = error as Error;
  return { status: statusOf(error), body: { error: name, message } };
}

function statusOf(error: unknown): number {
  if (error instanceof Refused) return error.status;
  if (error instanceof InvalidArgument || error instanceof URIError) return 400;
  return error instanceof FunctionUnknown ? 404 : 500;
}
