import fc from 'fast-check';
import { expect, it } from 'vitest';
import { frame, frameReader, type Word } from '../../../lib/local/functions/frames.ts';

const word = fc.constantFrom<Word['type']>('ready', 'began', 'returned', 'threw', 'fatal');

it('brings every frame whole and in order, in whatever pieces it arrives', () => {
  const frames = fc.array(fc.tuple(word, fc.string({ unit: 'binary', maxLength: 300 })), { maxLength: 8 });
  fc.assert(
    fc.property(frames, fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }), (sent, sizes) => {
      const taken: [string, string][] = [];
      const read = frameReader<Word>(({ type }, text) => taken.push([type, text]));
      const bytes = Buffer.concat(sent.map(([type, text]) => frame({ type }, text)));
      for (let at = 0, piece = 0; at < bytes.length; piece += 1) {
        const size = sizes[piece % sizes.length] ?? 1;
        read(bytes.subarray(at, at + size));
        at += size;
      }
      expect(taken).toEqual(sent.map(([type, text]) => [type, Buffer.from(text).toString()]));
    }),
  );
});

it('takes a length for what it is: none of ours, when a function wrote into the pipe', () => {
  const read = frameReader<Word>(() => expect.unreachable());
  expect(() => read(Buffer.from('console.log of somebody'))).toThrow('none of ours');
});
