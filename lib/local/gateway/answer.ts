/** What goes to the client. */
export interface Answer {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer;
  /** Where the gateway answers itself, and does not pass on what a function said. */
  readonly ownMessage?: string;
}

/** What the gateway says itself, in the words of API Gateway. */
const MESSAGES = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  413: 'Request Entity Too Large',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
} as const;

export function ownAnswer(status: keyof typeof MESSAGES, headers: Answer['headers'] = []): Answer {
  const ownMessage = MESSAGES[status];
  const body = Buffer.from(JSON.stringify({ message: ownMessage }));
  return { status, headers: [['content-type', 'application/json'], ...headers], body, ownMessage };
}
