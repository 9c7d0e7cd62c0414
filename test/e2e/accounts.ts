/* What the provider has charged, against what clients were told in the end. */
import { expect } from 'vitest';
import { scopePk } from '../../lib/core/scope.ts';
import { type Answer, eventually, type Request } from './client.ts';
import type { Charge, LocalCloud, ShownRecord } from './local-cloud.ts';

function refOf({ path, tenant, key }: Request): string {
  return scopePk({ tenant, operation: `POST ${path}`, key });
}

export class Accounts {
  readonly #cloud: LocalCloud;
  readonly #told = new Map<string, { readonly request: Request; readonly answer: Answer }>();

  constructor(cloud: LocalCloud) {
    this.#cloud = cloud;
  }

  /** A final answer. A second one of the same key must be the first one, byte for byte. */
  told(request: Request, answer: Answer): Answer {
    const ref = refOf(request);
    const before = this.#told.get(ref)?.answer;
    if (before) expect([answer.status, answer.text]).toEqual([before.status, before.text]);
    this.#told.set(ref, { request, answer });
    return answer;
  }

  charges(): Promise<readonly Charge[]> {
    return this.#cloud.control('GET', '/provider/charges');
  }

  records(): Promise<readonly ShownRecord[]> {
    return this.#cloud.control('GET', '/records');
  }

  async chargesOf(request: Request): Promise<number> {
    const ref = refOf(request);
    return (await this.charges()).filter(({ operationRef }) => operationRef === ref).length;
  }

  async recordOf(request: Request): Promise<ShownRecord | undefined> {
    const ref = refOf(request);
    return (await this.records()).find(({ operationRef }) => operationRef === ref);
  }

  /** Nothing is left to be found out, and nothing waits for a person. */
  async settled(): Promise<void> {
    await eventually(
      async () => (await this.records()).filter(({ open }) => open),
      (open) => open.length === 0,
    );
  }

  /** One charge for each key whose final answer is a success, and none for any other, whoever it is of. */
  async balance(): Promise<void> {
    await this.settled();
    const charged = (await this.charges()).map(({ operationRef, amount }) => `${operationRef} ${amount}`);
    const owed = [...this.#told]
      .filter(([, { answer }]) => answer.status === 201)
      .map(([ref, { request }]) => `${ref} ${JSON.parse(request.body).amount}`);
    expect(charged.toSorted()).toEqual(owed.toSorted());
    expect(owed.length).toBeGreaterThan(0);
  }
}
