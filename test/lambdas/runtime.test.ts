import { describe, expect, it } from 'vitest';
import { optionalVariable, variable } from '../../lambdas/runtime/environment.ts';
import { objectReader } from '../../lambdas/runtime/failed-objects.ts';
import { goingOn } from '../../lambdas/runtime/go-on.ts';
import { invokedAgain } from '../../lambdas/runtime/invoked-again.ts';
import { quotaOf } from '../../lambdas/runtime/quota.ts';

describe('a backstop whose time ends', () => {
  const context = { invokedFunctionArn: 'arn:aws:lambda:eu-central-1:111122223333:function:backstop:live' };

  it('is gone on with where it stopped, by the same function, until all is looked through', async () => {
    const pages = ['a', 'b', undefined];
    const seen: unknown[] = [];
    const events: unknown[] = [{ source: 'aws.scheduler' }];
    const search = goingOn(
      async (event) => {
        seen.push(event);
        const from = pages.shift();
        return { watched: 1, failed: 0, ...(from !== undefined && { next: { segment: 0, from } }) };
      },
      async (name, event) => {
        expect(name).toBe(context.invokedFunctionArn);
        events.push(JSON.parse(Buffer.from(event).toString('utf8')));
      },
    );
    for (const event of events) await search(event, context);
    expect(seen).toEqual([{ source: 'aws.scheduler' }, { segment: 0, from: 'a' }, { segment: 0, from: 'b' }]);
  });

  it.each([
    ['from the start', {}, { segment: 0 }],
    ['from a page', { segment: 1, from: 'a' }, { segment: 1, from: 'a' }],
  ])('fails instead of going on for ever where it got nowhere %s', async (_, event, next) => {
    const invoked: string[] = [];
    const search = goingOn(
      async () => ({ watched: 0, failed: 0, next }),
      async (name) => void invoked.push(name),
      { segment: 0 },
    );
    await expect(search(event, context)).rejects.toThrow('give the function a minute or more');
    expect(invoked).toEqual([]);
  });

  it('fails where it cannot be gone on with, so that Lambda tries again', async () => {
    const stopped = async () => ({ watched: 0, failed: 0, next: { segment: 0, from: 'a' } });
    const refused = goingOn(stopped, () => Promise.reject(new Error('AccessDenied')));
    await expect(refused({}, context)).rejects.toThrow('AccessDenied');
    await expect(goingOn(stopped, async () => undefined)({}, {})).rejects.toThrow('names no function');
  });
});

describe('an on-failure object', () => {
  it('is read in the version that was announced', async () => {
    const asked: object[] = [];
    const read = objectReader({
      async getObject(input) {
        asked.push(input);
        return { Body: { transformToString: async () => '{}' } };
      },
    });
    expect(await read({ bucket: 'b', key: 'k', versionId: 'v' })).toBe('{}');
    await read({ bucket: 'b', key: 'k' });
    expect(asked).toEqual([
      { Bucket: 'b', Key: 'k', VersionId: 'v' },
      { Bucket: 'b', Key: 'k' },
    ]);
    await expect(objectReader({ getObject: async () => ({}) })({ bucket: 'b', key: 'k' })).rejects.toThrow(
      'no body',
    );
  });
});

describe('a variable', () => {
  it('that is empty is none', () => {
    expect(() => variable({ LEDGER_TABLE: ' ' }, 'LEDGER_TABLE', 'a name')).toThrow('LEDGER_TABLE is empty');
    expect(optionalVariable({ STRIPE_BASE_URL: '' }, 'STRIPE_BASE_URL')).toBeUndefined();
  });
});

it.each([
  [{}, undefined],
  [{ NEW_KEYS_PER_MINUTE: '600' }, { newKeysPerMinute: 600 }],
  [{ OPEN_KEYS: '50', NEW_KEYS_PER_MINUTE: '' }, { openKeys: 50 }],
  [
    { NEW_KEYS_PER_MINUTE: '600', OPEN_KEYS: '50' },
    { newKeysPerMinute: 600, openKeys: 50 },
  ],
])('the quota of %j is what it says', (environment, quota) => {
  expect(quotaOf(environment)).toEqual(quota);
});

describe('a function that failed', () => {
  const batch = { functionArn: 'arn:of:it', streamArn: undefined, condition: undefined, records: [] };
  const event = { Records: [{ eventID: '1' }] };

  it('is asked again with what it failed on, and says itself what it could not do', async () => {
    const answer = { batchItemFailures: [{ itemIdentifier: '7' }] };
    const again = invokedAgain({
      async invoke({ FunctionName, Payload }) {
        expect([FunctionName, JSON.parse(Buffer.from(Payload).toString())]).toEqual(['arn:of:it', event]);
        return { Payload: new Uint8Array(Buffer.from(JSON.stringify(answer))) };
      },
    });
    expect(await again(event, {}, batch)).toEqual(answer);
  });

  it('has done all where it says nothing', async () => {
    expect(await invokedAgain({ invoke: async () => ({}) })(event, {}, batch)).toBeUndefined();
  });

  it('has done nothing where it fails again', async () => {
    const again = invokedAgain({ invoke: async () => ({ FunctionError: 'Unhandled' }) });
    await expect(again(event, {}, batch)).rejects.toThrow('arn:of:it has failed again (Unhandled).');
  });
});
