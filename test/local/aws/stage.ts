import { Lambda } from '@aws-sdk/client-lambda';
import { S3 } from '@aws-sdk/client-s3';
import { SecretsManager } from '@aws-sdk/client-secrets-manager';
import { onTestFinished, vi } from 'vitest';
import { type AwsEndpoints, awsEndpoints } from '../../../lib/local/aws/endpoints.ts';
import { memoryObjects } from '../../../lib/local/aws/memory-objects.ts';
import type { BucketModel } from '../../../lib/local/model.ts';
import type { Invoked, ObjectStore, Report } from '../../../lib/local/ports.ts';

export const NOW = Date.parse('2026-01-02T03:04:05.678Z');

export function bucket(name: string, given: Partial<BucketModel> = {}): BucketModel {
  return { name, arn: `arn:aws:s3:::${name}`, tellsEventBus: false, versioned: false, ...given };
}

interface Scene extends AwsEndpoints {
  readonly reports: Report[];
  readonly invoked: { readonly name: string; readonly event: string; readonly later?: true }[];
  readonly objects: ObjectStore;
  /** The SDK's clients, which find the endpoint as they do in a function: in the environment. */
  readonly lambda: Lambda;
  readonly s3: S3;
  readonly secrets: SecretsManager;
}

export async function scene(
  answer: (event: string) => Promise<Invoked> = async (payload) => ({ kind: 'returned', payload }),
  maxAttempts = 3,
): Promise<Scene> {
  const reports: Report[] = [];
  const invoked: Scene['invoked'] = [];
  const objects = memoryObjects({
    clock: () => NOW,
    buckets: [bucket('plain'), bucket('versioned', { versioned: true })],
  });
  const endpoints = await awsEndpoints({
    clock: () => NOW,
    objects,
    report: (report) => reports.push(report),
    secrets: new Map([
      ['arn:aws:secretsmanager:us-east-1:000000000000:secret:stripe/key-AbC123', 'sk_test_1'],
      ['plain-name', 'of a name'],
    ]),
    functions: {
      names: ['payments', 'sweep'],
      invoke(name, event) {
        invoked.push({ name, event });
        return answer(event);
      },
      invokeLater: (name, event) => invoked.push({ name, event, later: true }),
    },
  });
  vi.stubEnv('AWS_ENDPOINT_URL', endpoints.variables.AWS_ENDPOINT_URL);
  vi.stubEnv('AWS_REGION', 'us-east-1');
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'local');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'local');
  const clients = {
    lambda: new Lambda({ maxAttempts }),
    s3: new S3({ maxAttempts }),
    secrets: new SecretsManager({ maxAttempts }),
  };
  onTestFinished(async () => {
    for (const client of Object.values(clients)) client.destroy();
    vi.unstubAllEnvs();
    await endpoints.close();
  });
  return { ...endpoints, ...clients, reports, invoked, objects };
}
