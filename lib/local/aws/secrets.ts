import { LOCAL_ACCOUNT, LOCAL_REGION } from '../model.ts';
import { AwsError, json, NotRunHere, type Serve } from './answers.ts';

const ARN = /^arn:[^:]+:secretsmanager:[^:]*:[^:]*:secret:(.+)$/;
/** Secrets Manager adds it to the name, so that a secret made anew is another. */
const SUFFIX = /-[A-Za-z0-9]{6}$/;

/** https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html */
export function secretsService(secrets: ReadonlyMap<string, string>): Serve {
  const known = [...secrets].map(([id, text]) => ({ ...identityOf(id), id, text }));

  return async ({ headers, body }) => {
    const operation = String(headers['x-amz-target']).split('.')[1];
    if (operation !== 'GetSecretValue') throw new NotRunHere(`${operation} of Secrets Manager`);
    const { SecretId, VersionId, VersionStage = CURRENT } = inputOf(body);
    if (VersionId !== undefined || VersionStage !== CURRENT) {
      throw new NotRunHere('versions of secrets');
    }
    const found = known.find(({ id, arn, name }) =>
      [id, arn, name, arn.replace(SUFFIX, '')].includes(SecretId),
    );
    if (!found) {
      const message = "Secrets Manager can't find the specified secret.";
      throw new AwsError(400, 'ResourceNotFoundException', message);
    }
    const { arn, name, text } = found;
    const value = { ARN: arn, Name: name, SecretString: text, VersionStages: [CURRENT] };
    return json(200, value, 'application/x-amz-json-1.1');
  };
}

const CURRENT = 'AWSCURRENT';

function identityOf(id: string): { readonly arn: string; readonly name: string } {
  const [, full] = ARN.exec(id) ?? [];
  if (full !== undefined) return { arn: id, name: full.replace(SUFFIX, '') };
  return { arn: `arn:aws:secretsmanager:${LOCAL_REGION}:${LOCAL_ACCOUNT}:secret:${id}-local0`, name: id };
}

function inputOf(body: Buffer): { SecretId: string; VersionId?: unknown; VersionStage?: unknown } {
  try {
    const input = JSON.parse(body.toString('utf8'));
    if (typeof input?.SecretId === 'string') return input;
  } catch {
    // The same answer as for a body without the member.
  }
  throw new AwsError(400, 'InvalidParameterException', 'GetSecretValue needs a SecretId.');
}
