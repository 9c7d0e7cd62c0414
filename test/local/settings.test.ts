import { describe, expect, it } from 'vitest';
import { InvalidArgument } from '../../lib/core/errors.ts';
import { localSettings } from '../../lib/local/settings.ts';

describe('the settings', () => {
  it('need nothing to be said', () => {
    expect(localSettings([], {})).toMatchObject({ port: 3_000, fast: false, json: false });
    expect(localSettings([], { PORT: ' ' }).port).toBe(3_000);
  });

  it('are those that are said, in any order', () => {
    const expected = { port: 4_000, dataFolder: 'kept', fast: true, json: true };
    for (const words of [
      ['--fast', '--json', '--data', 'kept'],
      ['--data=kept', '--json', '--fast'],
    ]) {
      expect(localSettings(words, { PORT: '4000' })).toMatchObject(expected);
    }
    expect(localSettings(['--data=a=b'], {}).dataFolder).toBe('a=b');
    expect(localSettings(['--assembly', 'cdk.out'], {}).assembly).toBe('cdk.out');
  });

  it.each([['--quick'], ['fast'], ['-f'], ['--data', 'a', 'b'], ['--fast=true'], ['']])(
    'take no %j: whoever mistypes one is told',
    (...words) => {
      expect(() => localSettings(words, {})).toThrow(InvalidArgument);
      expect(() => localSettings(words, {})).toThrow(/there is no option .*Usage: oncekey local/);
    },
  );

  it.each([[['--data']], [['--data=']], [['--data', '']], [['--data', '--fast']]])(
    'know no folder of %j',
    (words) => {
      expect(() => localSettings(words, {})).toThrow(/--data needs a folder/);
      const others = words.map((word) => word.replace('--data', '--assembly'));
      expect(() => localSettings(others, {})).toThrow(/--assembly needs a folder/);
    },
  );

  it.each(['0', '-1', '65536', '3000.5', 'http', 'NaN', '3000x', 'Infinity'])('know no port %j', (PORT) => {
    expect(() => localSettings([], { PORT })).toThrow(`PORT is ${PORT}; expected a number from 1 to 65535`);
  });
});
