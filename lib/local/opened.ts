/** What was started, to be ended in the opposite order: each part may need those that were there before it. */
export class Opened {
  readonly #closers: (() => Promise<void>)[] = [];
  #closing: Promise<void> | undefined;

  /** Keeps it to be closed. Where everything is being closed already, at once. */
  async keep<T extends { close(): Promise<void> }>(starting: T | Promise<T>): Promise<T> {
    const part = await starting;
    if (this.#closing) {
      await part.close();
      throw new Ended();
    }
    this.#closers.push(() => part.close());
    return part;
  }

  /** One that cannot be closed keeps none of the others open. */
  close(): Promise<void> {
    this.#closing ??= this.#closeAll();
    return this.#closing;
  }

  async #closeAll(): Promise<void> {
    const failures: unknown[] = [];
    for (let close = this.#closers.pop(); close; close = this.#closers.pop()) {
      await close().catch((error: unknown) => failures.push(error));
    }
    if (failures.length > 0) throw failures[0];
  }
}

/** Somebody ended it before it was ready. */
export class Ended extends Error {
  override readonly name = 'Ended';

  constructor() {
    super('It was ended while it was starting.');
  }
}
