import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';

/** 256 KB is what CloudWatch took of one event for years: more in one line was meant for something else. */
const LINE_MAX_CHARS = 256 * 1024;

/** Every line that a process writes, with its last one also if it has no end. Of a longer one, the beginning. */
export function eachLine(source: Readable, take: (line: string) => void, maxChars = LINE_MAX_CHARS): void {
  const decoder = new StringDecoder('utf8');
  let line = '';
  let isCut = false;

  const add = (text: string) => {
    if (isCut) return;
    line += text;
    if (line.length <= maxChars) return;
    isCut = true;
    take(`${line.slice(0, maxChars)}…`);
    line = '';
  };
  const end = () => {
    if (line !== '') take(line.endsWith('\r') ? line.slice(0, -1) : line);
    line = '';
    isCut = false;
  };

  source.on('data', (chunk: Buffer) => {
    const [first = '', ...others] = decoder.write(chunk).split('\n');
    add(first);
    for (const other of others) {
      end();
      add(other);
    }
  });
  source.on('close', () => {
    add(decoder.end());
    end();
  });
  source.on('error', () => {}); // The process is gone; 'close' follows.
}
