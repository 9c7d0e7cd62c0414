import { InvalidArgument } from '../core/errors.ts';
import type { Command } from './command.ts';
import { needed } from './needed.ts';

export const template: Command = {
  usage: 'oncekey template',
  about: 'Prints the layer as CloudFormation, in JSON, for SAM, Terraform and SST.',
  async run(words, { out }) {
    if (words.length > 0) throw new InvalidArgument(`it takes no words; received ${words.join(' ')}.`);
    const load = () => import('../infra/template.ts');
    const { layerTemplate } = await needed(load, 'aws-cdk-lib and constructs', 'write the template');
    out(`${JSON.stringify(layerTemplate(), null, 2)}\n`);
  },
};
