import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { ObjectStore } from '../ports.ts';
import { type AwsAnswer, AwsError, type AwsRequest, NotRunHere, type Serve } from './answers.ts';
import { withoutChunks } from './aws-chunked.ts';
import { BucketUnknown } from './objects.ts';

interface Place {
  readonly bucket: string;
  readonly key: string;
}

/** What may stand in a request without changing what is asked: how it is signed, and checksums that TCP makes needless here. */
const HARMLESS =
  /^x-amz-(content-sha256|date|security-token|user-agent|decoded-content-length|trailer|sdk-checksum-algorithm|checksum-.+)$/;

/** Conditions and parts: whoever ignored them would answer something else than was asked. */
const SELECTIVE = /^(x-amz-.+|if-.+|range)$/;

/** GetObject and PutObject, with the bucket in the path: so the SDK writes it where the endpoint is an IP address. */
export function s3Service(objects: ObjectStore): Serve {
  return async (request) => {
    const place = placeIn(request.path);
    requireKnown(request, place);
    try {
      return request.method === 'PUT' ? await put(request, place) : await get(request, place);
    } catch (error) {
      if (!(error instanceof BucketUnknown)) throw error;
      const details = { BucketName: place.bucket };
      throw new AwsError(404, 'NoSuchBucket', 'The specified bucket does not exist', details);
    }
  };

  async function put({ headers, body: sent }: AwsRequest, { bucket, key }: Place): Promise<AwsAnswer> {
    const bytes = withoutChunks(sent, headers);
    if (!isUtf8(bytes)) throw new NotRunHere('objects of S3 that are no text');
    const body = bytes.toString('utf8');
    const { versionId } = await objects.put(bucket, key, body);
    return {
      status: 200,
      headers: { etag: etagOf(body), ...(versionId !== 'null' && versionOf(versionId)) },
    };
  }

  async function get({ query }: AwsRequest, { bucket, key }: Place): Promise<AwsAnswer> {
    const versionId = query.get('versionId') ?? undefined;
    const body = await objects.get(bucket, key, versionId);
    if (body !== undefined) {
      const headers = { 'content-type': 'binary/octet-stream', etag: etagOf(body) };
      return { status: 200, headers: { ...headers, ...(versionId && versionOf(versionId)) }, body };
    }
    if (versionId === undefined) {
      throw new AwsError(404, 'NoSuchKey', 'The specified key does not exist.', { Key: key });
    }
    const message = 'The specified version does not exist.';
    throw new AwsError(404, 'NoSuchVersion', message, { Key: key, VersionId: versionId });
  }
}

function placeIn(path: string): Place {
  const [, bucket = '', ...key] = path.split('/');
  try {
    return { bucket: decodeURIComponent(bucket), key: decodeURIComponent(key.join('/')) };
  } catch {
    throw new AwsError(400, 'InvalidURI', "Couldn't parse the specified URI.");
  }
}

function requireKnown({ method, query, headers }: AwsRequest, { bucket, key }: Place): void {
  const known = method === 'GET' ? ['x-id', 'versionId'] : ['x-id'];
  const options = [
    ...[...query.keys()].filter((name) => !known.includes(name)),
    ...Object.keys(headers).filter((name) => SELECTIVE.test(name) && !HARMLESS.test(name)),
  ];
  if (options.length === 0 && bucket !== '' && key !== '' && ['GET', 'PUT'].includes(method)) return;
  const given = options.length > 0 ? ` with ${options.join(', ')}` : '';
  throw new NotRunHere(`${method} of ${key === '' ? 'a bucket' : 'an object'} of S3${given}`);
}

function versionOf(versionId: string): Record<string, string> {
  return { 'x-amz-version-id': versionId };
}

/** As S3 makes it of an object that came in one piece. */
function etagOf(body: string): string {
  return `"${createHash('md5').update(body).digest('hex')}"`;
}
