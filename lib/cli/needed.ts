import { OncekeyError } from '../core/errors.ts';

class PackageMissing extends OncekeyError {
  override readonly remedy = 'fix-deployment';
}

/** A part that needs packages which not everybody has: said by their names where they are missing. */
export async function needed<T>(load: () => Promise<T>, packages: string, whatFor: string): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new PackageMissing(`${packages} are needed to ${whatFor}; npm install them first.`, error);
  }
}
