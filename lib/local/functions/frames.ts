/*
 * What passes between the pool and an environment, over a pipe of their own: a small JSON header and a text, each with its
 * length before it. A text of 6 MB is written and read as it is; in a JSON message each of its quotes would be escaped.
 */

/** To the environment. The text is the event. */
export interface Invocation {
  readonly requestId: string;
  readonly functionArn: string;
  /** By the wall clock of this machine, which both sides share. */
  readonly deadlineMs: number;
}

/**
 * From the environment. `began` is said before the handler is called: without it, nothing of the request has run. After
 * `fatal` it takes no more requests. The text of the last three is JSON.
 */
export interface Word {
  readonly type: 'ready' | 'began' | 'returned' | 'threw' | 'fatal';
}

const LENGTHS_BYTES = 8;

/** More than any frame of ours: a length above it is not a length, but something else that was written into the pipe. */
const FRAME_MAX_BYTES = 64 * 1024 * 1024;

export function frame(header: Invocation | Word, text = ''): Buffer {
  const head = Buffer.from(JSON.stringify(header));
  const body = Buffer.from(text);
  const lengths = Buffer.alloc(LENGTHS_BYTES);
  lengths.writeUInt32BE(head.length, 0);
  lengths.writeUInt32BE(body.length, 4);
  return Buffer.concat([lengths, head, body]);
}

/** Takes what arrives, in pieces of any size. Chunks are joined when a frame is whole, and not with each that arrives. */
export function frameReader<Header>(take: (header: Header, text: string) => void): (chunk: Buffer) => void {
  let chunks: Buffer[] = [];
  let have = 0;
  let need = LENGTHS_BYTES;
  return (chunk) => {
    chunks.push(chunk);
    have += chunk.length;
    while (have >= need) {
      const all = Buffer.concat(chunks);
      const headEnd = LENGTHS_BYTES + all.readUInt32BE(0);
      const end = headEnd + all.readUInt32BE(4);
      if (end > FRAME_MAX_BYTES) throw new RangeError(`A frame of ${end} bytes is none of ours.`);
      const whole = all.length >= end;
      const rest = whole ? all.subarray(end) : all;
      chunks = [rest];
      have = rest.length;
      need = whole ? LENGTHS_BYTES : end;
      if (whole) {
        const header: Header = JSON.parse(all.toString('utf8', LENGTHS_BYTES, headEnd));
        take(header, all.toString('utf8', headEnd, end));
      }
    }
  };
}
