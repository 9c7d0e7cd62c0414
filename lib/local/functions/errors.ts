import { OncekeyError } from '../../core/errors.ts';

/** Nothing of the cloud has this name. */
export class FunctionUnknown extends OncekeyError {
  override readonly remedy = 'fix-deployment';

  constructor(name: string, known: Iterable<string>) {
    super(
      `There is no function ${JSON.stringify(name)}; the templates have ${[...known].join(', ') || 'none'}.`,
    );
  }
}

/** A function's code is not where the template says. */
export class CodeMissing extends OncekeyError {
  override readonly remedy = 'fix-deployment';

  constructor(name: string, codeDir: string) {
    super(
      `The code of ${name} should be in the folder ${codeDir}, and there is none; synthesise the app again.`,
    );
  }
}
