import { describe, expect, it } from 'vitest';
import type { Invoked } from '../../../lib/local/ports.ts';
import { memoryCheckpoints } from '../../../lib/local/streams/checkpoints.ts';
import { STREAM_ARN } from './changes.ts';
import { OK, pollerStage, THREW } from './stage.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

describe('a shard', () => {
  it('is read in its order, page by page, and again and again', async () => {
    const { stream, time, start, batches } = pollerStage({}, { pageRecords: 2 });
    stream.open('s1');
    stream.write('s1', {}, {}, {});
    const poller = start();
    await time.pass(SECOND);
    stream.write('s1', {});
    await time.pass(SECOND);
    expect(batches.flat()).toEqual(['1', '2', '3', '4']);
    await poller.close();
  });

  it('is looked at four times a second while there is nothing', async () => {
    const { stream, time, start, batches } = pollerStage();
    stream.open('s1');
    const poller = start();
    await time.pass(MINUTE);
    stream.write('s1', {});
    await time.pass(250);
    expect(batches).toEqual([['1']]);
    await poller.close();
  });

  it('is read from its oldest record, or only for what comes', async () => {
    for (const [startAt, expected] of [
      ['TRIM_HORIZON', ['1', '2', '3']],
      ['LATEST', ['3']],
    ] as const) {
      const { stream, time, start, seen } = pollerStage({ startAt });
      stream.open('s1');
      stream.write('s1', {}, {});
      const poller = start();
      await time.pass(SECOND);
      stream.write('s1', {});
      await time.pass(SECOND);
      expect(seen()).toEqual(expected);
      await poller.close();
    }
  });

  it('is not asked for more than its function can do', async () => {
    const { stream, time, start, world, seen } = pollerStage({ batchSize: 1 }, { pageRecords: 500 });
    const never = new Promise<Invoked>(() => {});
    world.answer = () => never;
    stream.open('s1');
    stream.write('s1', ...Array.from({ length: 5_000 }, () => ({})));
    const poller = start();
    await time.pass(MINUTE);
    expect(seen()).toEqual(['1']);
    expect(stream.reads).toBe(2);
    const closed = poller.close();
    await time.pass(MINUTE);
    await closed;
  });
});

describe('shards', () => {
  it('are found on all pages of the description', async () => {
    const { stream, time, start, seen } = pollerStage();
    for (const id of ['s1', 's2', 's3', 's4', 's5']) {
      stream.open(id);
      stream.write(id, {});
    }
    const poller = start();
    await time.pass(SECOND);
    expect(seen().sort()).toEqual(['1', '2', '3', '4', '5']);
    await poller.close();
  });

  it('are read after all of their parents is done, also while it is only retried', async () => {
    const { stream, time, start, world, batches } = pollerStage();
    stream.open('parent');
    stream.write('parent', {}, {});
    stream.close('parent');
    stream.open('child', 'parent');
    stream.open('sister', 'parent');
    stream.write('child', {});
    stream.write('sister', {});
    let failures = 0;
    world.answer = () => {
      failures += 1;
      return failures <= 2 ? THREW : OK;
    };
    const poller = start();
    await time.pass(MINUTE);
    expect(batches.slice(0, 3)).toEqual([
      ['1', '2'],
      ['1', '2'],
      ['1', '2'],
    ]);
    expect(batches.slice(3).sort()).toEqual([['3'], ['4']]);
    await poller.close();
  });

  it('are found while the stream is read, and at once where one has ended', async () => {
    const { stream, time, start, seen } = pollerStage();
    stream.open('s1');
    const poller = start();
    await time.pass(SECOND);
    stream.write('s1', {});
    stream.close('s1');
    stream.open('s2', 's1');
    stream.write('s2', {});
    await time.pass(SECOND);
    expect(seen()).toEqual(['1', '2']);
    stream.open('s3');
    stream.write('s3', {});
    await time.pass(10 * SECOND);
    expect(seen()).toEqual(['1', '2', '3']);
    await poller.close();
  });

  it('whose parents are trimmed are read', async () => {
    const { stream, time, start, seen } = pollerStage();
    stream.open('s2', 's1');
    stream.write('s2', {});
    const poller = start();
    await time.pass(SECOND);
    expect(seen()).toEqual(['1']);
    await poller.close();
  });

  it('of a mapping that begins at the latest are passed over where they are closed, and children read whole', async () => {
    const { stream, time, start, seen } = pollerStage({ startAt: 'LATEST' });
    stream.open('s1');
    stream.write('s1', {});
    stream.close('s1');
    stream.open('s2', 's1');
    stream.write('s2', {});
    const poller = start();
    await time.pass(SECOND);
    stream.write('s2', {});
    stream.close('s2');
    stream.open('s3', 's2');
    stream.write('s3', {});
    await time.pass(SECOND);
    expect(seen()).toEqual(['3', '4']);
    await poller.close();
  });

  it('that vanish are told of, what was read of them is done, and their children are read', async () => {
    const { stream, time, start, world, seen, told } = pollerStage();
    stream.open('s1');
    stream.write('s1', {});
    stream.open('s2', 's1');
    stream.write('s2', {});
    world.answer = () => (time.clock() < time.start + MINUTE ? THREW : OK);
    const poller = start();
    await time.pass(10 * SECOND);
    stream.remove('s1');
    await time.pass(2 * MINUTE);
    expect(new Set(seen())).toEqual(new Set(['1', '2']));
    expect(seen().at(-1)).toBe('2');
    expect(told('warn').filter((message) => message.includes('gone'))).toHaveLength(1);
    await poller.close();
  });
});

