import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { RuntimeError } from './lambda-errors.ts';

export type Handler = (event: unknown, context: object) => unknown;

/** In the order in which Lambda looks. */
const EXTENSIONS = ['.js', '.mjs', '.cjs'];

/** The module's path, then the path of the export in it: `index.handler`, `src/app.handlers.create`. */
const HANDLER = /^((?:.*\/)?[^./]+)\.(.+)$/;

/** Loads the module, as Lambda's runtime for Node 24 does, and refuses what it refuses. */
export async function loadHandler(taskRoot: string, name: string): Promise<Handler> {
  const [, path, exported] = HANDLER.exec(name) ?? [];
  if (path === undefined || exported === undefined || name.includes('..')) {
    throw new RuntimeError(
      'MalformedHandlerName',
      `Bad handler ${JSON.stringify(name)}; expected index.handler`,
    );
  }
  const module = await load(taskRoot, path);
  const handler = memberOf(module, exported) ?? memberOf(memberOf(module, 'default'), exported);
  if (typeof handler !== 'function') {
    const what = handler === undefined ? 'undefined or not exported' : 'not a function';
    throw new RuntimeError('HandlerNotFound', `${name} is ${what}`);
  }
  if (handler.length >= 3) {
    throw new RuntimeError(
      'CallbackHandlerDeprecated',
      'ERROR: AWS Lambda has removed support for callback-based function handlers starting with Node.js 24. You need to modify this function to use a supported handler signature to use Node.js 24 or later.',
    );
  }
  return handler as Handler;
}

async function load(taskRoot: string, path: string): Promise<unknown> {
  const found = EXTENSIONS.map((extension) => join(taskRoot, `${path}${extension}`)).find(existsSync);
  if (found === undefined) {
    throw new RuntimeError('ImportModuleError', `Error: Cannot find module '${path}'`);
  }
  try {
    return await import(pathToFileURL(found).href);
  } catch (error) {
    if (error instanceof SyntaxError) throw wrapped('UserCodeSyntaxError', error);
    if (error instanceof Error && 'code' in error && error.code === 'MODULE_NOT_FOUND') {
      throw wrapped('ImportModuleError', error);
    }
    throw error;
  }
}

function wrapped(name: string, cause: Error): RuntimeError {
  const error = new RuntimeError(name, String(cause));
  if (cause.stack !== undefined) error.stack = cause.stack;
  return error;
}

function memberOf(value: unknown, path: string): unknown {
  let member = value;
  for (const name of path.split('.')) {
    if ((typeof member !== 'object' && typeof member !== 'function') || member === null) return undefined;
    member = (member as Readonly<Record<string, unknown>>)[name];
  }
  return member;
}
