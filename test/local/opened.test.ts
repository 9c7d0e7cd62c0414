import { describe, expect, it } from 'vitest';
import { Ended, Opened } from '../../lib/local/opened.ts';

function scene() {
  const closed: string[] = [];
  const part = (name: string, fails = false) => ({
    async close() {
      closed.push(name);
      if (fails) throw new Error(`${name} cannot be closed`);
    },
  });
  return { opened: new Opened(), closed, part };
}

describe('what was opened', () => {
  it('is handed back, and closed in the opposite order', async () => {
    const { opened, closed, part } = scene();
    const first = part('first');
    expect(await opened.keep(first)).toBe(first);
    await opened.keep(Promise.resolve(part('second')));
    await opened.close();
    expect(closed).toEqual(['second', 'first']);
  });

  it('is closed once, however often that is asked', async () => {
    const { opened, closed, part } = scene();
    await opened.keep(part('only'));
    await Promise.all([opened.close(), opened.close()]);
    await opened.close();
    expect(closed).toEqual(['only']);
  });

  it('is all closed, also when one of it cannot be, and the first failure is told', async () => {
    const { opened, closed, part } = scene();
    await opened.keep(part('first', true));
    await opened.keep(part('second'));
    await opened.keep(part('third', true));
    await expect(opened.close()).rejects.toThrow('third cannot be closed');
    expect(closed).toEqual(['third', 'second', 'first']);
  });

  it('too late is closed at once, and whoever opened it goes no further', async () => {
    const { opened, closed, part } = scene();
    const late = Promise.withResolvers<ReturnType<typeof part>>();
    const keeping = opened.keep(late.promise);
    await opened.close();
    late.resolve(part('late'));
    await expect(keeping).rejects.toBeInstanceOf(Ended);
    expect(closed).toEqual(['late']);
  });

  it('that never came to be leaves nothing to close', async () => {
    const { opened, closed } = scene();
    await expect(opened.keep(Promise.reject(new Error('no port')))).rejects.toThrow('no port');
    await opened.close();
    expect(closed).toEqual([]);
  });
});
