import { type Fields, fieldsOf, isFields, jsonIn } from '../fields.ts';
import type { Report } from '../ports.ts';

type Told = Pick<Report, 'level' | 'kind' | 'message'> & { readonly fields?: Record<string, unknown> };

const LEVELS: Readonly<Record<string, Report['level']>> = {
  trace: 'debug',
  debug: 'debug',
  info: 'info',
  warn: 'warn',
  warning: 'warn',
  error: 'error',
  critical: 'error',
  fatal: 'error',
};

/** What a line of a function's log says. `usual` is the level of a line that names none. */
export function told(line: string, usual: Report['level']): Told {
  const json = line.startsWith('{') ? jsonIn(line) : undefined;
  if (!isFields(json)) return { kind: 'log', level: usual, message: line };
  return metricIn(json) ?? entryIn(json, line, usual);
}

function entryIn({ level, message, ...fields }: Fields, line: string, usual: Report['level']): Told {
  const named = typeof level === 'string' ? LEVELS[level.toLowerCase()] : undefined;
  const said = [message, fields['msg'], fields['decision']].find((text) => typeof text === 'string');
  return { kind: 'log', level: named ?? usual, message: typeof said === 'string' ? said : line, fields };
}

/** CloudWatch's embedded metric format: names of members in `_aws`, and the members themselves. */
function metricIn({ _aws: aws, ...members }: Fields): Told | undefined {
  const directives = fieldsOf(aws)['CloudWatchMetrics'];
  if (!Array.isArray(directives)) return undefined;
  const metricNames = directives.flatMap((directive) => listIn(directive, 'Metrics').map(nameOf));
  const dimensionNames = directives.flatMap((directive) => listIn(directive, 'Dimensions').flat());
  const metrics = pick(members, metricNames, isMeasured);
  const dimensions = pick(members, dimensionNames, () => true);
  if (Object.keys(metrics).length === 0) return undefined;
  const isProperty = ([name]: [string, unknown]) =>
    !Object.hasOwn(metrics, name) && !Object.hasOwn(dimensions, name);
  const properties = Object.fromEntries(Object.entries(members).filter(isProperty));
  const namespaces = directives.map((directive) => fieldsOf(directive)['Namespace']);
  const message = Object.entries(metrics).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return {
    kind: 'metric',
    level: 'info',
    message: message.join(' '),
    fields: { namespace: namespaces[0], metrics, dimensions, properties },
  };
}

function pick(members: Fields, names: readonly unknown[], isWanted: (value: unknown) => boolean): Fields {
  const isNamed = ([name, value]: [string, unknown]) => names.includes(name) && isWanted(value);
  return Object.fromEntries(Object.entries(members).filter(isNamed));
}

function isMeasured(value: unknown): boolean {
  return [value].flat().every((one) => typeof one === 'number');
}

function nameOf(metric: unknown): unknown {
  return fieldsOf(metric)['Name'];
}

function listIn(value: unknown, name: string): readonly unknown[] {
  const list = fieldsOf(value)[name];
  return Array.isArray(list) ? list : [];
}
