import { randomBytes } from 'node:crypto';
import { InvalidArgument } from '../core/errors.ts';
import type { LocalIssuer } from './gateway/local-issuer.ts';
import type { AuthorizerModel, CloudModel, FunctionModel } from './model.ts';

/*
 * What stands outside of the stacks and is told to them at their deployment: who signs the tokens, where the provider is, and
 * what is in the secrets. On AWS a person does this; here it is made up for each run.
 */

/** Only a name: the authorizer knows the keys of whoever has it. */
const ISSUER = 'https://issuer.oncekey.local';
const AUDIENCE = 'oncekey-local';

/** Stands in the template for the simulator, whose port is known only once it runs. */
const PROVIDER_ADDRESS = 'http://provider.oncekey.local';

/** As `cdk synth -c name=value` takes it. Any tenant has its tokens from one issuer, so none has to be deployed first. */
export const referenceContext = {
  issuer: ISSUER,
  audience: AUDIENCE,
  stripeBaseUrl: PROVIDER_ADDRESS,
} as const;

/** As the service names them to its functions. */
const PROVIDER_KEY = 'STRIPE_KEY_SECRET';
const PROVIDER_URL = 'STRIPE_BASE_URL';

export interface ReferenceSecrets {
  readonly apiKey: string;
  readonly webhookSecret: string;
}

/** Of the kind that the provider makes: whoever finds one in a log sees that it is worth nothing. */
export function newSecrets(): ReferenceSecrets {
  const random = () => randomBytes(18).toString('base64url').replace(/[-_]/g, 'x');
  return { apiKey: `sk_test_local${random()}`, webhookSecret: `whsec_local${random()}` };
}

/** By ARN, what each secret holds. One that nobody here knows gets a text of its own, as CloudFormation would make it. */
export function secretValues(
  model: CloudModel,
  { apiKey, webhookSecret }: ReferenceSecrets,
): ReadonlyMap<string, string> {
  const known: Readonly<Record<string, string>> = { StripeKey: apiKey, StripeWebhookSecret: webhookSecret };
  return new Map(
    model.secrets.map(({ arn, path }) => {
      const name = path.split('/').at(-1) ?? '';
      return [arn, known[name] ?? randomBytes(24).toString('base64url')] as const;
    }),
  );
}

/** With the address that the provider really has. Whoever has its key is told, asked for or not: nobody here is to call the real one. */
export function withProvider(model: CloudModel, url: string): CloudModel {
  const functions = model.functions.map((fn): FunctionModel => {
    const variables = Object.entries(fn.environment);
    const environment = variables.map(
      ([name, value]) => [name, value === PROVIDER_ADDRESS ? url : value] as const,
    );
    const told = PROVIDER_KEY in fn.environment && { [PROVIDER_URL]: url };
    return { ...fn, environment: { ...Object.fromEntries(environment), ...told } };
  });
  return { ...model, functions };
}

/** Where the provider sends its events: the route of the function that can verify them. */
export function webhookPath({ apis, functions }: CloudModel): string | undefined {
  const verifies = new Set(
    functions.filter(({ environment }) => 'STRIPE_WEBHOOK_SECRET' in environment).map(({ name }) => name),
  );
  const route = apis.flatMap(({ routes }) => routes).find(({ functionName }) => verifies.has(functionName));
  return route?.routeKey.replace(/^\S+ /, '');
}

/** Of all that keep a ledger, by what they are told. */
export function ledgerTables({ functions }: CloudModel): readonly string[] {
  return [...new Set(functions.flatMap(({ environment }) => environment['LEDGER_TABLE'] ?? []))];
}

/** Whose tokens the API takes. */
export function issuerName(model: CloudModel): string {
  return authorizerOf(model)?.issuer ?? ISSUER;
}

/** The API has one; nothing, where it lets everybody in. */
function authorizerOf({ apis }: CloudModel): AuthorizerModel | undefined {
  return apis.flatMap(({ routes }) => routes.flatMap(({ authorizer }) => authorizer ?? []))[0];
}

/** As long as somebody tries it out: a token that ends in the middle of it explains nothing. */
const TOKEN_SECONDS = 12 * 3_600;

/** As the API's authorizer wants to see it. Of a user pool only its own clients can have one. */
export function tokenFor(model: CloudModel, issuer: LocalIssuer, tenant: string): Promise<string> {
  const pool = model.pools[0];
  if (!pool) {
    const audience = authorizerOf(model)?.audience ?? AUDIENCE;
    return issuer.token({ subject: tenant, audience, ttlSeconds: TOKEN_SECONDS });
  }
  const client = pool.clients.find(({ name }) => name === tenant);
  if (client) return issuer.poolToken({ clientId: client.id, ttlSeconds: TOKEN_SECONDS });
  const names = pool.clients.map(({ name }) => name).join(', ');
  throw new InvalidArgument(`The user pool has no client for the tenant ${tenant}; it has ${names}.`);
}
