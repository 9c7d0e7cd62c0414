/** Node skips what it cannot decode, and a body with a hole in it would be fingerprinted or replayed as if whole. */
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/;

/**
 * Takes the URL-safe alphabet and missing padding too: a handler that returns either has already done its work, and
 * what it meant is beyond doubt.
 */
export function fromBase64(text: string): Uint8Array | undefined {
  if (!BASE64.test(text)) return undefined;
  const rest = text.length % 4;
  const isWhole = rest === 0 || (rest !== 1 && !text.endsWith('='));
  return isWhole ? new Uint8Array(Buffer.from(text, 'base64')) : undefined;
}
