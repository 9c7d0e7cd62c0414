import type { StreamMappingModel } from '../../../lib/local/model.ts';
import type { Invoked, Report } from '../../../lib/local/ports.ts';
import type { Checkpoints } from '../../../lib/local/streams/checkpoints.ts';
import { streamPoller } from '../../../lib/local/streams/poller.ts';
import { fakeTime } from '../time.ts';
import { mapping, STREAM_ARN } from './changes.ts';
import { fakeStream } from './fake-stream.ts';

export const OK: Invoked = { kind: 'returned', payload: 'null' };
export const THREW: Invoked = { kind: 'failed', error: 'Unhandled', payload: '{"errorMessage":"down"}' };

type Answer = Invoked | Error | Promise<Invoked>;

/** A mapping over a stream, a function and a bucket that the test controls. */
export function pollerStage(more: Partial<StreamMappingModel> = {}, { pageRecords = 1_000 } = {}) {
  const time = fakeTime();
  const stream = fakeStream(time.clock, pageRecords);
  const model: StreamMappingModel = { ...mapping, ...more };
  const reports: Report[] = [];
  const batches: string[][] = [];
  const objects = new Map<string, string>();
  const world = {
    answer: (_: readonly string[]): Answer => OK,
    bucket: undefined as Error | undefined,
  };
  const functions = {
    async invoke(name: string, event: string): Promise<Invoked> {
      if (name !== model.functionName) throw new Error(`no function ${name}`);
      const numbers = numbersIn(event);
      batches.push(numbers);
      const answer = await world.answer(numbers);
      if (answer instanceof Error) throw answer;
      return answer;
    },
  };
  let ids = 0;
  const start = (checkpoints?: Checkpoints) =>
    streamPoller({
      ...{ model, streamArn: STREAM_ARN, client: stream.client, functions },
      objects: {
        async put(bucket, key, body) {
          if (world.bucket) throw world.bucket;
          objects.set(`${bucket}/${key}`, body);
          return { versionId: '1' };
        },
      },
      report: (report) => reports.push(report),
      ...{ clock: time.clock, timers: time.timers },
      ...(checkpoints && { checkpoints }),
      newId() {
        ids += 1;
        return `id-${ids}`;
      },
    });
  return {
    ...{ time, stream, model, reports, batches, objects, world, start },
    /** All that was invoked with, in its order. */
    seen: () => batches.flat(),
    told: (level: Report['level']) =>
      reports.filter((one) => one.level === level).map(({ message }) => message),
  };
}

function numbersIn(event: string): string[] {
  const { Records } = JSON.parse(event) as { Records: { dynamodb: { SequenceNumber: string } }[] };
  return Records.map(({ dynamodb }) => dynamodb.SequenceNumber);
}
