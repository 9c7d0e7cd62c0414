import { isFields } from '../fields.ts';
import type { EventPattern, PatternRule } from '../model.ts';
import { Complaint, shown } from './problem.ts';

/** Throws for a pattern with a comparison that nobody here can make. */
export type RequireKnownPattern = (pattern: EventPattern) => void;

/** `at`: the fields that lead to it. */
export function eventPattern(value: unknown, requireKnown: RequireKnownPattern): EventPattern {
  const pattern = fieldsAt(value, []);
  try {
    requireKnown(pattern);
  } catch (error) {
    throw new Complaint(error instanceof Error ? error.message : String(error), { cause: error });
  }
  return pattern;
}

function fieldsAt(value: unknown, at: readonly string[]): EventPattern {
  if (!isFields(value)) {
    throw new Complaint(
      `the event pattern has ${shown(value)}${at.length > 0 ? ` at ${at.join('.')}` : ''}; expected fields, and at their end a list of what a value may be.`,
    );
  }
  const entries = Object.entries(value).map(([field, rules]): [string, EventPattern[string]] => [
    field,
    Array.isArray(rules)
      ? rules.map((rule) => ruleAt(rule, [...at, field]))
      : fieldsAt(rules, [...at, field]),
  ]);
  return Object.fromEntries(entries);
}

function ruleAt(rule: unknown, at: readonly string[]): PatternRule {
  if (rule === null || isFields(rule)) return rule;
  if (typeof rule === 'string' || typeof rule === 'number' || typeof rule === 'boolean') return rule;
  throw new Complaint(
    `the event pattern has ${shown(rule)} at ${at.join('.')}; expected a value, or a comparison such as {"exists":false}.`,
  );
}
