import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { paired, type Shift, type Shown } from '../../lib/core/pairing.ts';
import type { Status } from '../../lib/core/record.ts';

const shown = (operationId: string, attempt: number, status: Status, isDue = false): Shown => ({
  ...{ operationId, attempt, status, isDue },
});

/** A record's states one after another, as the changes between them. */
function changesOf(pk: string, ...states: readonly Shown[]): Shift[] {
  return states.map((after, index) => ({ pk, before: states[index - 1], after }));
}

function summed(...changes: readonly Shift[]) {
  const { leftovers, reservations } = paired(changes);
  const names = leftovers.map(({ pk, after }) => `${pk} ${after?.operationId} ${after?.attempt}`);
  return { leftovers: names.toSorted(), reservations };
}

const running = shown('x', 1, 'in_progress');

describe('a reservation is paired', () => {
  it('with each of its ends, wherever that stands in the batch', () => {
    for (const status of ['completed', 'accepted', 'failed_retryable', 'unknown'] as const) {
      const [reserved, ended] = changesOf('a', running, shown('x', 1, status)) as [Shift, Shift];
      const none = { leftovers: [], reservations: 1 };
      expect(summed(reserved, ended)).toEqual(none);
      expect(summed(ended, reserved)).toEqual(none);
      expect(summed(reserved, ended, reserved, reserved)).toEqual(none);
    }
  });

  it('with the end of a later attempt, and with the beginning of one, which is a reservation of its own', () => {
    const again = shown('x', 2, 'in_progress');
    const [first, lapsed, second, done] = changesOf(
      'a',
      running,
      shown('x', 1, 'unknown'),
      again,
      shown('x', 2, 'completed'),
    ) as [Shift, Shift, Shift, Shift];
    expect(summed(done, first)).toEqual({ leftovers: [], reservations: 1 });
    expect(summed(second, first)).toEqual({ leftovers: ['a x 2'], reservations: 2 });
    expect(summed(lapsed, second, first)).toEqual({ leftovers: ['a x 2'], reservations: 2 });
    expect(summed(done, second, first)).toEqual({ leftovers: [], reservations: 2 });
  });

  it('with what replaced it, if only that shows its end', () => {
    const [first] = changesOf('a', running) as [Shift];
    const reuse = { pk: 'a', before: shown('x', 1, 'completed'), after: shown('y', 1, 'in_progress') };
    expect(summed(reuse, first)).toEqual({ leftovers: ['a y 1'], reservations: 2 });
    expect(summed({ pk: 'a', before: shown('x', 1, 'completed'), after: undefined }, first)).toEqual({
      leftovers: [],
      reservations: 1,
    });
  });

  it('with its removal', () => {
    const [reserved] = changesOf('a', running) as [Shift];
    const removed = { pk: 'a', before: running, after: undefined };
    expect(summed(reserved, removed)).toEqual({ leftovers: [], reservations: 1 });
    expect(summed(removed, reserved)).toEqual({ leftovers: [], reservations: 1 });
  });

  it('never with the end of another operation of its key, or of another key', () => {
    const old = changesOf('a', shown('old', 3, 'in_progress'), shown('old', 3, 'completed'));
    const other = changesOf('b', running, shown('x', 1, 'completed'));
    const mine = changesOf('a', running);
    expect(summed(...mine, ...old, ...other)).toEqual({ leftovers: ['a x 1'], reservations: 3 });
  });
});

describe('a reservation without an end', () => {
  it('is one, however often it is shown', () => {
    const [reserved, saved] = changesOf('a', running, running) as [Shift, Shift];
    expect(summed(reserved, saved, reserved, saved)).toEqual({ leftovers: ['a x 1'], reservations: 1 });
    expect(summed(saved)).toEqual({ leftovers: ['a x 1'], reservations: 1 });
  });

  it('needs nobody who is there already', () => {
    const [reserved, watched] = changesOf('a', running, shown('x', 1, 'in_progress', true)) as [Shift, Shift];
    expect(summed(watched, reserved)).toEqual({ leftovers: [], reservations: 1 });
    expect(summed(watched)).toEqual({ leftovers: [], reservations: 0 });
  });
});

describe('whatever the histories', () => {
  interface Ending {
    readonly end: Status | 'taken over';
    readonly notes: number;
    readonly reused: boolean;
  }

  /** What a record may go through: attempts that end or are taken over, keys that start anew. */
  const histories: fc.Arbitrary<Ending[][]> = fc.array(
    fc.array(
      fc.record<Ending>({
        end: fc.constantFrom<Status | 'taken over'>('completed', 'failed_retryable', 'unknown', 'taken over'),
        notes: fc.nat(2),
        reused: fc.boolean(),
      }),
      { minLength: 1, maxLength: 5 },
    ),
    { minLength: 1, maxLength: 6 },
  );

  function written(endings: readonly Ending[], pk: string) {
    const states: Shown[] = [];
    let [operation, attempt] = [0, 0];
    for (const [index, { end, notes, reused }] of endings.entries()) {
      const isLast = index === endings.length - 1;
      if (reused && states.at(-1)?.status === 'completed') [operation, attempt] = [operation + 1, 0];
      attempt += 1;
      const id = `${pk}-${operation}`;
      for (let note = 0; note <= notes; note += 1) states.push(shown(id, attempt, 'in_progress'));
      if (!isLast && end !== 'taken over') states.push(shown(id, attempt, end));
      if (isLast && end === 'completed') states.push(shown(id, attempt, end));
    }
    return { changes: changesOf(pk, ...states), attempts: endings.length, last: states.at(-1) as Shown };
  }

  it('order and number of the changes make no difference, and exactly what is open is left', () => {
    fc.assert(
      fc.property(histories, fc.infiniteStream(fc.nat()), (all, random) => {
        const records = all.map((history, index) => written(history, `pk${index}`));
        const changes = records.flatMap((record) => record.changes);
        const mixed = [...changes, ...changes.filter((_, index) => index % 3 === 0)]
          .map((change) => ({ change, place: random.next().value ?? 0 }))
          .toSorted((one, other) => one.place - other.place)
          .map(({ change }) => change);
        const expected = {
          leftovers: records
            .flatMap(({ last, changes: [first] }) =>
              last.status === 'in_progress' ? [`${first?.pk} ${last.operationId} ${last.attempt}`] : [],
            )
            .toSorted(),
          reservations: records.reduce((sum, { attempts }) => sum + attempts, 0),
        };
        expect(summed(...changes)).toEqual(expected);
        expect(summed(...mixed)).toEqual(expected);
      }),
      { seed: 11 },
    );
  });

  it('a batch that lacks some of them leaves no open one out, and counts no more left than begun', () => {
    fc.assert(
      fc.property(histories, fc.infiniteStream(fc.boolean()), (all, random) => {
        const records = all.map((history, index) => written(history, `pk${index}`));
        const lost = records.map(({ changes }) => changes.filter(() => random.next().value));
        const { leftovers, reservations } = paired(lost.flat());
        expect(leftovers.length).toBeLessThanOrEqual(reservations);
        for (const [index, { last }] of records.entries()) {
          const seen = lost[index]?.some(
            ({ after }) => after?.attempt === last.attempt && after.operationId === last.operationId,
          );
          const left = leftovers.some(
            ({ after }) => after?.attempt === last.attempt && after.operationId === last.operationId,
          );
          if (seen && last.status === 'in_progress') expect(left).toBe(true);
        }
      }),
      { seed: 12 },
    );
  });
});
