import { Socket } from 'node:net';
import { frame, frameReader, type Invocation, type Word } from './frames.ts';
import { type Handler, loadHandler } from './handler.ts';
import { errorPayload, RuntimeError, responseTooLarge } from './lambda-errors.ts';
import { RESPONSE_MAX_BYTES } from './limits.ts';

/*
 * The program of one execution environment: loads one function once, then runs one request at a time, as Lambda's runtime
 * for Node 24 does. The pool starts it; nothing imports it.
 */

const { env } = process;
/** The codes with which Lambda's runtime ends. */
const UNCAUGHT = 129;
const UNHANDLED = 128;
const INIT_FAILED = 1;

/** Beside the standard three. Not Node's own IPC: a function on Lambda has no `process.send` either. */
const channel = new Socket({ fd: 3, readable: true, writable: true });

process.on('uncaughtException', (error) => die(error, UNCAUGHT));
process.on('unhandledRejection', (reason) =>
  die(new RuntimeError('UnhandledPromiseRejection', String(reason)), UNHANDLED),
);
// The pool is gone, whatever ended it. What is under way ends as if the machine had gone with it.
channel.on('close', () => process.kill(process.pid, 'SIGKILL'));
channel.on('error', () => {}); // 'close' follows.
channel.on('data', frameReader<Invocation>(run));

// As on Lambda, neither a module nor a handler is waited for when there is nothing left that could end its waiting.
channel.unref();
let handler: Handler;
try {
  handler = await loadHandler(env['LAMBDA_TASK_ROOT'] ?? '', env['_HANDLER'] ?? '');
  channel.ref();
  say('ready');
} catch (error) {
  die(error, INIT_FAILED);
}

async function run(invocation: Invocation, event: string): Promise<void> {
  say('began');
  channel.unref();
  try {
    answer(textOf(await handler(JSON.parse(event), contextOf(invocation))));
  } catch (error) {
    say('threw', errorPayload(error));
  }
  channel.ref();
}

function answer(text: string): void {
  const bytes = Buffer.byteLength(text);
  if (bytes > RESPONSE_MAX_BYTES) say('threw', responseTooLarge(bytes));
  else say('returned', text);
}

function textOf(result: unknown): string {
  try {
    return JSON.stringify(result) ?? 'null';
  } catch {
    throw new RuntimeError('JSONStringifyError', 'Unable to stringify response body');
  }
}

function contextOf({ requestId, functionArn, deadlineMs }: Invocation): object {
  return {
    awsRequestId: requestId,
    invokedFunctionArn: functionArn,
    functionName: env['AWS_LAMBDA_FUNCTION_NAME'],
    functionVersion: env['AWS_LAMBDA_FUNCTION_VERSION'],
    memoryLimitInMB: env['AWS_LAMBDA_FUNCTION_MEMORY_SIZE'],
    logGroupName: env['AWS_LAMBDA_LOG_GROUP_NAME'],
    logStreamName: env['AWS_LAMBDA_LOG_STREAM_NAME'],
    clientContext: undefined,
    identity: undefined,
    getRemainingTimeInMillis: () => deadlineMs - Date.now(),
  };
}

function say(type: Word['type'], text?: string): void {
  channel.write(frame({ type }, text));
}

function die(error: unknown, code: number): void {
  channel.ref();
  channel.write(frame({ type: 'fatal' }, errorPayload(error)), () => process.exit(code));
}
