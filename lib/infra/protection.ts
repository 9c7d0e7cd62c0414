import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import type { IConstruct } from 'constructs';

/* Which functions are protected, told from their construct: metadata survives copies of this module, a WeakSet would not. */

const PROTECTED = 'oncekey:protected';

export function markProtected(fn: LambdaFunction): void {
  const cfn = fn.node.defaultChild ?? fn;
  if (!isProtected(cfn)) cfn.node.addMetadata(PROTECTED, true);
}

export function isProtected(construct: IConstruct): boolean {
  return construct.node.metadata.some(({ type }) => type === PROTECTED);
}