describe('an iterator', () => {
  it('that has expired is asked for again, behind the last record that was read', async () => {
    const { stream, time, start, seen } = pollerStage();
    stream.open('s1');
    stream.write('s1', {});
    const poller = start();
    await time.pass(SECOND);
    time.sleep(HOUR);
    stream.write('s1', {});
    await time.pass(SECOND);
    expect(seen()).toEqual(['1', '2']);
    expect(stream.asked).toEqual(['s1 TRIM_HORIZON', 's1 AFTER_SEQUENCE_NUMBER 1']);
    await poller.close();
  });

  it('at the latest that has expired loses nothing of what came meanwhile', async () => {
    const { stream, time, start, seen } = pollerStage({ startAt: 'LATEST' }, { pageRecords: 2 });
    stream.open('s1');
    stream.write('s1', {}, {}, {});
    await time.pass(HOUR);
    const poller = start();
    await time.pass(SECOND);
    stream.write('s1', {});
    time.sleep(HOUR);
    stream.write('s1', {});
    await time.pass(SECOND);
    expect(seen()).toEqual(['4', '5']);
    await poller.close();
  });

  it('to what is trimmed goes on with the oldest that there is, and says that something is lost', async () => {
    const { stream, time, start, seen, told } = pollerStage();
    stream.open('s1');
    stream.write('s1', {});
    const poller = start();
    await time.pass(SECOND);
    stream.write('s1', {}, {});
    stream.trim('s1');
    stream.write('s1', {});
    await time.pass(SECOND);
    expect(seen()).toEqual(['1', '4']);
    expect(told('warn')).toHaveLength(1);
    expect(told('warn')[0]).toContain('trimmed');
    await poller.close();
  });
});

describe('a stream that is away', () => {
  it('is told of once, asked with growing pauses, and read on when it is back', async () => {
    const { stream, time, start, seen, told } = pollerStage();
    stream.open('s1');
    stream.open('s2');
    stream.write('s1', {});
    const poller = start();
    await time.pass(SECOND);
    stream.fail(new Error('connect ECONNREFUSED 127.0.0.1:8000'));
    await time.pass(10 * MINUTE);
    expect(poller.idle()).toBe(true);
    stream.fail(undefined);
    stream.write('s2', {});
    await time.pass(20 * SECOND);
    expect(seen()).toEqual(['1', '2']);
    expect(told('error')).toEqual([
      'The mapping Sentinel cannot go on: Error: connect ECONNREFUSED 127.0.0.1:8000. It tries again until it can.',
    ]);
    expect(told('info')).toEqual(['The mapping Sentinel goes on.']);
    await poller.close();
  });

  it('is told of again when it is away again', async () => {
    const { stream, time, start, told } = pollerStage();
    stream.open('s1');
    const poller = start();
    for (let outages = 0; outages < 2; outages += 1) {
      stream.fail(new Error('down'));
      await time.pass(MINUTE);
      stream.fail(undefined);
      await time.pass(MINUTE);
    }
    expect([told('error').length, told('info').length]).toEqual([2, 2]);
    await poller.close();
  });

  it('from the beginning is waited for', async () => {
    const { stream, time, start, seen } = pollerStage();
    stream.fail(new Error('not yet'));
    const poller = start();
    await time.pass(MINUTE);
    expect(poller.idle()).toBe(false);
    stream.fail(undefined);
    stream.open('s1');
    stream.write('s1', {});
    await time.pass(20 * SECOND);
    expect(seen()).toEqual(['1']);
    await poller.close();
  });
});

