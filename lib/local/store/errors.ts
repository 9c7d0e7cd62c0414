import { OncekeyError } from '../../core/errors.ts';

/** There is no DynamoDB to work with. The message is all that whoever started it needs to read. */
export class StoreNotStarted extends OncekeyError {
  override readonly remedy = 'fix-deployment';
}

/** A table of this name is there, and it is another one than the template describes. Nothing was changed. */
export class TableDiffers extends OncekeyError {
  override readonly remedy = 'fix-deployment';
}

/** Somebody else runs this DynamoDB, and it is theirs to end or to start. */
export class StoreNotOurs extends OncekeyError {
  override readonly remedy = 'fix-deployment';
}
