import { InvalidArgument } from '../../core/errors.ts';
import { isFields } from '../fields.ts';
import type { EventPattern, PatternRule } from '../model.ts';
import { comparisons } from './comparisons.ts';

type Path = readonly string[];

/**
 * Whether EventBridge would let the event through. All fields of the pattern must match, and of a field one rule is enough;
 * where the event has an array, one of its elements is.
 */
export function matches(pattern: EventPattern, event: unknown): boolean {
  return nodeMatches(pattern, event, []);

  function nodeMatches(wanted: EventPattern, node: unknown, path: Path): boolean {
    // Fields of one element belong together: two halves of two elements are no match.
    if (Array.isArray(node) && node.length > 0) return node.some((one) => nodeMatches(wanted, one, path));
    return Object.entries(wanted).every(([name, below]) => {
      if (isAlternatives(name, below)) return below.some((one) => nodeMatches(one, node, path));
      const [here, value] = [[...path, name], fieldOf(node, name)];
      return isRules(below)
        ? below.some((rule) => ruleMatches(rule, value, here))
        : nodeMatches(below, value, here);
    });
  }

  function ruleMatches(rule: PatternRule, value: unknown, path: Path): boolean {
    // Of the event as a whole: another element of an array above may have the field.
    if (isAbsence(rule)) return leavesAt(event, path).length === 0;
    return leavesIn(value).some((leaf) => leafMatches(rule, leaf));
  }
}

/** Whether any of them does; no patterns want everything. */
export function isWanted(patterns: readonly EventPattern[], event: unknown): boolean {
  return patterns.length === 0 || patterns.some((pattern) => matches(pattern, event));
}

/** Refuses what `matches` would not understand, so that nothing is let through, or kept out, by mistake. */
export function requireKnownPattern(pattern: unknown, where: string): asserts pattern is EventPattern {
  requireFields(pattern, where, []);
}

function requireFields(pattern: unknown, where: string, path: Path): void {
  if (!isFields(pattern)) {
    throw new InvalidArgument(
      `${placeOf(path)} in the event pattern of ${where} is ${shown(pattern)}; expected an object of fields, or an array of what the value may be.`,
    );
  }
  for (const [name, below] of Object.entries(pattern)) {
    const here = [...path, name];
    if (name === '$or') requireAlternatives(below, where, here, path);
    else if (!Array.isArray(below)) requireFields(below, where, here);
    else if (below.length === 0) refuse(below, where, here, 'at least one value');
    else for (const rule of below) requireRule(rule, where, here);
  }
}

function requireAlternatives(below: unknown, where: string, here: Path, path: Path): void {
  if (!Array.isArray(below) || below.length < 2)
    refuse(below, where, here, 'an array of two or more patterns');
  for (const one of below) requireFields(one, where, path);
}

function requireRule(rule: unknown, where: string, path: Path): void {
  if (rule === null || ['string', 'number', 'boolean'].includes(typeof rule)) return;
  const entries = isFields(rule) ? Object.entries(rule) : [];
  const [[name = '', operand] = []] = entries;
  const comparison = Object.hasOwn(comparisons, name) ? comparisons[name] : undefined;
  if (entries.length !== 1 || comparison === undefined) {
    refuse(rule, where, path, `a plain value or one of ${Object.keys(comparisons).join(', ')}`);
  }
  if (!comparison.takes(operand)) refuse(rule, where, path, `${name} with ${comparison.expects}`);
}

function refuse(received: unknown, where: string, path: Path, expected: string): never {
  throw new InvalidArgument(
    `${placeOf(path)} in the event pattern of ${where} has ${shown(received)}, which the local cloud does not know; it knows ${expected}.`,
  );
}

function leafMatches(rule: PatternRule, leaf: unknown): boolean {
  if (typeof rule !== 'object' || rule === null) return rule === leaf;
  return Object.entries(rule).every(([name, operand]) => comparisons[name]?.holds(operand, leaf) ?? false);
}

function isAbsence(rule: PatternRule): boolean {
  return typeof rule === 'object' && rule !== null && rule['exists'] === false;
}

function leavesAt(node: unknown, path: Path): readonly unknown[] {
  if (Array.isArray(node)) return node.flatMap((one) => leavesAt(one, path));
  const [name, ...below] = path;
  return name === undefined ? leavesIn(node) : leavesAt(fieldOf(node, name), below);
}

/** An object is none, and so `exists` does not see it. */
function leavesIn(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value.flatMap(leavesIn);
  return value === undefined || isFields(value) ? [] : [value];
}

function isAlternatives(name: string, below: unknown): below is readonly EventPattern[] {
  return name === '$or' && Array.isArray(below);
}

function isRules(below: EventPattern | readonly PatternRule[]): below is readonly PatternRule[] {
  return Array.isArray(below);
}

function fieldOf(node: unknown, name: string): unknown {
  return isFields(node) && Object.hasOwn(node, name) ? node[name] : undefined;
}

function placeOf(path: Path): string {
  return path.length === 0 ? 'The top' : path.join('.');
}

function shown(value: unknown): string {
  return JSON.stringify(value) ?? typeof value;
}
