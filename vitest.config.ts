import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  resolve: {
    // Examples import the package by its name, as users do; here that means the sources.
    alias: [
      { find: /^oncekey$/, replacement: fileURLToPath(new URL('lib/index.ts', import.meta.url)) },
      {
        find: /^oncekey\/testing$/,
        replacement: fileURLToPath(new URL('lib/testing/index.ts', import.meta.url)),
      },
      {
        find: /^oncekey\/cdk$/,
        replacement: fileURLToPath(new URL('lib/infra/index.ts', import.meta.url)),
      },
    ],
  },
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/dynamodb-local.ts'],
    // A good part of a file's time is waiting for other processes; one worker per core leaves the cores idle.
    maxWorkers: availableParallelism() + 1,
    // DynamoDB Local and the file's own loop share two cores; a slow machine is not a failing test.
    testTimeout: 600_000,
    hookTimeout: 600_000,
  },
});
