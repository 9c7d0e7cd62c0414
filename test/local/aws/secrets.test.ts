import { expect, it } from 'vitest';
import { scene } from './stage.ts';

const ARN = 'arn:aws:secretsmanager:us-east-1:000000000000:secret:stripe/key-AbC123';

it.each([ARN, ARN.slice(0, -7), 'stripe/key'])('gives the secret that is called %s', async (SecretId) => {
  const { secrets } = await scene();
  expect(await secrets.getSecretValue({ SecretId })).toMatchObject({
    ARN,
    Name: 'stripe/key',
    SecretString: 'sk_test_1',
    VersionStages: ['AWSCURRENT'],
  });
});

it('gives a secret that was given by its name, and an ARN with it', async () => {
  const { secrets } = await scene();
  const { ARN: arn, SecretString } = await secrets.getSecretValue({ SecretId: 'plain-name' });
  expect(SecretString).toBe('of a name');
  expect(await secrets.getSecretValue({ SecretId: arn })).toMatchObject({ SecretString: 'of a name' });
});

it('does not find a secret that nobody gave', async () => {
  const { secrets, reports } = await scene();
  await expect(secrets.getSecretValue({ SecretId: 'other' })).rejects.toMatchObject({
    name: 'ResourceNotFoundException',
    message: "Secrets Manager can't find the specified secret.",
    $metadata: { httpStatusCode: 400, attempts: 1 },
  });
  expect(reports).toEqual([]);
});

it('gives no other version of a secret than the one there is', async () => {
  const { secrets } = await scene();
  const previous = secrets.getSecretValue({ SecretId: ARN, VersionStage: 'AWSPREVIOUS' });
  await expect(previous).rejects.toMatchObject({ name: 'NotImplemented' });
});
