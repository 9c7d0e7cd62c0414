import { InvalidArgument } from '../core/errors.ts';

/** How the local cloud is to be run. */
export interface LocalSettings {
  readonly port: number;
  /** Where everything is kept over a restart; without it, all is gone with the process. */
  readonly dataFolder: string | undefined;
  readonly fast: boolean;
  readonly json: boolean;
}

const DEFAULT_PORT = 3_000;

export const LOCAL_USAGE = 'oncekey local [--data DIR] [--fast] [--json]';

/** From the command line and the environment. Whatever is not understood is refused: nobody should wonder why nothing changed. */
export function localSettings(
  words: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): LocalSettings {
  let dataFolder: string | undefined;
  const flags = { fast: false, json: false };
  const rest = words.flatMap((word) => (word.startsWith('--data=') ? ['--data', word.slice(7)] : [word]));
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === '--fast' || word === '--json') flags[word === '--fast' ? 'fast' : 'json'] = true;
    else if (word === '--data') dataFolder = folderAfter(rest.shift());
    else throw new InvalidArgument(`there is no option ${word}. Usage: ${LOCAL_USAGE}`);
  }
  return { port: portIn(environment['PORT']), dataFolder, ...flags };
}

function folderAfter(word: string | undefined): string {
  if (word !== undefined && word !== '' && !word.startsWith('--')) return word;
  throw new InvalidArgument(`--data needs a folder, as in --data .oncekey. Usage: ${LOCAL_USAGE}`);
}

function portIn(text: string | undefined): number {
  if (text === undefined || text.trim() === '') return DEFAULT_PORT;
  const port = Number(text);
  if (Number.isSafeInteger(port) && port >= 1 && port <= 65_535) return port;
  throw new InvalidArgument(`PORT is ${text}; expected a number from 1 to 65535, as in PORT=4000 npm start.`);
}
