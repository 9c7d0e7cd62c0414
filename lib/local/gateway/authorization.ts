import type { AuthorizerModel } from '../model.ts';

/** What became of a token. */
export type Authorization =
  | {
      readonly kind: 'allowed';
      readonly claims: Readonly<Record<string, string>>;
      /** Of the token, where the route asks for some; otherwise nobody has looked. */
      readonly scopes: readonly string[] | null;
    }
  | {
      readonly kind: 'refused';
      readonly status: 401 | 403;
      /** The `www-authenticate` header. */
      readonly challenge: string;
      /** For the access log. */
      readonly error: string;
    };

/** `credentials` is the whole header that carries the token, if there is one. */
export type Authorize = (
  authorizer: AuthorizerModel,
  credentials: string | undefined,
) => Promise<Authorization>;
