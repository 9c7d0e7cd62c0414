import type { FailedObject } from '../../lib/index.ts';

/** The part of `S3` of `@aws-sdk/client-s3` that reading needs. */
export interface GetObject {
  getObject(input: { readonly Bucket: string; readonly Key: string; readonly VersionId?: string }): Promise<{
    readonly Body?: { transformToString(): Promise<string> } | undefined;
  }>;
}

/** The text of an on-failure object, in the version that was announced. */
export function objectReader(s3: GetObject): (object: FailedObject) => Promise<string> {
  return async ({ bucket, key, versionId }) => {
    const version = versionId === undefined ? {} : { VersionId: versionId };
    const { Body } = await s3.getObject({ Bucket: bucket, Key: key, ...version });
    if (!Body) throw new TypeError('The on-failure object has no body.');
    return Body.transformToString();
  };
}
