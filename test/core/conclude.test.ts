import { describe, expect, it } from 'vitest';
import { type Conclusion, conclude, type Ending, progressOf } from '../../lib/core/decide.ts';
import type { Effects, Step } from '../../lib/core/record.ts';

/**
 * What becomes of the record when its handler has ended, in every case there is. A column stands for how far the attempt
 * got, which matters to steps alone:
 *
 *   nothing   no step began, and no attempt was ever lost
 *   began     a step began, now or earlier, or an attempt was lost that may have begun one
 *   open      an at-most-once effect was tried, and what came of it is not recorded
 *
 * What is opaque has no outbox and so cannot defer; its line says only that the effects would not matter.
 */
const SPECIFICATION = `
  | effects       | ending                | nothing     | began       | open        |
  | transactional | returns 2xx           | complete    | complete    | complete    |
  | transactional | returns 2xx, deferred | accept      | accept      | accept      |
  | transactional | returns 3xx           | complete    | complete    | complete    |
  | transactional | returns 4xx           | complete    | complete    | complete    |
  | transactional | returns 408           | release     | release     | release     |
  | transactional | returns not now       | release     | release     | release     |
  | transactional | returns 5xx           | release     | release     | release     |
  | transactional | throws                | release     | release     | release     |
  | transactional | throws NotExecuted    | release     | release     | release     |
  | steps         | returns 2xx           | complete    | complete    | markUnknown |
  | steps         | returns 2xx, deferred | accept      | accept      | markUnknown |
  | steps         | returns 3xx           | complete    | complete    | markUnknown |
  | steps         | returns 4xx           | complete    | complete    | markUnknown |
  | steps         | returns 408           | release     | handBack    | markUnknown |
  | steps         | returns not now       | release     | handBack    | markUnknown |
  | steps         | returns 5xx           | release     | handBack    | markUnknown |
  | steps         | throws                | release     | handBack    | markUnknown |
  | steps         | throws NotExecuted    | release     | handBack    | markUnknown |
  | opaque        | returns 2xx           | complete    | complete    | complete    |
  | opaque        | returns 2xx, deferred | accept      | accept      | accept      |
  | opaque        | returns 3xx           | complete    | complete    | complete    |
  | opaque        | returns 4xx           | complete    | complete    | complete    |
  | opaque        | returns 408           | markUnknown | markUnknown | markUnknown |
  | opaque        | returns not now       | release     | release     | release     |
  | opaque        | returns 5xx           | markUnknown | markUnknown | markUnknown |
  | opaque        | throws                | markUnknown | markUnknown | markUnknown |
  | opaque        | throws NotExecuted    | release     | release     | release     |
`;

const between = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => from + at);
const returns = (statuses: readonly number[], deferred = false): Ending[] =>
  statuses.map((status) => ({ kind: 'replied', status, deferred }));

/** Every ending that a line stands for, each status by itself. */
const TIMEOUT = [408];
const NOT_NOW = [425, 429];
const ENDINGS: Readonly<Record<string, readonly Ending[]>> = {
  'returns 2xx': returns(between(200, 299)),
  'returns 2xx, deferred': returns(between(200, 299), true),
  'returns 3xx': returns(between(300, 399)),
  'returns 4xx': returns(between(400, 499).filter((status) => ![...TIMEOUT, ...NOT_NOW].includes(status))),
  'returns 408': [...returns(TIMEOUT), ...returns(TIMEOUT, true)],
  'returns not now': [...returns(NOT_NOW), ...returns(NOT_NOW, true)],
  'returns 5xx': [...returns(between(500, 599)), ...returns(between(500, 599), true)],
  throws: [{ kind: 'threw', notExecuted: false }],
  'throws NotExecuted': [{ kind: 'threw', notExecuted: true }],
};

const PROGRESS = {
  nothing: [{ began: false, openEffect: false }],
  began: [{ began: true, openEffect: false }],
  open: [
    { began: true, openEffect: true },
    { began: false, openEffect: true },
  ],
} as const;

const EFFECTS: readonly Effects[] = ['transactional', 'steps', 'opaque'];
const [, , ...lines] = SPECIFICATION.split('\n').slice(0, -1);
const rows = lines.map((line) => {
  const [effects, ending, ...cells] = line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());
  return { effects: effects as Effects, ending: ending ?? '', cells: cells as Conclusion[] };
});

describe('the end of a handler', () => {
  it('is specified once for all effects and all endings', () => {
    const all = EFFECTS.flatMap((effects) => Object.keys(ENDINGS).map((ending) => `${effects}, ${ending}`));
    expect(rows.map(({ effects, ending }) => `${effects}, ${ending}`)).toEqual(all);
  });

  const cases = rows.flatMap(({ effects, ending, cells }) =>
    Object.keys(PROGRESS).map((progress, at) => ({ effects, ending, progress, expected: cells[at] })),
  );
  it.each(cases)('$effects, $ending, $progress: $expected', ({ effects, ending, progress, expected }) => {
    const concluded = new Set(
      (ENDINGS[ending] ?? []).flatMap((each) =>
        PROGRESS[progress as keyof typeof PROGRESS].map((far) => conclude(effects, each, far)),
      ),
    );
    expect([...concluded]).toEqual([expected]);
  });
});

describe('what an attempt begins with', () => {
  const done: Step = { state: 'done', attempt: 1, at: 0, result: '' };
  const open: Step = { state: 'open', attempt: 1, at: 0, id: 'try-1' };
  const table: [string, { takenOver: boolean; steps: [string, Step][] }, ReturnType<typeof progressOf>][] = [
    ['nothing', { takenOver: false, steps: [] }, { began: false, openEffect: false }],
    ['an attempt that was lost', { takenOver: true, steps: [] }, { began: true, openEffect: false }],
    ['a recovery point', { takenOver: false, steps: [['row', done]] }, { began: true, openEffect: false }],
    ['an intent', { takenOver: false, steps: [['charge', open]] }, { began: true, openEffect: true }],
    [
      'an intent among recovery points',
      {
        takenOver: true,
        steps: [
          ['row', done],
          ['charge', open],
          ['ship', done],
        ],
      },
      { began: true, openEffect: true },
    ],
  ];
  it.each(table)('%s', (_, { takenOver, steps }, expected) => {
    expect(progressOf({ takenOver, steps: new Map(steps) })).toEqual(expected);
  });
});
