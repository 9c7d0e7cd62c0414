import {
  Annotations,
  DefaultTokenResolver,
  type IAspect,
  type IPostProcessor,
  type IResolvable,
  type IResolveContext,
  Reference,
  StringConcat,
  Tokenization,
} from 'aws-cdk-lib';
import { CfnMethod, CfnRestApi } from 'aws-cdk-lib/aws-apigateway';
import { CfnApi, CfnIntegration, CfnRoute } from 'aws-cdk-lib/aws-apigatewayv2';
import { CfnAlias, CfnFunction, CfnVersion } from 'aws-cdk-lib/aws-lambda';
import type { IConstruct } from 'constructs';
import { InvalidArgument } from '../core/errors.ts';
import { isProtected } from './protection.ts';

/** Those that change something, and those that take every method. */
const UNSAFE: ReadonlySet<string> = new Set(['POST', 'PATCH', 'ANY', '$default']);

/**
 * No endpoint is forgotten: every POST and PATCH of every API in the tree is behind a protected function, or is exempt
 * for a reason. `Aspects.of(app).add(new ProtectedRoutes().exempt('POST /webhooks', 'deduped by its event id'))`.
 */
export class ProtectedRoutes implements IAspect {
  readonly #exempt = new Map<string, string>();

  /** As the API calls it: `POST /webhooks/stripe`. An API that is a document, by the path of its construct. */
  exempt(route: string, reason: string): this {
    if (typeof reason !== 'string' || reason.trim() === '') {
      throw new InvalidArgument(
        `The route ${route} is exempt without a reason; say why it is safe to repeat.`,
      );
    }
    this.#exempt.set(route, reason);
    return this;
  }

  visit(node: IConstruct): void {
    if (isDocument(node) && !this.#exempt.has(node.node.path)) {
      Annotations.of(node).addError(
        `The API ${node.node.path} is made of a document or of a single target, so its routes cannot be looked at. Add them as routes, or exempt('${node.node.path}', 'how they are protected').`,
      );
      return;
    }
    const route = routeOf(node);
    if (!route || !UNSAFE.has(methodOf(route.name)) || this.#exempt.has(route.name)) return;
    const functions = targetsOf(route.target, node);
    if (functions.length > 0 && functions.every(isProtected)) return;
    const behind = functions.map((fn) => fn.node.path).join(', ') || 'no function that is known here';
    Annotations.of(node).addError(
      `The route ${route.name} is not protected: behind it is ${behind}. Call ledger.protect(fn) for it, or exempt('${route.name}', 'why it is safe to repeat').`,
    );
  }
}

/** An OpenAPI document, or a quick-created API: there are routes in it that are no constructs. */
function isDocument(node: IConstruct): boolean {
  if (node instanceof CfnRestApi) return node.body !== undefined || node.bodyS3Location !== undefined;
  if (!(node instanceof CfnApi)) return false;
  return [node.body, node.bodyS3Location, node.target].some((part) => part !== undefined);
}

interface Route {
  readonly name: string;
  /** Where it leads, as a token. */
  readonly target: unknown;
}

function routeOf(node: IConstruct): Route | undefined {
  if (node instanceof CfnRoute) {
    return isOfWebSockets(node) ? undefined : { name: node.routeKey, target: node.target };
  }
  if (!(node instanceof CfnMethod)) return undefined;
  const { integration } = node;
  const uri = typeof integration === 'object' && 'uri' in integration ? integration.uri : undefined;
  return { name: `${node.httpMethod} ${pathOf(node)}`, target: uri };
}

/** Its routes are named by what messages say; also there, `$default` is one. */
function isOfWebSockets(route: CfnRoute): boolean {
  return referredTo(route.apiId, route).some(
    (api) => api instanceof CfnApi && api.protocolType === 'WEBSOCKET',
  );
}

/** `POST /webhooks` has one; `$default` is one. */
function methodOf(route: string): string {
  return route.split(' ')[0] ?? route;
}

/** A method's resource knows only its own part of the path; the constructs around it are named by the others. */
function pathOf(method: CfnMethod): string {
  const parts = method.node.scopes.map(({ node }) => node.id);
  const from = parts.indexOf('Default');
  return `/${parts.slice(from + 1, -2).join('/')}`;
}

/** Follows references from a route to the functions behind it: integrations, aliases and versions are on the way. */
function targetsOf(target: unknown, scope: IConstruct): IConstruct[] {
  return referredTo(target, scope).flatMap((node) => {
    if (node instanceof CfnFunction) return [node];
    if (node instanceof CfnIntegration) return targetsOf(node.integrationUri, scope);
    if (node instanceof CfnAlias || node instanceof CfnVersion) return targetsOf(node.functionName, scope);
    return [];
  });
}

/** Everything that a value refers to, however deep it is wrapped. */
function referredTo(value: unknown, scope: IConstruct): IConstruct[] {
  const found = new Set<IConstruct>();
  class Collector extends DefaultTokenResolver {
    override resolveToken(token: IResolvable, context: IResolveContext, postProcessor: IPostProcessor) {
      if (Reference.isReference(token)) found.add(token.target);
      return super.resolveToken(token, context, postProcessor);
    }
  }
  Tokenization.resolve(value, { scope, resolver: new Collector(new StringConcat()), preparing: true });
  return [...found];
}
