import { type FileHandle, mkdir, open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { OncekeyError } from '../../core/errors.ts';

/** The lines of what happened. A promise of `append` or `settled` that is kept means: a power failure forgets none of them. */
export interface Journal {
  append(line: string): Promise<void>;
  /** When everything is on disk that was appended so far. Rejects from the first line on that could not be written. */
  settled(): Promise<void>;
  erase(): Promise<void>;
  close(): Promise<void>;
}

/** What is in the folder cannot be read as what this writes. Nothing was changed. */
export class JournalUnreadable extends OncekeyError {
  override readonly remedy = 'inspect-record';
}

/** The disk refused, or somebody else writes to the same file. What was charged since cannot be proven. */
class JournalBroken extends OncekeyError {
  override readonly remedy = 'fix-deployment';
}

export function memoryJournal(): Journal {
  const done = async () => undefined;
  return { append: done, settled: done, erase: done, close: done };
}

const FILE = 'provider.jsonl';
const NEWLINE = 0x0a;

/**
 * `read` is given every line that is there. One that no newline ends was being written when the process died: nobody was
 * answered on its strength, so it is cut off, or the next line would be glued to it.
 */
export async function fileJournal(
  folder: string,
  read: (line: string, number: number) => void,
): Promise<Journal> {
  await mkdir(folder, { recursive: true });
  const path = join(folder, FILE);
  const handle = await open(path, 'a+');
  try {
    const whole = readLines(await readFile(path), (line, number) => {
      try {
        read(line, number);
      } catch (cause) {
        throw unreadable(path, number, cause);
      }
    });
    await handle.truncate(whole);
    await handle.sync();
    await syncFolder(folder);
    return journalOf(handle, path, whole);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** How many bytes the whole lines have. */
function readLines(bytes: Buffer, read: (line: string, number: number) => void): number {
  let start = 0;
  for (let number = 1; ; number += 1) {
    const end = bytes.indexOf(NEWLINE, start);
    if (end < 0) return start;
    read(bytes.toString('utf8', start, end), number);
    start = end + 1;
  }
}

function unreadable(path: string, number: number, cause: unknown): JournalUnreadable {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new JournalUnreadable(
    `Line ${number} of ${path} is not what the payment provider wrote: ${why} Without it nobody knows what was charged. Move the folder away to start with no charges, or restore the file.`,
    cause,
  );
}

/** A new file is only there for good when its folder says so. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Lines that come while others are written go to disk together: one flush costs the same for one and for a hundred. */
function journalOf(handle: FileHandle, path: string, from: number): Journal {
  let size = from;
  let gathering: string[] | undefined;
  let last: Promise<void> = Promise.resolve();

  /** After everything before it, and not at all if that failed. */
  function then(step: () => Promise<void>): Promise<void> {
    last = last.then(step);
    // Who appends may look at it later, or at `settled` instead.
    last.catch(() => undefined);
    return last;
  }

  async function write(lines: readonly string[]): Promise<void> {
    const found = await handle.stat();
    if (found.size !== size) {
      throw new JournalBroken(
        `${path} has ${found.size} bytes, and ${size} were written to it here. Does another payment provider use the folder? End one of them.`,
      );
    }
    const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''));
    try {
      await handle.appendFile(bytes);
      await handle.datasync();
    } catch (cause) {
      throw new JournalBroken(`${path} cannot be written: ${String(cause)}`, cause);
    }
    size += bytes.length;
  }

  return {
    append(line) {
      if (gathering) {
        gathering.push(line);
        return last;
      }
      const mine = [line];
      gathering = mine;
      return then(async () => {
        if (gathering === mine) gathering = undefined;
        await write(mine);
      });
    },
    settled: () => last,
    erase() {
      gathering = undefined;
      return then(async () => {
        await handle.truncate(0);
        await handle.datasync();
        size = 0;
      });
    },
    async close() {
      await last.catch(() => undefined);
      await handle.close();
    },
  };
}
