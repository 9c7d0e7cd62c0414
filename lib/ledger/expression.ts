import { isDeepStrictEqual } from 'node:util';
import type { StepChange } from '../core/moves.ts';
import type { Delivery, LedgerRecord, Step } from '../core/record.ts';
import { dueAttributes, encode, encodeDelivery, encodeStep, type Item, stateAttributes } from './item.ts';

/** One named part of a condition. `#word` stands for the attribute `word`, unless `names` says otherwise. */
export interface Clause {
  readonly text: string;
  readonly values?: Item;
  readonly names?: Readonly<Record<string, string>>;
}

export interface Condition {
  readonly ConditionExpression: string;
  readonly ExpressionAttributeNames: Record<string, string>;
  readonly ExpressionAttributeValues?: Item;
}

export interface Change extends Condition {
  readonly UpdateExpression: string;
}

export function conditionOf(clauses: readonly Clause[]): Condition {
  return {
    ConditionExpression: clauses.map((clause) => clause.text).join(' AND '),
    ...placeholders(clauses),
  };
}

/**
 * The update that turns one state of a record into another, under a condition. It sets what differs, removes what the
 * new state does not have, and leaves alone whatever it does not know. Where the record is due is always written out,
 * or always left alone: the sentinel may have set it after `from` was read.
 */
export function updateOf(
  from: LedgerRecord,
  to: LedgerRecord,
  clauses: readonly Clause[],
  { step, keepDue = false, erase = false }: UpdateOptions = {},
): Change {
  const before = encode(from);
  const after = encode(to);
  const touched = (name: string) => !(keepDue && isDueAttribute(name));
  const sets: Clause[] = Object.entries(after)
    .filter(
      ([name, value]) => touched(name) && (isDueAttribute(name) || !isDeepStrictEqual(value, before[name])),
    )
    .map(([name, value]) => ({ text: `#${name} = :new_${name}`, values: { [`:new_${name}`]: value } }));
  const removes: Clause[] = stateAttributes
    .filter((name) => touched(name) && !(name in after))
    .map((name) => ({ text: `#${name}` }));
  if (to.effects === 'steps' && from.effects !== 'steps') sets.push(emptySteps);
  if (step?.step) sets.push(stepEntry(step.name, step.step));
  else if (step) removes.push({ text: '#steps.#step', names: { '#step': step.name } });
  if (erase) sets.push(...noResults(to));
  return update(sets, removes, clauses);
}

interface UpdateOptions {
  readonly step?: StepChange | undefined;
  readonly keepDue?: boolean;
  /** What its steps returned is taken out as well. */
  readonly erase?: boolean;
}

/** Each by its own path: of a step that is done, nothing else is touched. */
function noResults({ steps }: LedgerRecord): Clause[] {
  const done = [...steps].filter(([, { state }]) => state === 'done');
  return done.map(([name], index) => ({
    text: `#steps.#step${index}.#result = :noResult`,
    values: { ':noResult': '' },
    names: { [`#step${index}`]: name },
  }));
}

/** One entry of the map and nothing else: another entry, or the record's place in the due index, may be newer. */
export function stepUpdateOf(name: string, step: Step, clauses: readonly Clause[]): Change {
  return update([stepEntry(name, step)], [], clauses);
}

/** Likewise one event's delivery: the others may be newer. What was tried in vain until then is not held against the next. */
export function deliveryUpdateOf(
  index: number,
  delivery: Delivery | undefined,
  clauses: readonly Clause[],
): Change {
  const path = `#outbox[${index}].#delivery`;
  if (!delivery) return update([], [{ text: path }], clauses);
  const entry = { text: `${path} = :delivery`, values: { ':delivery': encodeDelivery(delivery) } };
  const counted = [{ text: '#dueTries' }, { text: '#dueError' }];
  return update([entry], delivery.state === 'claimed' ? [] : counted, clauses);
}

/** Of what is counted beside the records. Without a clause it always happens. */
export function countUpdateOf(
  actions: Readonly<Partial<Record<'SET' | 'ADD' | 'DELETE', readonly Clause[]>>>,
  clauses: readonly Clause[] = [],
): Partial<Condition> & Pick<Change, 'UpdateExpression'> {
  const done = Object.entries(actions);
  return {
    UpdateExpression: done.map(([verb, parts]) => action(verb, parts)).join(' '),
    ...(clauses.length > 0 && { ConditionExpression: conditionOf(clauses).ConditionExpression }),
    ...placeholders([...clauses, ...done.flatMap(([, parts]) => parts)]),
  };
}

function update(sets: readonly Clause[], removes: readonly Clause[], clauses: readonly Clause[]): Change {
  const condition = conditionOf(clauses);
  const placed = placeholders([...clauses, ...sets, ...removes]);
  const actions = [action('SET', sets), action('REMOVE', removes)].filter((text) => text !== '');
  return { ...condition, ...placed, UpdateExpression: actions.join(' ') };
}

function stepEntry(name: string, step: Step): Clause {
  return { text: '#steps.#step = :step', values: { ':step': encodeStep(step) }, names: { '#step': name } };
}

function isDueAttribute(name: string): boolean {
  return dueAttributes.some((attribute) => attribute === name);
}

/** A step is written by its path, and DynamoDB takes no path into a map that is not there. */
const emptySteps: Clause = { text: '#steps = if_not_exists(#steps, :noSteps)', values: { ':noSteps': {} } };

function action(verb: string, clauses: readonly Clause[]): string {
  return clauses.length > 0 ? `${verb} ${clauses.map((clause) => clause.text).join(', ')}` : '';
}

/** DynamoDB refuses placeholders that are defined but not used, so they are collected from the text itself. */
function placeholders(clauses: readonly Clause[]) {
  const names: Record<string, string> = {};
  const values: Item = {};
  for (const clause of clauses) {
    for (const [placeholder, word] of clause.text.matchAll(/#(\w+)/g)) names[placeholder] ??= word ?? '';
    Object.assign(values, clause.values);
  }
  for (const clause of clauses) Object.assign(names, clause.names);
  const hasValues = Object.keys(values).length > 0;
  return { ExpressionAttributeNames: names, ...(hasValues && { ExpressionAttributeValues: values }) };
}
