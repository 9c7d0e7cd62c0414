import type { HttpRequest } from 'oncekey';
import { expect, it } from 'vitest';
import { operation, tenants } from './scope.ts';

const request = (authorizer: HttpRequest['authorizer'], path = '/orders') =>
  ({ method: 'post', path, authorizer }) as HttpRequest;

it('the tenants of the guide are found where each authorizer puts them', () => {
  expect(tenants.jwt(request({ jwt: { sub: 'ann' } }))).toBe('ann');
  expect(tenants.lambda(request({ lambda: { tenantId: 7 } }))).toBe('7');
  const userArn = 'arn:aws:sts::123456789012:assumed-role/shop/session-1';
  expect(tenants.iam(request({ iam: { userArn } }))).toBe('arn:aws:sts::123456789012:assumed-role/shop');
  expect(tenants.account(request({ iam: { accountId: '123456789012' } }))).toBe('123456789012');
  expect(tenants.person(request({ jwt: { tenant_id: 'shop-1', sub: 'ann' } }))).toBe('["shop-1","ann"]');
  for (const resolve of Object.values(tenants)) expect(resolve(request({}))).toBeUndefined();
});

it('the operation of the guide is the same for every order', () => {
  expect(operation(request({}, '/orders/17/refunds'))).toBe('POST /orders/{id}/refunds');
  expect(operation(request({}, '/orders'))).toBe('POST /orders');
});
