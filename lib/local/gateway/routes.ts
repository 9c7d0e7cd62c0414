import { InvalidArgument } from '../../core/errors.ts';
import type { RouteModel } from '../model.ts';
import { decodedOnce } from './requested-path.ts';

/** A route, and what its path variables stand for in this request. */
export interface MatchedRoute {
  readonly route: RouteModel;
  readonly pathParameters: Readonly<Record<string, string>>;
}

interface Template {
  readonly route: RouteModel;
  readonly method: string;
  readonly segments: readonly Segment[];
}

interface Segment {
  readonly kind: 'literal' | 'variable' | 'greedy';
  readonly name: string;
}

const ROUTE_KEY = /^([A-Z]+) (\/\S*)$/;
const VARIABLE = /^\{([^{}+]+)(\+?)\}$/;

/**
 * The route that takes a request. A route that matches the whole path goes before a greedy one, and that before
 * `$default`; then the method itself before ANY, then what is literal further left.
 */
export function routeTable(
  routes: readonly RouteModel[],
): (method: string, segments: readonly string[]) => MatchedRoute | undefined {
  const templates = routes
    .filter(({ routeKey }) => routeKey !== '$default')
    .map(templateOf)
    .toSorted(bySpecificity);
  const fallback = routes.find(({ routeKey }) => routeKey === '$default');

  return (method, segments) => {
    for (const template of templates) {
      if (template.method !== 'ANY' && template.method !== method) continue;
      const pathParameters = matched(template.segments, segments);
      if (pathParameters) return { route: template.route, pathParameters };
    }
    return fallback && { route: fallback, pathParameters: {} };
  };
}

function templateOf(route: RouteModel): Template {
  const [, method, path] = ROUTE_KEY.exec(route.routeKey) ?? [];
  if (method === undefined || path === undefined) throw unreadable(route);
  const segments = path
    .slice(1)
    .split('/')
    .map((text): Segment => {
      const [, name, plus] = VARIABLE.exec(text) ?? [];
      if (name === undefined) return { kind: 'literal', name: text };
      return { kind: plus === '+' ? 'greedy' : 'variable', name };
    });
  if (segments.slice(0, -1).some(({ kind }) => kind === 'greedy')) throw unreadable(route);
  return { route, method, segments };
}

function unreadable({ routeKey }: RouteModel): InvalidArgument {
  return new InvalidArgument(
    `The route key is ${JSON.stringify(routeKey)}; expected a method and a path, as in "GET /payments/{id}" or "ANY /{proxy+}", or "$default".`,
  );
}

const RANK = { literal: 0, variable: 1, greedy: 2 } as const;

function bySpecificity(a: Template, b: Template): number {
  const greedy = Number(isGreedy(a)) - Number(isGreedy(b));
  const any = Number(a.method === 'ANY') - Number(b.method === 'ANY');
  return greedy || any || byKind(a.segments, b.segments);
}

function isGreedy({ segments }: Template): boolean {
  return segments.at(-1)?.kind === 'greedy';
}

function byKind(a: readonly Segment[], b: readonly Segment[]): number {
  for (const [index, { kind }] of a.entries()) {
    const other = b[index];
    if (other && kind !== other.kind) return RANK[kind] - RANK[other.kind];
  }
  return 0;
}

/** A variable stands for something: `/payments/` has no id, and is another path than `/payments`. */
function matched(
  template: readonly Segment[],
  segments: readonly string[],
): Record<string, string> | undefined {
  const variables: [string, string][] = [];
  for (const [index, { kind, name }] of template.entries()) {
    const segment = segments[index];
    if (segment === undefined) return undefined;
    if (kind === 'greedy') {
      const rest = segments.slice(index).join('/');
      return rest === '' ? undefined : Object.fromEntries([...variables, [name, decodedOnce(rest)]]);
    }
    if (kind === 'literal' ? segment !== name : segment === '') return undefined;
    if (kind === 'variable') variables.push([name, decodedOnce(segment)]);
  }
  return segments.length === template.length ? Object.fromEntries(variables) : undefined;
}
