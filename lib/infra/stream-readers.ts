import { Stack, Token } from 'aws-cdk-lib';
import type { TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { CfnEventSourceMapping } from 'aws-cdk-lib/aws-lambda';
import { CfnPipe } from 'aws-cdk-lib/aws-pipes';
import type { Construct, IConstruct } from 'constructs';

/** DynamoDB lets two readers share a shard of a stream; a third is throttled, and so are the other two. */
const READERS_MAX = 2;

/** Also those that somebody else adds to the same stream count, wherever they are in the app. */
export function requireTwoReaders(scope: Construct, table: TableV2): void {
  scope.node.addValidation({
    validate() {
      const stream = Stack.of(table).resolve(table.tableStreamArn);
      const readers = scope.node.root.node.findAll().filter((node) => sameArn(table, sourceOf(node), stream));
      if (readers.length <= READERS_MAX) return [];
      const paths = readers.map(({ node }) => node.path).join(', ');
      return [
        `The stream of ${table.node.path} has ${readers.length} readers (${paths}), and DynamoDB allows ${READERS_MAX}. Take one away, or read what it needs from EventBridge or from Kinesis Data Streams for DynamoDB.`,
      ];
    },
  });
}

/** What a node reads, if it is one that reads. */
function sourceOf(node: IConstruct): string | undefined {
  if (node instanceof CfnEventSourceMapping) return node.eventSourceArn;
  return node instanceof CfnPipe ? node.source : undefined;
}

function sameArn(table: TableV2, arn: string | undefined, stream: unknown): boolean {
  if (arn === undefined) return false;
  if (arn === table.tableStreamArn) return true;
  return Token.isUnresolved(arn) && JSON.stringify(Stack.of(table).resolve(arn)) === JSON.stringify(stream);
}
