import { OncekeyError } from '../core/errors.ts';

/** The function was invoked by something that is not an HTTP request. Nothing ran. */
export class UnsupportedEvent extends OncekeyError {
  override readonly remedy = 'fix-code';
}

/** An HTTP event without a part that every such event has: made by hand, or changed by an earlier middleware. */
export class MalformedEvent extends OncekeyError {
  override readonly remedy = 'fix-code';
}

/** The handler ran, and what it returned is no HTTP response, so it can neither be sent nor be replayed. */
export class UnstorableReply extends OncekeyError {
  override readonly remedy = 'fix-code';
}
