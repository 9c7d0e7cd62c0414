import { InvalidArgument } from '../core/errors.ts';

/** How the local cloud is to be run. */
export interface LocalSettings {
  readonly port: number;
  /** Where everything is kept over a restart; without it, all is gone with the process. */
  readonly dataFolder: string | undefined;
  /** What was synthesised before, instead of the app of this folder. */
  readonly assembly: string | undefined;
  readonly fast: boolean;
  readonly json: boolean;
}

const DEFAULT_PORT = 3_000;

export const LOCAL_USAGE = 'oncekey local [--data DIR] [--assembly DIR] [--fast] [--json]';

/** From the command line and the environment. Whatever is not understood is refused: nobody should wonder why nothing changed. */
export function localSettings(
  words: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): LocalSettings {
  const folders: { '--data'?: string; '--assembly'?: string } = {};
  const flags = { '--fast': false, '--json': false };
  const rest = words.flatMap((word) => word.split(/(?<=^--\w+)=/));
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === '--fast' || word === '--json') flags[word] = true;
    else if (word === '--data' || word === '--assembly') folders[word] = folderAfter(word, rest.shift());
    else throw new InvalidArgument(`there is no option ${word}. Usage: ${LOCAL_USAGE}`);
  }
  return {
    port: portIn(environment['PORT']),
    dataFolder: folders['--data'],
    assembly: folders['--assembly'],
    fast: flags['--fast'],
    json: flags['--json'],
  };
}

function folderAfter(option: string, word: string | undefined): string {
  if (word !== undefined && word !== '' && !word.startsWith('--')) return word;
  throw new InvalidArgument(`${option} needs a folder, as in ${option} .oncekey. Usage: ${LOCAL_USAGE}`);
}

function portIn(text: string | undefined): number {
  if (text === undefined || text.trim() === '') return DEFAULT_PORT;
  const port = Number(text);
  if (Number.isSafeInteger(port) && port >= 1 && port <= 65_535) return port;
  throw new InvalidArgument(`PORT is ${text}; expected a number from 1 to 65535, as in PORT=4000 npm start.`);
}
