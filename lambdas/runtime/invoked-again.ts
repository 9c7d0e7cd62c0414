import type { StreamHandler } from '../../lib/index.ts';

/** The part of `Lambda` of `@aws-sdk/client-lambda` that this needs. */
export interface InvokeAndWait {
  invoke(input: { readonly FunctionName: string; readonly Payload: Uint8Array }): Promise<{
    readonly FunctionError?: string | undefined;
    readonly Payload?: Uint8Array | undefined;
  }>;
}

/** It failed once more: its own log says why. */
class FailedAgain extends Error {
  override readonly name = 'FailedAgain';
}

/** Asks the function that failed again, with what it failed on: its code and its permissions are the right ones. */
export function invokedAgain(lambda: InvokeAndWait): StreamHandler {
  return async (event, _, { functionArn }) => {
    const { FunctionError: failed, Payload: payload } = await lambda.invoke({
      FunctionName: functionArn,
      Payload: new TextEncoder().encode(JSON.stringify(event)),
    });
    if (failed !== undefined) throw new FailedAgain(`${functionArn} has failed again (${failed}).`);
    return payload && payload.length > 0 ? JSON.parse(new TextDecoder().decode(payload)) : undefined;
  };
}
