import type { TestProject } from 'vitest/node';
import type { Report } from '../../lib/local/ports.ts';
import { type DynamoDbLocal, dynamoDbLocal } from '../../lib/local/store/dynamodb-local.ts';
import { StoreNotStarted } from '../../lib/local/store/errors.ts';

declare module 'vitest' {
  interface ProvidedContext {
    dynamoDbEndpoint: string;
  }
}

/** Vitest's global setup: one DynamoDB for the whole run, gone when the run is, however it ends. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { endpoint, close } = await startDynamoDb();
  project.provide('dynamoDbEndpoint', endpoint);
  return close;
}

/** The DynamoDB that the environment names, or else a DynamoDB Local of our own. */
export async function startDynamoDb(): Promise<DynamoDbLocal> {
  try {
    return await dynamoDbLocal({ environment: process.env, report });
  } catch (error) {
    if (!(error instanceof StoreNotStarted)) throw error;
    process.stderr.write(`${error.message}\n`); // A stack trace would bury what the reader has to do.
    process.exit(1);
  }
}

function report({ level, message }: Report): void {
  if (level === 'warn' || level === 'error') process.stderr.write(`${message}\n`);
}
