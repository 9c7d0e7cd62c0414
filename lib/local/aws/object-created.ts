import { type BucketModel, LOCAL_ACCOUNT, LOCAL_REGION } from '../model.ts';

export interface CreatedObject {
  readonly bucket: BucketModel;
  readonly key: string;
  readonly size: number;
  readonly etag: string;
  readonly versionId?: string;
  readonly id: string;
  readonly at: number;
  /** Grows with each put. */
  readonly sequence: number;
}

/** https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html. EventBridge's times have no milliseconds. */
export function objectCreated({ bucket, key, size, etag, versionId, id, at, sequence }: CreatedObject) {
  return {
    version: '0',
    id,
    'detail-type': 'Object Created',
    source: 'aws.s3',
    account: LOCAL_ACCOUNT,
    time: `${new Date(at).toISOString().slice(0, 19)}Z`,
    region: LOCAL_REGION,
    resources: [bucket.arn],
    detail: {
      version: '0',
      bucket: { name: bucket.name },
      object: {
        key,
        size,
        etag,
        ...(versionId !== undefined && { 'version-id': versionId }),
        sequencer: sequence.toString(16).toUpperCase().padStart(16, '0'),
      },
      'request-id': id,
      requester: LOCAL_ACCOUNT,
      'source-ip-address': '127.0.0.1',
      reason: 'PutObject',
    },
  };
}
