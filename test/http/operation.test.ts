import { describe, expect, it } from 'vitest';
import { isProtected, operationOf } from '../../lib/http/operation.ts';
import { readEvent } from '../../lib/http/request.ts';
import { alb, functionUrl, httpApi, restApi } from './events.ts';

describe('an operation is the method and the route', () => {
  it.each([
    ['HTTP API', httpApi(), 'POST /payments/{id}/refund'],
    [
      'HTTP API, any method',
      httpApi({ routeKey: 'ANY /payments/{id}/refund' }),
      'POST /payments/{id}/refund',
    ],
    ['HTTP API, default route', httpApi({ routeKey: '$default' }), 'POST /payments/pay_1/refund'],
    ['HTTP API, greedy route', httpApi({ routeKey: 'POST /{proxy+}' }), 'POST /payments/pay_1/refund'],
    ['REST API', restApi(), 'POST /payments/{id}/refund'],
    ['REST API, greedy route', restApi({ resource: '/{proxy+}' }), 'POST /payments/pay_1/refund'],
    ['ALB', alb(), 'POST /payments/pay_1/refund'],
    ['ALB, method in lower case', alb({ httpMethod: 'post' }), 'POST /payments/pay_1/refund'],
    ['function URL', functionUrl(), 'PATCH /payments/pay_1/refund'],
  ])('%s', (_, event, operation) => {
    expect(operationOf(readEvent(event))).toBe(operation);
  });

  it('a charge and a refund never share one (PEERS 14)', () => {
    const [charge, refund] = ['/charge', '/refund'].map((path) => operationOf(readEvent(alb({ path }))));
    expect(charge).not.toBe(refund);
  });
});

describe('only what HTTP does not make idempotent is protected', () => {
  it.each(['POST', 'PATCH', 'post', 'Patch'])('%s is', (method) => {
    expect(isProtected(method)).toBe(true);
  });

  it.each(['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'QUERY', '', 'POSTS'])(
    '%s is not',
    (method) => {
      expect(isProtected(method)).toBe(false);
    },
  );
});