describe('what is given up', () => {
  it('goes to the destination as Lambda writes it, and the shard goes on', async () => {
    const { stream, time, start, world, objects, seen, told } = pollerStage({ retries: 1, batchSize: 2 });
    world.answer = (numbers) => (numbers.includes('1') ? THREW : OK);
    stream.open('s1');
    stream.write('s1', { item: 'a' }, { item: 'b' }, { item: 'c' });
    const poller = start();
    await time.pass(2 * SECOND);
    expect(seen()).toEqual(['1', '2', '1', '2', '3']);
    const [[place = '', text = ''] = []] = [...objects];
    expect(place).toMatch(
      /^failures\/aws\/lambda\/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\/s1\/2030\/01\/15\/2030-01-15T12\.00\.01-id-\d$/,
    );
    const { payload, ...body } = JSON.parse(text);
    expect(body).toEqual({
      requestContext: {
        requestId: expect.stringMatching(/^id-/),
        functionArn: 'arn:aws:lambda:us-east-1:000000000000:function:sentinel',
        condition: 'RetryAttemptsExhausted',
        approximateInvokeCount: 2,
      },
      responseContext: { statusCode: 200, executedVersion: '$LATEST', functionError: 'Unhandled' },
      version: '1.0',
      timestamp: '2030-01-15T12:00:01.000Z',
      DDBStreamBatchInfo: {
        shardId: 's1',
        startSequenceNumber: '1',
        endSequenceNumber: '2',
        approximateArrivalOfFirstRecord: '2030-01-15T12:00:00Z',
        approximateArrivalOfLastRecord: '2030-01-15T12:00:00Z',
        batchSize: 2,
        streamArn: STREAM_ARN.replace('ddblocal', 'us-east-1'),
      },
    });
    expect(JSON.parse(payload).Records).toMatchObject([
      { dynamodb: { SequenceNumber: '1', Keys: { pk: { S: 'a' } } } },
      { dynamodb: { SequenceNumber: '2', Keys: { pk: { S: 'b' } } } },
    ]);
    expect(told('error')).toHaveLength(1);
    await poller.close();
  });

  it('before it was ever sent has no response', async () => {
    const { stream, time, start, objects, batches } = pollerStage({ maxAgeMs: HOUR });
    stream.open('s1');
    stream.write('s1', { at: time.clock() - 2 * HOUR });
    const poller = start();
    await time.pass(SECOND);
    expect(batches).toEqual([]);
    const body = JSON.parse([...objects.values()][0] ?? '');
    expect(body.requestContext).toMatchObject({ condition: 'RecordAgeExceeded', approximateInvokeCount: 0 });
    expect(body).not.toHaveProperty('responseContext');
    await poller.close();
  });

  it('expires after a day, however many retries there are', async () => {
    const { stream, time, start, world, objects } = pollerStage();
    world.answer = () => THREW;
    stream.open('s1');
    stream.write('s1', {});
    const poller = start();
    await time.pass(MINUTE);
    time.sleep(24 * HOUR - 3 * MINUTE);
    await time.pass(MINUTE);
    expect(objects.size).toBe(0);
    await time.pass(3 * MINUTE);
    expect([...objects.values()].map((text) => JSON.parse(text).requestContext.condition)).toEqual([
      'RecordAgeExceeded',
    ]);
    await poller.close();
  });

  it('waits for a destination that is away, which is told once', async () => {
    const { stream, time, start, world, objects, seen, told } = pollerStage({ retries: 0, batchSize: 1 });
    world.answer = (numbers) => (numbers.includes('1') ? THREW : OK);
    world.bucket = new Error('no bucket');
    stream.open('s1');
    stream.write('s1', {}, {});
    const poller = start();
    await time.pass(10 * MINUTE);
    expect([seen(), objects.size, poller.idle()]).toEqual([['1'], 0, false]);
    expect(told('error').filter((message) => message.includes('no bucket'))).toHaveLength(1);
    world.bucket = undefined;
    await time.pass(2 * MINUTE);
    expect([seen(), objects.size, poller.idle()]).toEqual([['1', '2'], 1, true]);
    await poller.close();
  });

  it('is told of as lost where there is no destination', async () => {
    const { model, stream, time, start, world, told, seen } = pollerStage({ retries: 0, batchSize: 1 });
    const { onFailure: _, ...withoutDestination } = model;
    Object.assign(model, { ...withoutDestination, onFailure: undefined });
    world.answer = (numbers) => (numbers.includes('1') ? THREW : OK);
    stream.open('s1');
    stream.write('s1', {}, {});
    const poller = start();
    await time.pass(SECOND);
    expect(seen()).toEqual(['1', '2']);
    expect(told('error')).toEqual([
      'sentinel has lost 1 records of s1 (RetryAttemptsExhausted): the mapping has no on-failure destination.',
    ]);
    await poller.close();
  });
});

