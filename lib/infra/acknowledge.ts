import { Validations } from 'aws-cdk-lib';
import type { IConstruct } from 'constructs';

/** A rule of a validation plugin that does not fit here, with the reason that a reviewer will look for. */
export function acknowledge(construct: IConstruct, id: string, reason: string): void {
  Validations.of(construct).acknowledge({ id, reason });
}
