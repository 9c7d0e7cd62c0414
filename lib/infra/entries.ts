import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

/* The functions that come with the layer, by the path of their code: beside the sources here, beside the build in the package. */

export type ShippedFunction = 'sentinel' | 'backstop' | 'redrive' | 'default-sweep';

export function entryOf(name: ShippedFunction): string {
  return fileURLToPath(new URL(`../../lambdas/${name}/index${extname(import.meta.url)}`, import.meta.url));
}
