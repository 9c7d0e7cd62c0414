/**
 * Which folder may import which. An arrow that is not listed here does not exist; add one only together with a reason.
 * core ← ledger, http, observe ← effects ← middleware, reconcile ← lambdas
 */
const mayImport = {
  core: [],
  ledger: ['core'],
  http: ['core'],
  observe: ['core'],
  effects: ['core', 'ledger', 'http', 'observe'],
  middleware: ['core', 'ledger', 'http', 'observe', 'effects'],
  reconcile: ['core', 'ledger', 'http', 'observe', 'effects'],
  testing: ['core', 'ledger'],
  client: ['core'],
  cli: ['core', 'ledger', 'http', 'observe', 'effects', 'reconcile', 'infra', 'local'],
  local: ['core', 'ledger'],
  // The table by its schema, metrics by their names: an alarm on one that does not exist does not compile.
  infra: ['core', 'ledger/schema', 'observe/metrics'],
};

const folders = Object.entries(mayImport).map(([folder, allowed]) => ({
  name: `${folder}-imports-only-${allowed.length > 0 ? allowed.join('-').replace('/', '-') : 'itself'}`,
  severity: 'error',
  from: { path: `^lib/${folder}/` },
  to: { path: '^lib/', pathNot: [folder, ...allowed].map((name) => `^lib/${name}[/.]`) },
}));

const packages = [
  ['^(node_modules/)?(aws-cdk-lib|constructs|cdk-nag)', '^lib/infra/'],
  ['^(node_modules/)?@aws-sdk/', '^lib/(ledger|effects|reconcile|cli|local)/'],
  ['^(node_modules/)?@middy/', '^lib/(middleware|reconcile)/'],
  ['^(node_modules/)?structured-headers', '^lib/core/key'],
].map(([to, from]) => ({
  name: `${to.replace(/[^a-z-]/g, '')}-only-where-it-belongs`,
  severity: 'error',
  from: { path: '^lib/', pathNot: from },
  to: { path: to },
}));

module.exports = {
  forbidden: [
    ...folders,
    ...packages,
    {
      name: 'every-folder-is-listed',
      comment: 'A new folder of lib says in this file what it may import.',
      severity: 'error',
      from: { path: `^lib/(?!(${Object.keys(mayImport).join('|')}|index\\.ts))` },
      to: {},
    },
    {
      name: 'core-is-pure',
      comment: 'No I/O: hashing and comparing are all it needs of Node.',
      severity: 'error',
      from: { path: '^lib/core/' },
      to: { dependencyTypes: ['core'], pathNot: '^(node:)?(crypto|util)$' },
    },
    {
      name: 'nothing-imports-what-is-deployed-or-run',
      severity: 'error',
      from: { path: '^(lib|lambdas|bin)/', pathNot: '^(lambdas|bin)/' },
      to: { path: '^(lambdas|bin|test|scripts)/' },
    },
    {
      name: 'lambdas-import-what-users-can',
      comment:
        'The reference service is built of what the package exports, or it would show what nobody can do.',
      severity: 'error',
      from: { path: '^lambdas/' },
      to: { path: '^lib/', pathNot: '^lib/index\\.ts$' },
    },
    {
      name: 'generic-functions-know-no-service',
      comment: "They are deployed beside anybody's service.",
      severity: 'error',
      from: { path: '^lambdas/(runtime|sentinel|backstop)/' },
      to: { path: '^lambdas/', pathNot: '^lambdas/runtime/' },
    },
    {
      name: 'a-function-is-nobodys-library',
      severity: 'error',
      from: { path: '^lambdas/' },
      to: { path: '^lambdas/[^/]+/index\\.ts$' },
    },
    { name: 'no-cycles', severity: 'error', from: { path: '^(lib|lambdas)/' }, to: { circular: true } },
    {
      name: 'product-code-needs-no-dev-dependency',
      severity: 'error',
      from: { path: '^lib/', pathNot: '^lib/(infra|local)/' },
      to: { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['npm-peer', 'type-only'] },
    },
  ],
  options: {
    parser: 'swc',
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '^(dist|cdk\\.out)/' },
    enhancedResolveOptions: {
      extensions: ['.ts', '.js', '.mjs', '.cjs', '.json'],
      conditionNames: ['import', 'node', 'default'],
    },
  },
};
