import type { Assembly, Asset, TemplateResource } from './assembly.ts';
import { bucketArn, functionArn, queueArn, streamArn } from './identities.ts';
import { Complaint, placed } from './problem.ts';
import { Properties } from './properties.ts';
import { createResolver } from './resolver.ts';
import { scopeOf } from './scope.ts';

/** A resource with all that its model is made of. */
export interface Found {
  readonly resource: TemplateResource;
  readonly properties: Properties;
  /** What it is called here. */
  name(): string;
  /** What a Ref to it gives, by which others name it. */
  ref(): string;
}

/** What the templates make, and what leads to what. */
export interface Inventory {
  readonly all: readonly Found[];
  of(...types: readonly string[]): readonly Found[];
  /** The folder or file of a function's code, by its key in the bucket of assets. */
  asset(key: string): Asset | undefined;
  /** By name or ARN, with or without a version or an alias. */
  functionAt(reference: string): string;
  /** By the ARN of its stream. */
  tableOf(stream: string): string;
  bucketAt(arn: string): string;
  queueAt(arn: string): string;
}

const FUNCTION =
  /^(?:(?<arn>arn:[^:]*:lambda:[^:]*:\d{12}:function:)|\d{12}:function:)?(?<name>[A-Za-z0-9_-]+)(?::[A-Za-z0-9$_-]+)?$/;

export function createInventory(assembly: Assembly): Inventory {
  const resolver = createResolver(assembly);
  const all = assembly.stacks.flatMap((stack) =>
    [...stack.resources.values()]
      .filter((resource) => resolver.isMade(resource))
      .map((resource): Found => {
        const scope = scopeOf(stack, resource);
        return {
          resource,
          properties: new Properties(resolver, scope, resource.properties),
          name: () => placed(scope.place, () => resolver.nameOf(resource)),
          ref: () => placed(scope.place, () => resolver.refOf(resource)),
        };
      }),
  );
  const of = (...types: readonly string[]) => all.filter(({ resource }) => types.includes(resource.type));

  function leadsTo(what: string, types: readonly string[], reference: string, by: (name: string) => string) {
    const found = of(...types).find((one) => by(one.name()) === reference);
    if (found) return found;
    throw new Complaint(`it is ${reference}; expected ${what} of the app.`);
  }

  return {
    all,
    of,
    asset: (key) => assembly.assets.get(key),
    functionAt(reference) {
      const { arn, name = '' } = FUNCTION.exec(reference)?.groups ?? {};
      const wanted = arn === undefined ? functionArn(name) : `${arn}${name}`;
      const known = of('AWS::Lambda::Function').some((one) => functionArn(one.name()) === wanted);
      if (known) return name;
      throw new Complaint(`it leads to ${reference}; expected a function of the app.`);
    },
    tableOf(stream) {
      const table = leadsTo('the stream of a DynamoDB table', TABLES, stream, streamArn);
      if (table.properties.has('StreamSpecification')) return table.name();
      throw new Complaint(`the table ${table.name()} has no stream; give it a StreamSpecification.`);
    },
    bucketAt: (arn) => leadsTo('a bucket', ['AWS::S3::Bucket'], arn, bucketArn).name(),
    queueAt: (arn) => leadsTo('a queue', ['AWS::SQS::Queue'], arn, queueArn).name(),
  };
}

export const TABLES = ['AWS::DynamoDB::Table', 'AWS::DynamoDB::GlobalTable'] as const;
