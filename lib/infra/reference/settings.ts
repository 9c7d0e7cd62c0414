import type { App } from 'aws-cdk-lib';
import { InvalidArgument } from '../../core/errors.ts';

/** What a deployment chooses, by `cdk deploy -c name=value` or in the context of cdk.json. */
export interface Settings {
  /** Whoever signs the tokens. Without one, the stack makes a Cognito user pool with a machine client for each tenant. */
  readonly issuer: Issuer | undefined;
  /** The tenants that get a client of their own, where the stack makes the pool. */
  readonly tenants: readonly string[];
  /** A key of the account's own for the tables, the bucket and the secrets. */
  readonly customerKey: boolean;
  /** Who is told of an alarm. */
  readonly alarmEmail: string | undefined;
  /** Where the team keeps its copy of the runbook. */
  readonly runbook: string | undefined;
  /** Where the provider is asked, if not at Stripe itself: a simulator. */
  readonly stripeBaseUrl: string | undefined;
}

interface Issuer {
  readonly url: string;
  readonly audience: readonly string[];
  readonly tenantClaim: string;
}

const TENANT = /^[a-z][a-z0-9-]{1,30}$/;

export function settingsOf({ node }: App): Settings {
  const issuer = text('issuer', node.tryGetContext('issuer'));
  const audience = list('audience', node.tryGetContext('audience'));
  const tenants = list('tenants', node.tryGetContext('tenants'));
  if ((issuer === undefined) !== (audience.length === 0)) {
    throw new InvalidArgument(
      'issuer and audience belong together: a token of that issuer for somebody else must not pass. Give both (-c issuer=https://… -c audience=…) or neither.',
    );
  }
  if (issuer !== undefined && !issuer.startsWith('https://')) {
    throw new InvalidArgument(
      `issuer is ${issuer}; expected the https:// URL under which its keys are found.`,
    );
  }
  for (const tenant of tenants) {
    if (TENANT.test(tenant)) continue;
    throw new InvalidArgument(
      `The tenant ${tenant} needs a name of 2 to 31 small letters, digits and hyphens.`,
    );
  }
  const tenantClaim = text('tenantClaim', node.tryGetContext('tenantClaim'));
  if (issuer === undefined && tenantClaim !== undefined) {
    throw new InvalidArgument(
      `tenantClaim is ${tenantClaim}, and no issuer is named; the clients of the stack's own pool are told by client_id. Name the issuer as well, or leave it out.`,
    );
  }
  return {
    issuer: issuer === undefined ? undefined : { url: issuer, audience, tenantClaim: tenantClaim ?? 'sub' },
    tenants: tenants.length > 0 ? tenants : ['acme', 'globex'],
    customerKey: flag('customerKey', node.tryGetContext('customerKey')),
    alarmEmail: text('alarmEmail', node.tryGetContext('alarmEmail')),
    runbook: text('runbook', node.tryGetContext('runbook')),
    stripeBaseUrl: text('stripeBaseUrl', node.tryGetContext('stripeBaseUrl')),
  };
}

function text(name: string, value: unknown): string | undefined {
  if (value === undefined || (typeof value === 'string' && value !== '')) return value;
  throw new InvalidArgument(`The context value ${name} is ${JSON.stringify(value)}; expected a text.`);
}

/** From the command line it is a text. Anything else than yes or no would be a no that nobody meant. */
function flag(name: string, value: unknown): boolean {
  if (value === undefined) return false;
  if (value === true || value === 'true') return true;
  if (value === false || value === 'false') return false;
  throw new InvalidArgument(`The context value ${name} is ${JSON.stringify(value)}; expected true or false.`);
}

/** From the command line it is one text with commas. */
function list(name: string, value: unknown): readonly string[] {
  if (value === undefined) return [];
  const items: unknown = typeof value === 'string' ? value.split(',').map((item) => item.trim()) : value;
  if (Array.isArray(items) && items.every((item) => typeof item === 'string' && item !== '')) return items;
  throw new InvalidArgument(
    `The context value ${name} is ${JSON.stringify(value)}; expected a list, as in a,b.`,
  );
}
