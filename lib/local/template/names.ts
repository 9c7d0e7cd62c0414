import type { TemplateResource } from './assembly.ts';

/** `OncekeyState/Ledger/Table` → `OncekeyState-Ledger-Table`. */
export function pathName(path: string): string {
  return trimmed(path.replaceAll(/[^A-Za-z0-9]+/g, '-'));
}

/** `BackstopSchedule` → `backstop-schedule`. */
function kebab(text: string): string {
  const parted = text.replaceAll(/([a-z0-9])([A-Z])/g, '$1-$2').replaceAll(/([A-Z])([A-Z][a-z])/g, '$1-$2');
  return trimmed(parted.replaceAll(/[^A-Za-z0-9]+/g, '-')).toLowerCase();
}

function trimmed(text: string): string {
  return text.replaceAll(/^-+|-+$/g, '');
}

/**
 * The last construct id of each, or as much more of its path as it takes to tell it from the others. Where even that does
 * not, the logical id does.
 */
export function shortNames(resources: readonly TemplateResource[]): ReadonlyMap<TemplateResource, string> {
  const names = new Map<TemplateResource, string>();
  const taken = new Set<string>();
  let open = resources;
  for (let length = 1; open.length > 0; length++) {
    const candidates = open.map((resource) => [resource, candidate(resource, length)] as const);
    for (const [resource, name] of candidates) {
      const others = candidates.filter(([, other]) => other === name).length > 1 || taken.has(name);
      if (!others || length > ids(resource).length) names.set(resource, name);
    }
    for (const name of names.values()) taken.add(name);
    open = open.filter((resource) => !names.has(resource));
  }
  return names;
}

function candidate(resource: TemplateResource, length: number): string {
  const all = ids(resource);
  if (length > all.length) return kebab(`${resource.stack}-${resource.logicalId}`);
  return all.slice(-length).map(kebab).join('-');
}

function ids({ path }: TemplateResource): string[] {
  return path.split('/').filter((id) => kebab(id) !== '');
}
