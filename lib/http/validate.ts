import { InvalidArgument } from '../core/errors.ts';
import { kindOf } from './kind.ts';
import { type Fault, pointerTo } from './problem.ts';
import type { HttpRequest } from './request.ts';

/** The part of Standard Schema (standardschema.dev) that validating needs; zod, valibot and arktype have it. */
export interface StandardSchema {
  readonly '~standard': {
    readonly version: 1;
    validate(value: unknown): SchemaResult | Promise<SchemaResult>;
  };
}

type SchemaResult =
  | { readonly value: unknown; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** A schema for the JSON body, or a function that lists what is wrong with the request. */
export type Validation =
  | StandardSchema
  | ((request: HttpRequest) => readonly Fault[] | undefined | Promise<readonly Fault[] | undefined>);

/** Every fault at once: a client should not have to find them one by one. */
export async function faultsOf(validation: Validation, request: HttpRequest): Promise<readonly Fault[]> {
  if (typeof validation === 'function' && !('~standard' in validation)) {
    const faults: unknown = (await validation(request)) ?? [];
    if (Array.isArray(faults)) return faults;
    throw new InvalidArgument(
      `validate returned ${kindOf(faults)}; expected a list of faults, or nothing. Nothing was run.`,
    );
  }
  const schema = validation as StandardSchema;
  const body = parsed(request.body);
  if (!body) return [{ pointer: '#', detail: 'The body is not JSON.' }];
  const { issues = [] } = await schema['~standard'].validate(body.value);
  return issues.map(({ message, path = [] }) => ({
    pointer: pointerTo(path.map((part) => (typeof part === 'object' ? part.key : part))),
    detail: message,
  }));
}

function parsed(body: Uint8Array): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(Buffer.from(body).toString('utf8')) };
  } catch {
    return undefined;
  }
}
