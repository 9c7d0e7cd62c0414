import { RESPONSE_MAX_BYTES } from './limits.ts';

/* Errors as Lambda writes them: what an invoker reads in the payload. */

/** What the runtime itself finds wrong. */
export class RuntimeError extends Error {
  constructor(name: string, message: string) {
    super(message);
    this.name = `Runtime.${name}`;
  }
}

/** Of whatever a handler threw; also of an Error whose own properties throw. */
export function errorPayload(thrown: unknown): string {
  try {
    if (!(thrown instanceof Error)) {
      return JSON.stringify({ errorType: typeof thrown, errorMessage: String(thrown), trace: [] });
    }
    const { name, message, stack } = thrown;
    return JSON.stringify({ errorType: name, errorMessage: message, trace: stack?.split('\n') ?? [] });
  } catch {
    const errorMessage = 'What was thrown cannot be read.';
    return JSON.stringify({ errorType: 'handled', errorMessage, trace: [] });
  }
}

export function timedOut(requestId: string, timeoutMs: number): string {
  const seconds = (timeoutMs / 1000).toFixed(2);
  return platformError('Sandbox.Timedout', requestId, `Task timed out after ${seconds} seconds`);
}

/** `how` is Go's word for it, in which Lambda is written: `exit status 1`, `signal: killed`. Of a clean exit there is none. */
export function exited(requestId: string, how: string | undefined): string {
  const message = how === undefined ? 'exited without providing a reason' : `exited with error: ${how}`;
  return platformError('Runtime.ExitError', requestId, `Runtime ${message}`);
}

export function responseTooLarge(bytes: number): string {
  return JSON.stringify({
    errorType: 'Function.ResponseSizeTooLarge',
    errorMessage: `Response payload size (${bytes} bytes) exceeded maximum allowed payload size (${RESPONSE_MAX_BYTES} bytes).`,
  });
}

export function eventTooLarge(bytes: number, maxBytes: number): string {
  return JSON.stringify({
    errorType: 'RequestTooLargeException',
    errorMessage: `${bytes} byte payload is too large for the invocation (limit ${maxBytes} bytes)`,
  });
}

const SUMMARY_MAX_CHARS = 500;

/** Of a payload, in one line for whoever reads along. */
export function summaryOf(payload: string): string {
  const { errorType, errorMessage } = JSON.parse(payload) as Readonly<Record<string, unknown>>;
  return `${errorType}: ${errorMessage}`.slice(0, SUMMARY_MAX_CHARS);
}

function platformError(errorType: string, requestId: string, message: string): string {
  return JSON.stringify({ errorType, errorMessage: `RequestId: ${requestId} Error: ${message}` });
}
