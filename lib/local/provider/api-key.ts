import { wrongKey } from './refusal.ts';

/** As `Bearer sk_…`, or as the user name of Basic, which is what curl's `-u sk_…:` sends. */
export function requireApiKey(authorization: string | undefined, apiKey: string): void {
  const key = keyIn(authorization);
  if (key !== apiKey) throw wrongKey(authorization, key);
}

function keyIn(authorization = ''): string | undefined {
  const [, scheme = '', credentials = ''] = /^(\w+) +(\S+)$/.exec(authorization.trim()) ?? [];
  switch (scheme.toLowerCase()) {
    case 'bearer':
      return credentials;
    case 'basic':
      return Buffer.from(credentials, 'base64').toString('utf8').split(':', 1)[0];
    default:
      return undefined;
  }
}
