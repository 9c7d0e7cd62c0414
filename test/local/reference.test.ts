import { describe, expect, it } from 'vitest';
import { InvalidArgument } from '../../lib/core/errors.ts';
import { jwtAuthorizer } from '../../lib/local/gateway/jwt-authorizer.ts';
import { localIssuer } from '../../lib/local/gateway/local-issuer.ts';
import type { AuthorizerModel, CloudModel, FunctionModel, RouteModel } from '../../lib/local/model.ts';
import {
  issuerName,
  ledgerTables,
  newSecrets,
  referenceContext,
  secretValues,
  tokenFor,
  webhookPath,
  withProvider,
} from '../../lib/local/reference.ts';

const authorizer: AuthorizerModel = {
  ...{ name: 'Tokens', issuer: 'https://issuer.example', audience: ['shop'] },
  ...{ header: 'Authorization', scopes: [] },
};

const fn = (name: string, environment: Record<string, string>): FunctionModel => ({
  ...{
    name,
    arn: `arn:${name}`,
    codeDir: '/',
    handler: 'index.handler',
    timeoutMs: 1,
    memoryMb: 1,
    environment,
  },
  later: { retries: 0, maxAgeSeconds: 60 },
});

function modelOf(changed: Partial<CloudModel> = {}, routes: readonly RouteModel[] = []): CloudModel {
  const none = { tables: [], functions: [], mappings: [], schedules: [], rules: [], buckets: [], queues: [] };
  return { ...none, secrets: [], pools: [], apis: [{ name: 'Api', routes }], ...changed };
}

const protectedRoute: RouteModel = { routeKey: 'POST /payments', functionName: 'payments', authorizer };
const POOL = 'https://cognito-idp.us-east-1.amazonaws.com/us-east-1_Tenants';

/** What the API's own authorizer says of a token that the control plane gives. */
async function shown(model: CloudModel, tenant: string) {
  const issuer = await localIssuer({ issuer: issuerName(model) });
  const own = model.apis[0]?.routes.find((route) => route.authorizer)?.authorizer ?? authorizer;
  const keys = (name: string) => (name === issuer.issuer ? issuer.keys : undefined);
  return jwtAuthorizer({ keys })(own, `Bearer ${await tokenFor(model, issuer, tenant)}`);
}

describe('a token', () => {
  it('is one that the authorizer of the API takes, whichever issuer and audience it was synthesised with', async () => {
    expect(await shown(modelOf({}, [protectedRoute]), 'acme')).toMatchObject({
      kind: 'allowed',
      claims: { sub: 'acme', iss: 'https://issuer.example' },
    });
  });

  it('of a user pool is for the client of its tenant', async () => {
    const pooled = { ...authorizer, issuer: POOL, audience: ['client-1', 'client-2'] };
    const clients = ['acme', 'globex'].map((name, at) => ({ id: `client-${at + 1}`, name }));
    const model = modelOf({ pools: [{ issuer: POOL, clients }] }, [
      { ...protectedRoute, authorizer: pooled },
    ]);
    expect(await shown(model, 'globex')).toMatchObject({
      kind: 'allowed',
      claims: { client_id: 'client-2', sub: 'client-2' },
    });
    const refused = await shown(model, 'initech').catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(InvalidArgument);
    expect(String(refused)).toContain('no client for the tenant initech; it has acme, globex.');
  });

  it('can be had where no route asks for one', async () => {
    expect(issuerName(modelOf())).toBe(referenceContext.issuer);
    const issuer = await localIssuer({ issuer: issuerName(modelOf()) });
    expect((await tokenFor(modelOf(), issuer, 'acme')).split('.')).toHaveLength(3);
  });
});

describe('the secrets', () => {
  const secret = (path: string) => ({ arn: `arn:${path}`, path });
  const model = modelOf({
    secrets: [secret('State/StripeKey'), secret('State/StripeWebhookSecret'), secret('State/Other')],
  });

  it('are what the provider expects, by the construct that holds each', () => {
    const secrets = newSecrets();
    const values = secretValues(model, secrets);
    expect(values.get('arn:State/StripeKey')).toBe(secrets.apiKey);
    expect(values.get('arn:State/StripeWebhookSecret')).toBe(secrets.webhookSecret);
    expect(values.get('arn:State/Other')).toMatch(/^[\w-]{32}$/);
  });

  it('are new in each run, and look as the provider makes them', () => {
    expect(newSecrets()).not.toEqual(newSecrets());
    expect(newSecrets()).toMatchObject({
      apiKey: expect.stringMatching(/^sk_test_local\w{24}$/),
      webhookSecret: expect.stringMatching(/^whsec_local\w{24}$/),
    });
  });
});

it('functions are told where the provider is, and nothing else changes', () => {
  const environment = { STRIPE_BASE_URL: referenceContext.stripeBaseUrl, OTHER: 'as it was' };
  const before = modelOf({ functions: [fn('payments', environment)] });
  const [payments] = withProvider(before, 'http://127.0.0.1:1').functions;
  expect(payments).toEqual(fn('payments', { STRIPE_BASE_URL: 'http://127.0.0.1:1', OTHER: 'as it was' }));
  expect(before.functions[0]?.environment).toBe(environment);
});

it('whoever has the key of the provider is led to the one on this machine, also in an assembly that names none', () => {
  const model = modelOf({ functions: [fn('payments', { STRIPE_KEY_SECRET: 'arn:key' }), fn('reads', {})] });
  expect(withProvider(model, 'http://127.0.0.1:1').functions.map(({ environment }) => environment)).toEqual([
    { STRIPE_KEY_SECRET: 'arn:key', STRIPE_BASE_URL: 'http://127.0.0.1:1' },
    {},
  ]);
});

it('the provider tells the route of the function that can verify what it says', () => {
  const hook = fn('webhook', { STRIPE_WEBHOOK_SECRET: 'arn:secret' });
  const routes = [protectedRoute, { routeKey: 'POST /webhooks/stripe', functionName: 'webhook' }];
  expect(webhookPath(modelOf({ functions: [fn('payments', {}), hook] }, routes))).toBe('/webhooks/stripe');
  expect(webhookPath(modelOf({ functions: [fn('payments', {})] }, routes))).toBeUndefined();
});

it('every ledger that a function is told of is read, and each once', () => {
  const functions = [
    fn('a', { LEDGER_TABLE: 'one' }),
    fn('b', { LEDGER_TABLE: 'two' }),
    fn('c', { LEDGER_TABLE: 'one' }),
    fn('d', {}),
  ];
  expect(ledgerTables(modelOf({ functions }))).toEqual(['one', 'two']);
});
