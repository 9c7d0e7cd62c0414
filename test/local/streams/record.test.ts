import { OperationType } from '@aws-sdk/client-dynamodb-streams';
import { describe, expect, it } from 'vitest';
import { streamRecord } from '../../../lib/local/streams/record.ts';
import { STREAM_ARN, sdkRecord } from './changes.ts';

const AT = Date.UTC(2030, 0, 15, 12);
const read = (record: object) =>
  JSON.parse(streamRecord({ ...sdkRecord(7, { at: AT }), ...record }, STREAM_ARN, AT).text);

describe('a record', () => {
  it('is handed on as Lambda does, with the Region and the account that everything else has', () => {
    expect(read({})).toEqual({
      eventID: 'event-7',
      eventName: 'INSERT',
      eventVersion: '1.1',
      eventSource: 'aws:dynamodb',
      awsRegion: 'us-east-1',
      dynamodb: {
        ApproximateCreationDateTime: AT / 1_000,
        Keys: { pk: { S: 'a' }, sk: { S: 'record' } },
        NewImage: { pk: { S: 'a' }, sk: { S: 'record' }, status: { S: 'new' }, more: { S: '' } },
        SequenceNumber: '7',
        SizeBytes: 26,
        StreamViewType: 'NEW_AND_OLD_IMAGES',
      },
      eventSourceARN: 'arn:aws:dynamodb:us-east-1:000000000000:table/ledger/stream/2030-01-15T11:00:00.000',
    });
  });

  it('keeps numbers as the text that they are, and has bytes as base64, at any depth', () => {
    const bytes = new Uint8Array([1, 2, 255]);
    const NewImage = {
      n: { N: '12345678901234567890.10' },
      ns: { NS: ['1', '2.50'] },
      b: { B: bytes },
      bs: { BS: [bytes, new Uint8Array()] },
      l: { L: [{ B: bytes }, { M: { deep: { B: bytes } } }, { NULL: true }, { BOOL: false }] },
    };
    const { dynamodb } = read({ dynamodb: { ...sdkRecord(7).dynamodb, NewImage } });
    expect(dynamodb.NewImage).toEqual({
      n: { N: '12345678901234567890.10' },
      ns: { NS: ['1', '2.50'] },
      b: { B: 'AQL/' },
      bs: { BS: ['AQL/', ''] },
      l: { L: [{ B: 'AQL/' }, { M: { deep: { B: 'AQL/' } } }, { NULL: true }, { BOOL: false }] },
    });
  });

  it('has an empty map as one, at any depth, although the stream of DynamoDB Local leaves its type out', () => {
    const NewImage = { steps: {}, l: { L: [{}] }, m: { M: { deep: {} } }, none: { L: [] } };
    const { dynamodb } = read({ dynamodb: { ...sdkRecord(7).dynamodb, NewImage } });
    expect(dynamodb.NewImage).toEqual({
      steps: { M: {} },
      l: { L: [{ M: {} }] },
      m: { M: { deep: { M: {} } } },
      none: { L: [] },
    });
  });

  it('that TTL removed is told as DynamoDB tells it, although DynamoDB Local has a name of its own', () => {
    expect(Object.values(OperationType)).not.toContain('UNKNOWN_TO_SDK_VERSION');
    const { NewImage: OldImage, ...change } = sdkRecord(7).dynamodb;
    const removed = { eventName: 'UNKNOWN_TO_SDK_VERSION', dynamodb: { ...change, OldImage } };
    expect(read(removed)).toMatchObject({
      eventName: 'REMOVE',
      userIdentity: { type: 'Service', principalId: 'dynamodb.amazonaws.com' },
      dynamodb: { OldImage: { pk: { S: 'a' } } },
    });
  });

  it('that somebody removed has no identity, and one that the stream names is handed on', () => {
    expect(read({ eventName: 'REMOVE' })).not.toHaveProperty('userIdentity');
    expect(read({ userIdentity: { Type: 'Service', PrincipalId: 'somebody' } })).toMatchObject({
      userIdentity: { type: 'Service', principalId: 'somebody' },
    });
  });

  it('is of the same item as another with the same keys, in whatever order they are', () => {
    const keys = (Keys: object) =>
      streamRecord(
        { ...sdkRecord(1), dynamodb: { ...sdkRecord(1).dynamodb, Keys: { ...Keys } } },
        STREAM_ARN,
        0,
      ).item;
    const [pk, sk] = [{ S: 'a' }, { B: new Uint8Array([1]) }];
    expect(keys({ pk, sk })).toBe(keys({ sk, pk }));
    expect(keys({ pk, sk })).not.toBe(keys({ pk, sk: { B: new Uint8Array([2]) } }));
    expect(keys({ pk: { S: '1' } })).not.toBe(keys({ pk: { N: '1' } }));
  });
});

describe('when a record arrived', () => {
  const arrived = (createdAt: number, readAt: number) =>
    streamRecord(sdkRecord(1, { at: createdAt }), STREAM_ARN, readAt).arrivedAt;

  it('is when it was read, within the minute to which DynamoDB Local rounds', () => {
    expect(arrived(AT, AT + 42_000)).toBe(AT + 42_000);
  });

  it('is the end of that minute, for one that was read long after', () => {
    expect(arrived(AT, AT + 3_600_000)).toBe(AT + 59_999);
  });

  it('is when it was read, where the stream does not say', () => {
    const { ApproximateCreationDateTime: _, ...dynamodb } = sdkRecord(1).dynamodb;
    expect(streamRecord({ dynamodb }, STREAM_ARN, AT).arrivedAt).toBe(AT);
  });
});
