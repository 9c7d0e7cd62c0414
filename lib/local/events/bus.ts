import { randomUUID } from 'node:crypto';
import { LOCAL_ACCOUNT, LOCAL_REGION, type RuleModel } from '../model.ts';
import type { EventBus, Functions, Reporter } from '../ports.ts';
import { matches, requireKnownPattern } from './pattern.ts';

export interface EventBusOptions {
  readonly rules: readonly RuleModel[];
  readonly functions: Pick<Functions, 'invokeLater'>;
  readonly report: Reporter;
  readonly clock?: () => number;
  readonly newId?: () => string;
}

/** The default event bus: an event goes to every function of every rule that it matches. */
export function eventBus({
  rules,
  functions,
  report,
  clock = Date.now,
  newId = randomUUID,
}: EventBusOptions): EventBus {
  for (const { name, pattern } of rules) requireKnownPattern(pattern, `the rule ${name}`);
  return {
    put(event) {
      const envelope = { ...fieldsOfBus(newId(), clock()), ...event };
      const text = JSON.stringify(envelope);
      const sent: unknown = JSON.parse(text); // What a function sees is also what a rule sees.
      for (const rule of rules.filter(({ pattern }) => matches(pattern, sent))) {
        for (const functionName of rule.functionNames) send(rule.name, functionName, text);
      }
    },
  };

  /** A target that cannot be invoked keeps nothing from the others. */
  function send(rule: string, functionName: string, text: string): void {
    try {
      functions.invokeLater(functionName, text);
      say('debug', `The rule ${rule} sent an event to ${functionName}.`, rule, functionName);
    } catch (error) {
      say('error', `The rule ${rule} could not invoke ${functionName}: ${error}.`, rule, functionName);
    }
  }

  function say(level: 'debug' | 'error', message: string, rule: string, functionName: string): void {
    const fields = { rule, functionName };
    report({ at: clock(), source: 'events', level, kind: 'platform', message, fields });
  }
}

/** What EventBridge adds, or whoever puts an event leaves out. */
export function fieldsOfBus(id: string, at: number) {
  return {
    version: '0',
    id,
    'detail-type': '',
    source: '',
    account: LOCAL_ACCOUNT,
    time: `${new Date(at).toISOString().slice(0, 19)}Z`,
    region: LOCAL_REGION,
    resources: [] as readonly string[],
    detail: {} as unknown,
  };
}
