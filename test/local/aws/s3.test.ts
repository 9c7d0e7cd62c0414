import { Readable } from 'node:stream';
import { expect, it } from 'vitest';
import { scene } from './stage.ts';

const KEY = 'failed batches/a+b/€ & <c>/100%/../é.json';

it('puts and gets an object, whatever its key', async () => {
  const { s3, objects } = await scene();
  const put = await s3.putObject({ Bucket: 'plain', Key: KEY, Body: '{"a":"€"}' });
  expect(put.VersionId).toBe(undefined);
  expect(await objects.get('plain', KEY)).toBe('{"a":"€"}');
  const { Body, ETag } = await s3.getObject({ Bucket: 'plain', Key: KEY });
  expect(await Body?.transformToString()).toBe('{"a":"€"}');
  expect(ETag).toBe(put.ETag);
});

it('gets the version that is asked for, and the newest otherwise', async () => {
  const { s3, objects } = await scene();
  const at = { Bucket: 'versioned', Key: 'k' };
  const { VersionId: first } = await s3.putObject({ ...at, Body: 'one' });
  const { versionId: second } = await objects.put('versioned', 'k', 'two');
  expect(first).not.toBe(second);
  const textOf = async (VersionId?: string) => {
    const { Body, VersionId: got } = await s3.getObject({ ...at, ...(VersionId && { VersionId }) });
    expect(got).toBe(VersionId);
    return Body?.transformToString();
  };
  expect(await textOf(first)).toBe('one');
  expect(await textOf(second)).toBe('two');
  expect(await textOf()).toBe('two');
});

it('takes an object as a stream, which the SDK sends in chunks with a checksum behind them', async () => {
  const { s3, objects } = await scene();
  const parts = Array.from({ length: 300 }, (_, index) => `${index} `.repeat(1_000));
  const text = parts.join('');
  const Body = Readable.from(parts.map((part) => Buffer.from(part)));
  await s3.putObject({ Bucket: 'plain', Key: 'k', Body, ContentLength: text.length });
  expect((await objects.get('plain', 'k')) === text).toBe(true);
});

it.each([
  [{ Bucket: 'plain', Key: 'gone' }, 'NoSuchKey'],
  [{ Bucket: 'versioned', Key: 'gone', VersionId: 'v' }, 'NoSuchVersion'],
  [{ Bucket: 'nowhere', Key: 'gone' }, 'NoSuchBucket'],
])('does not find %o: %s', async (input, name) => {
  const { s3, reports } = await scene();
  const found = s3.getObject(input);
  await expect(found).rejects.toMatchObject({ name, $metadata: { httpStatusCode: 404, attempts: 1 } });
  expect(reports).toEqual([]);
});

it('puts nothing into a bucket that is not there', async () => {
  const { s3 } = await scene();
  const put = s3.putObject({ Bucket: 'nowhere', Key: 'k', Body: 'x' });
  await expect(put).rejects.toMatchObject({ name: 'NoSuchBucket' });
});

it.each([
  ['a condition', { IfNoneMatch: '*' }, 'if-none-match'],
  ['metadata', { Metadata: { a: 'b' } }, 'x-amz-meta-a'],
  ['bytes that are no text', { Body: Uint8Array.of(0xff, 0xfe) }, 'no text'],
])('refuses to put an object with %s instead of losing it', async (_, more, named) => {
  const { s3, objects, reports } = await scene();
  await expect(s3.putObject({ Bucket: 'plain', Key: 'k', Body: 'x', ...more })).rejects.toMatchObject({
    name: 'NotImplemented',
    message: expect.stringContaining(named),
    $metadata: { attempts: 1 },
  });
  expect(await objects.list('plain')).toEqual([]);
  expect(reports).toMatchObject([{ level: 'error', message: expect.stringContaining(named) }]);
});
