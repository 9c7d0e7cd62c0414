import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { eachLine } from '../../../lib/local/functions/lines.ts';

async function linesOf(chunks: readonly (string | Uint8Array)[], maxChars?: number): Promise<string[]> {
  const source = new PassThrough();
  const lines: string[] = [];
  eachLine(source, (line) => lines.push(line), maxChars);
  for (const chunk of chunks) source.write(chunk);
  source.end();
  await new Promise((resolve) => source.once('close', resolve));
  return lines;
}

it('joins what arrives in pieces, also in the middle of a character, and needs no end', async () => {
  const bytes = Buffer.from('a€b');
  const lines = await linesOf([bytes.subarray(0, 2), bytes.subarray(2), '\nc\r\n\nd']);
  expect(lines).toEqual(['a€b', 'c', 'd']);
});

it('keeps the beginning of a line that is too long, and the next one whole', async () => {
  const chunks = ['0123456', '789ab', 'cdef', '0123456789\nnext\n0123456789\n0123456789abc'];
  expect(await linesOf(chunks, 10)).toEqual(['0123456789…', 'next', '0123456789', '0123456789…']);
});

it('survives bytes that are no text', async () => {
  const rubbish = Uint8Array.from({ length: 512 }, (_, index) => (index % 256 === 10 ? 0 : index % 256));
  const [line, ...others] = await linesOf([rubbish, '\nafter']);
  expect(line).toContain('ABC');
  expect(others).toEqual(['after']);
});