describe('a function', () => {
  it('that cannot be invoked at all costs the records nothing', async () => {
    const { stream, time, start, world, objects, told } = pollerStage({ retries: 0 });
    let tries = 0;
    world.answer = () => {
      tries += 1;
      return tries <= 3 ? new Error('no function sentinel') : OK;
    };
    stream.open('s1');
    stream.write('s1', {});
    const poller = start();
    await time.pass(MINUTE);
    expect([tries, objects.size, poller.idle()]).toEqual([4, 0, true]);
    expect(told('error')[0]).toContain('no function sentinel');
    await poller.close();
  });

  it('is measured by the age of the last record that it is sent, each time', async () => {
    const { stream, time, start, world, reports } = pollerStage({ windowMs: 60_000 });
    let tries = 0;
    world.answer = () => {
      tries += 1;
      return tries === 1 ? THREW : OK;
    };
    stream.open('s1');
    const poller = start();
    await time.pass(0);
    stream.write('s1', {});
    await time.pass(30 * SECOND);
    stream.write('s1', {});
    await time.pass(40 * SECOND);
    const ages = reports.filter(({ kind }) => kind === 'metric');
    expect(ages).toMatchObject([
      { source: 'sentinel', message: 'IteratorAge', fields: { name: 'IteratorAge', unit: 'Milliseconds' } },
      { source: 'sentinel' },
    ]);
    expect(ages.map(({ fields }) => fields?.['value'])).toEqual([30_000, 31_000]);
    await poller.close();
  });
});

describe('idle', () => {
  it('is said only when it has looked and everything it read is done', async () => {
    const { stream, time, start, world } = pollerStage();
    let answer = (_: Invoked) => {};
    world.answer = () => new Promise((resolve) => (answer = resolve));
    stream.open('s1');
    stream.write('s1', {});
    const poller = start();
    expect(poller.idle()).toBe(false);
    await time.pass(SECOND);
    expect(poller.idle()).toBe(false);
    answer(OK);
    await time.pass(SECOND);
    expect(poller.idle()).toBe(true);
    await poller.close();
  });
});

describe('close', () => {
  /** A poller that is closed while a function is at work on its only record. */
  async function closedWhileHandled(more: Parameters<typeof pollerStage>[0] = {}) {
    const stage = pollerStage(more);
    const answered = Promise.withResolvers<Invoked>();
    stage.world.answer = () => answered.promise;
    stage.stream.open('s1');
    stage.stream.write('s1', {});
    const checkpoints = memoryCheckpoints();
    const poller = stage.start(checkpoints);
    await stage.time.pass(SECOND);
    return { ...stage, checkpoints, closed: poller.close(), answer: answered.resolve };
  }

  it('leaves no timer, and sends nothing more', async () => {
    const { stream, time, start, seen } = pollerStage({ parallelBatches: 3 });
    stream.open('s1');
    stream.open('s2');
    stream.write('s1', {});
    const poller = start();
    await time.pass(SECOND);
    await Promise.all([poller.close(), poller.close()]);
    expect(time.waiting).toBe(0);
    stream.write('s1', {});
    await time.pass(HOUR);
    expect(seen()).toEqual(['1']);
  });

  it('waits for what is under way, and counts it where it ends well', async () => {
    const { time, checkpoints, closed, answer } = await closedWhileHandled();
    answer(OK);
    await closed;
    expect(await checkpoints.load()).toEqual({ streamArn: STREAM_ARN, shards: { s1: { after: '1' } } });
    expect(time.waiting).toBe(0);
  });

  it('counts no failure of what is under way: the function may have been ended by the same hand', async () => {
    const { time, checkpoints, closed, answer, objects, told } = await closedWhileHandled({ retries: 0 });
    answer({ kind: 'failed', error: 'Crash', payload: '{}' });
    await closed;
    await time.pass(MINUTE);
    expect([objects.size, (await checkpoints.load())?.shards]).toEqual([0, {}]);
    expect(told('warn')).toEqual([]);
  });

  it('does not wait for long, and what ends after that counts for nothing', async () => {
    const { time, checkpoints, closed, answer } = await closedWhileHandled();
    await time.pass(5 * SECOND);
    await closed;
    answer(OK);
    await time.pass(SECOND);
    expect((await checkpoints.load())?.shards).toEqual({});
    expect(time.waiting).toBe(0);
  });

  it('works before it has begun, and while the stream is away', async () => {
    const before = pollerStage();
    await before.start().close();
    expect(before.time.waiting).toBe(0);

    const away = pollerStage();
    away.stream.fail(new Error('down'));
    const poller = away.start();
    await away.time.pass(MINUTE);
    await poller.close();
    expect(away.time.waiting).toBe(0);
  });
});

it('a filter that could not be followed is refused at the start', () => {
  const { start } = pollerStage({ filters: [{ eventName: ['INSERT'] }, { eventName: [{ cidr: 'x' }] }] });
  expect(() => start()).toThrow('filter 2 of the mapping Sentinel');
});
