import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Checkpoint,
  type Checkpoints,
  fileCheckpoints,
  memoryCheckpoints,
} from '../../../lib/local/streams/checkpoints.ts';
import { STREAM_ARN } from './changes.ts';
import { OK, pollerStage, THREW } from './stage.ts';

const SECOND = 1_000;

let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'oncekey-checkpoints-'));
});
afterAll(async () => rm(folder, { recursive: true }));

const checkpoint: Checkpoint = {
  streamArn: STREAM_ARN,
  shards: { s1: { ended: true }, s2: { after: '000000000000000000012' }, s3: { since: 5 } },
};

describe('a file of checkpoints', () => {
  it('is read as it was written, in a folder that it makes', async () => {
    const path = join(folder, 'deep', 'sentinel.json');
    expect(await fileCheckpoints(path).load()).toBeUndefined();
    await fileCheckpoints(path).save(checkpoint);
    expect(await fileCheckpoints(path).load()).toEqual(checkpoint);
  });

  it('is replaced at once: what a dying process left half written is not read', async () => {
    const path = join(folder, 'replaced.json');
    await fileCheckpoints(path).save(checkpoint);
    await writeFile(`${path}.next`, '{"streamArn":"arn:aw');
    expect(await fileCheckpoints(path).load()).toEqual(checkpoint);
    await fileCheckpoints(path).save({ ...checkpoint, shards: {} });
    expect(JSON.parse(await readFile(path, 'utf8'))).toEqual({ ...checkpoint, shards: {} });
    expect(await readdir(folder)).not.toContain('replaced.json.next');
  });

  it.each([
    '',
    '{',
    '[]',
    '{"streamArn":"x"}',
    '{"streamArn":"x","shards":{"s1":{}}}',
    '{"streamArn":"x","shards":{"s1":{"after":7}}}',
    '{"shards":{}}',
  ])('that is none is refused with what to do: %s', async (text) => {
    const path = join(folder, 'odd.json');
    await writeFile(path, text);
    await expect(fileCheckpoints(path).load()).rejects.toThrow(`${path} is no checkpoint`);
    await expect(fileCheckpoints(path).load()).rejects.toThrow('Delete the file');
  });
});

describe('a restart', () => {
  /** Runs for a while, and stops as a process does. */
  async function runFor(
    ms: number,
    stage: ReturnType<typeof pollerStage>,
    checkpoints = memoryCheckpoints(),
  ) {
    const loaded = Promise.withResolvers<void>(); // A file is read in a time of its own.
    const load = () => checkpoints.load().finally(loaded.resolve);
    const poller = stage.start({ ...checkpoints, load });
    await loaded.promise;
    await stage.time.pass(ms);
    const closed = poller.close();
    await stage.time.pass(10 * SECOND);
    await closed;
  }

  it('goes on behind what is done, in each shard', async () => {
    const stage = pollerStage();
    const checkpoints = fileCheckpoints(join(folder, 'goes-on.json'));
    const { stream, seen } = stage;
    stream.open('s1');
    stream.write('s1', {}, {});
    stream.close('s1');
    stream.open('s2', 's1');
    stream.write('s2', {});
    await runFor(SECOND, stage, checkpoints);
    stream.write('s2', {});
    await runFor(SECOND, stage, checkpoints);
    expect(seen()).toEqual(['1', '2', '3', '4']);
  });

  it('does again what was not done, also where what is behind it was', async () => {
    const stage = pollerStage({ batchSize: 1, parallelBatches: 8 });
    const checkpoints = memoryCheckpoints();
    const { stream, world, seen } = stage;
    stream.open('s1');
    stream.write('s1', { item: 'a' }, { item: 'b' }, { item: 'c' });
    world.answer = ([number]) => (number === '2' ? THREW : OK);
    await runFor(100, stage, checkpoints);
    expect(await checkpoints.load()).toMatchObject({ shards: { s1: { after: '1' } } });
    const before = seen().length;
    world.answer = () => OK;
    await runFor(SECOND, stage, checkpoints);
    expect(seen().slice(before).sort()).toEqual(['2', '3']);
  });

  it('begins anew without a checkpoint', async () => {
    const stage = pollerStage();
    stage.stream.open('s1');
    stage.stream.write('s1', {});
    await runFor(SECOND, stage);
    await runFor(SECOND, stage);
    expect(stage.seen()).toEqual(['1', '1']);
  });

  it('begins anew where the checkpoint is of another stream: the table is not the one it was', async () => {
    const stage = pollerStage();
    const checkpoints = memoryCheckpoints();
    await checkpoints.save({ streamArn: `${STREAM_ARN}-before`, shards: { s1: { ended: true } } });
    stage.stream.open('s1');
    stage.stream.write('s1', {});
    await runFor(SECOND, stage, checkpoints);
    expect(stage.seen()).toEqual(['1']);
    expect((await checkpoints.load())?.streamArn).toBe(STREAM_ARN);
  });

  it('of a mapping that began at the latest gets what came while it was away, and nothing from before it began', async () => {
    const stage = pollerStage({ startAt: 'LATEST' });
    const checkpoints = memoryCheckpoints();
    const { stream, time, seen } = stage;
    stream.open('s1');
    stream.write('s1', {});
    await time.pass(3_600 * SECOND);
    await runFor(SECOND, stage, checkpoints);
    stream.write('s1', {});
    stream.open('s2', 's1');
    stream.write('s2', {});
    stream.close('s1');
    await runFor(SECOND, stage, checkpoints);
    expect(seen()).toEqual(['2', '3']);
  });

  it('after shards have vanished tells of what was open in them, and reads the others', async () => {
    const stage = pollerStage();
    const checkpoints = memoryCheckpoints();
    await checkpoints.save({
      streamArn: STREAM_ARN,
      shards: { open: { after: '1' }, ended: { ended: true }, there: { after: '1' } },
    });
    stage.stream.open('there', 'open');
    stage.stream.write('there', {}, {});
    await runFor(SECOND, stage, checkpoints);
    expect(stage.seen()).toEqual(['2']);
    expect(stage.told('warn')).toEqual([
      'The mapping Sentinel was not through with open, which the stream no longer has; what was in it is lost.',
    ]);
    expect((await checkpoints.load())?.shards).toEqual({ there: { after: '2' } });
  });

  it('with a checkpoint that cannot be read begins anew, and says so', async () => {
    const path = join(folder, 'unreadable.json');
    await writeFile(path, 'nonsense');
    const stage = pollerStage();
    stage.stream.open('s1');
    stage.stream.write('s1', {});
    await runFor(SECOND, stage, fileCheckpoints(path));
    expect(stage.seen()).toEqual(['1']);
    expect(stage.told('error')[0]).toContain(path);
    expect(await fileCheckpoints(path).load()).toMatchObject({ shards: { s1: { after: '1' } } });
  });
});

it('a checkpoint that cannot be saved is told once, and keeps nobody from the records', async () => {
  const stage = pollerStage({ batchSize: 1 });
  stage.stream.open('s1');
  stage.stream.write('s1', {}, {}, {});
  const checkpoints: Checkpoints = {
    load: async () => undefined,
    save: () => Promise.reject(new Error('no space left on device')),
  };
  const poller = stage.start(checkpoints);
  await stage.time.pass(SECOND);
  expect(stage.seen()).toEqual(['1', '2', '3']);
  expect(stage.told('error')).toHaveLength(1);
  await poller.close();
});
