import { InvalidArgument, OncekeyError } from '../core/errors.ts';
import type { Command } from './command.ts';

class PackageMissing extends OncekeyError {
  override readonly remedy = 'fix-deployment';
}

export const template: Command = {
  usage: 'oncekey template',
  about: 'Prints the layer as CloudFormation, in JSON, for SAM, Terraform and SST.',
  async run(words, { out }) {
    if (words.length > 0) throw new InvalidArgument(`it takes no words; received ${words.join(' ')}.`);
    const { layerTemplate } = await import('../infra/template.ts').catch((error: unknown) => {
      if ((error as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw error;
      throw new PackageMissing(
        'aws-cdk-lib and constructs are needed to write the template; npm install them first.',
        error,
      );
    });
    out(`${JSON.stringify(layerTemplate(), null, 2)}\n`);
  },
};
