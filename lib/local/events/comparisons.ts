/** A comparison of EventBridge: what it may be given, and which leaf of an event it takes. */
interface Comparison {
  readonly expects: string;
  takes(operand: unknown): boolean;
  holds(operand: unknown, leaf: unknown): boolean;
}

const isText = (value: unknown): value is string => typeof value === 'string';
const isNumber = (value: unknown): value is number => typeof value === 'number';

const text = (holds: (leaf: string, operand: string) => boolean): Comparison => ({
  expects: 'a string',
  takes: isText,
  holds: (operand, leaf) => isText(operand) && isText(leaf) && holds(leaf, operand),
});

const prefix = text((leaf, start) => leaf.startsWith(start));

/** What an event must have is decided where its fields are known; see `exists` in pattern.ts. */
export const comparisons: Readonly<Record<string, Comparison>> = {
  exists: {
    expects: 'true or false',
    takes: (operand) => typeof operand === 'boolean',
    holds: (operand) => operand === true,
  },
  prefix,
  suffix: text((leaf, end) => leaf.endsWith(end)),
  'equals-ignore-case': text((leaf, other) => leaf.toLowerCase() === other.toLowerCase()),
  'anything-but': {
    expects: 'a string, a number, a list of strings or of numbers, or { "prefix": … }',
    takes: (operand) => isExclusion(operand) || prefixIn(operand) !== undefined,
    holds(operand, leaf) {
      const start = prefixIn(operand);
      if (start !== undefined) return !prefix.holds(start, leaf);
      return ![operand].flat().includes(leaf);
    },
  },
  numeric: {
    expects: 'an operator (<, <=, =, >, >=) and a number, once or twice',
    takes: (operand) => Array.isArray(operand) && boundsIn(operand) !== undefined,
    holds(operand, leaf) {
      const bounds = Array.isArray(operand) ? (boundsIn(operand) ?? []) : [];
      return isNumber(leaf) && bounds.length > 0 && bounds.every(([order, limit]) => order(leaf, limit));
    },
  },
};

function isExclusion(operand: unknown): boolean {
  if (!Array.isArray(operand)) return isText(operand) || isNumber(operand);
  return operand.length > 0 && (operand.every(isText) || operand.every(isNumber));
}

function prefixIn(operand: unknown): string | undefined {
  if (typeof operand !== 'object' || operand === null) return undefined;
  const [[name, start] = [], ...others] = Object.entries(operand);
  return name === 'prefix' && isText(start) && others.length === 0 ? start : undefined;
}

type Order = (leaf: number, limit: number) => boolean;

const ORDERS: ReadonlyMap<unknown, Order> = new Map<unknown, Order>([
  ['<', (leaf, limit) => leaf < limit],
  ['<=', (leaf, limit) => leaf <= limit],
  ['=', (leaf, limit) => leaf === limit],
  ['>', (leaf, limit) => leaf > limit],
  ['>=', (leaf, limit) => leaf >= limit],
]);

/** `[">", 0, "<=", 5]`: both must hold. */
function boundsIn(operand: readonly unknown[]): readonly (readonly [Order, number])[] | undefined {
  if (operand.length !== 2 && operand.length !== 4) return undefined;
  const bounds: [Order, number][] = [];
  for (let at = 0; at < operand.length; at += 2) {
    const [order, limit] = [ORDERS.get(operand[at]), operand[at + 1]];
    if (order === undefined || !isNumber(limit)) return undefined;
    bounds.push([order, limit]);
  }
  return bounds;
}
