import { describe, expect, it } from 'vitest';
import type { TemplateResource } from '../../../lib/local/template/assembly.ts';
import { pathName, shortNames } from '../../../lib/local/template/names.ts';

function shortened(...paths: readonly string[]): string[] {
  const resources = paths.map(
    (path, at): TemplateResource => ({
      stack: 'Shop',
      logicalId: `Logical${at}`,
      type: 'AWS::Lambda::Function',
      path,
      properties: {},
    }),
  );
  const names = shortNames(resources);
  return resources.map((resource) => names.get(resource) ?? 'none');
}

describe('a short name', () => {
  it('is the last construct id, as one writes it on a command line', () => {
    expect(shortened('Shop/payments', 'Shop/Reconciliation/BackstopGoesOn', 'Shop/OIDCKeys_2')).toEqual([
      'payments',
      'backstop-goes-on',
      'oidc-keys-2',
    ]);
  });

  it('is as much of the path as tells it from others that end alike, and short for all others', () => {
    expect(shortened('Shop/A/Handler', 'Shop/B/Handler', 'Shop/Sweep')).toEqual([
      'a-handler',
      'b-handler',
      'sweep',
    ]);
    expect(shortened('One/A/Handler', 'Two/A/Handler')).toEqual(['one-a-handler', 'two-a-handler']);
  });

  it('is never one that another has got', () => {
    expect(shortened('Shop/a-handler', 'Shop/A/Handler', 'Shop/B/Handler')).toEqual([
      'a-handler',
      'shop-a-handler',
      'b-handler',
    ]);
    expect(shortened('Shop/PayNow', 'Shop/pay-now')).toEqual(['shop-logical0', 'shop-logical1']);
  });
});

it('a name made of a path has nothing in it that a service would refuse', () => {
  expect(pathName('Shop/Reconciliation: 1/Rows')).toBe('Shop-Reconciliation-1-Rows');
});
