/** What sort of value this is, for error messages: they reach logs, so they never quote the value itself. */
export function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value !== 'object') return Number.isNaN(value) ? 'NaN' : `a ${typeof value}`;
  if (Array.isArray(value)) return 'an array';
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return 'bytes';
  if (isStream(value)) return 'a stream';
  const tag = Object.prototype.toString.call(value).slice('[object '.length, -1);
  if (tag === 'Object') return 'an object';
  return /^[AEIO]/.test(tag) ? `an ${tag}` : `a ${tag}`;
}

function isStream(value: object): boolean {
  const { pipe, getReader } = value as { pipe?: unknown; getReader?: unknown };
  return typeof pipe === 'function' || typeof getReader === 'function' || Symbol.asyncIterator in value;
}
