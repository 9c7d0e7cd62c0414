import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { transitions } from '../../lib/core/transitions.ts';
import { renderStateMachine } from '../../scripts/state-machine.ts';

const PAGE = new URL('../../docs/state-machine.md', import.meta.url);
const STATES = ['in_progress', 'accepted', 'completed', 'failed_retryable', 'unknown'];

const rendered = renderStateMachine();
const [, diagram = ''] = /^```mermaid\n(.*?)\n```$/ms.exec(rendered) ?? [];
const [header, ...lines] = diagram.split('\n');
const arrows = lines.map((line) => {
  const [, from = '', to = '', label = ''] = /^ {4}(\S+) --> (\S+) : (.+)$/.exec(line) ?? [];
  return { line, from, to, moves: label.split('<br/>') };
});
const rows = rendered
  .split('\n')
  .filter((line) => line.startsWith('|'))
  .map((line) => line.split('|').slice(1, -1))
  .map((cells) => cells.map((cell) => cell.trim().replaceAll('`', '')));

const named = transitions.map((one) => [`${one.move}: ${one.from} → ${one.to}`, one] as const);

describe('docs/state-machine.md', () => {
  it('is what the code says now', () => {
    const page = existsSync(PAGE) ? readFileSync(PAGE, 'utf8') : '';
    expect(page, 'docs/state-machine.md is out of date: run `npm run docs` and commit the result.').toBe(
      rendered,
    );
  });

  it.each(STATES)('explains %s', (state) => {
    const [, means, duplicate] = rows.find(([first]) => first === state) ?? [];
    expect(means).toBeTruthy();
    expect(duplicate).toBeTruthy();
  });

  it.each(named)('has a row for %s, with who makes it and under which condition', (_, one) => {
    const from = one.from === 'none' ? 'no record' : one.from;
    expect(rows).toContainEqual([one.move, from, one.to, one.by.join(', '), one.when]);
  });

  it('has no row for a move that does not exist', () => {
    const start = rows.findIndex(([first]) => first === 'move');
    expect(rows.slice(start + 2)).toHaveLength(transitions.length);
  });
});

describe('the diagram', () => {
  it.each(named)('has an arrow for %s, with who makes it', (_, one) => {
    const again = one.from === 'expired';
    const from = again || one.from === 'none' ? '[*]' : one.from;
    const arrow = arrows.find((some) => some.from === from && some.to === one.to);
    expect(arrow?.moves).toContain(`${one.move}${again ? ' after expiry' : ''} (${one.by.join(', ')})`);
  });

  it('ends with expiry, and only what is settled expires', () => {
    const ends = arrows.filter(({ to }) => to === '[*]').map(({ from, moves }) => [from, ...moves]);
    expect(ends).toEqual([
      ['completed', 'expiry'],
      ['failed_retryable', 'expiry'],
    ]);
  });

  it('has no arrow for a move that does not exist', () => {
    const drawn = arrows.filter(({ to }) => to !== '[*]').flatMap(({ moves }) => moves);
    expect(drawn).toHaveLength(transitions.length);
  });

  it('draws one arrow between two states, because a second one would be drawn over it', () => {
    const pairs = arrows.map(({ from, to }) => `${from} ${to}`);
    expect(new Set(pairs).size).toBe(pairs.length);
  });

  /** Mermaid cuts a label at a semicolon and reports nothing, so labels keep to letters, commas and brackets. */
  it('is nothing but arrows that Mermaid reads in full', () => {
    expect(header).toBe('stateDiagram-v2');
    for (const { line, from, to, moves } of arrows) {
      expect([...STATES, '[*]']).toContain(from);
      expect([...STATES, '[*]']).toContain(to);
      for (const label of moves)
        expect(label, line).toMatch(/^[A-Za-z]+( after expiry)?( \([a-z]+(, [a-z]+)*\))?$/);
    }
  });
});
