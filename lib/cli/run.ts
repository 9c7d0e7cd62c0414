import { InvalidArgument } from '../core/errors.ts';
import type { Command, Streams } from './command.ts';
import { local } from './local.ts';
import { template } from './template.ts';

const commands: Readonly<Record<string, Command>> = { local, template };

/** 0: done. 1: it failed. 2: the words are off. */
export async function run(words: readonly string[], streams: Streams): Promise<0 | 1 | 2> {
  const [name, ...rest] = words;
  if (name === undefined || name === '--help' || name === 'help') {
    streams.out(help());
    return 0;
  }
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (!command) {
    streams.err(`oncekey: there is no command ${name}.\n\n${help()}`);
    return 2;
  }
  if (rest.includes('--help')) {
    const { usage, about, details } = command;
    streams.out(`${[usage, about, ...(details === undefined ? [] : [details])].join('\n\n')}\n`);
    return 0;
  }
  try {
    await command.run(rest, streams);
    return 0;
  } catch (error) {
    streams.err(`oncekey ${name}: ${error instanceof Error ? error.message : String(error)}\n`);
    return error instanceof InvalidArgument ? 2 : 1;
  }
}

function help(): string {
  const lines = Object.entries(commands).map(([name, { about }]) => `  oncekey ${name.padEnd(12)}${about}`);
  return `oncekey: makes a POST safe to retry\n\n${lines.join('\n')}\n\noncekey <command> --help tells more.\n`;
}
