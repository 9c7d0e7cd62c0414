import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { memoryLedger } from 'oncekey/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { post, type Result } from '../middleware/stage.ts';
import { handler } from './bookings.ts';

vi.mock('./ledger.ts', () => ({ ledger: memoryLedger() }));

let airline: Server;
let asked: string[];
/** How the airline answers; undefined: never. */
let status: number | undefined;

beforeEach(async () => {
  asked = [];
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  airline = createServer((request, response) => {
    asked.push(String(request.headers['idempotency-key']));
    if (status !== undefined) response.writeHead(status).end(`{"answer":${status}}`);
  });
  vi.stubEnv('AIRLINE_URL', await listen(airline));
});

afterEach(async () => {
  vi.restoreAllMocks();
  await close(airline);
});

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function close(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}

async function book(key: string, remainingMs = 10_000): Promise<Result> {
  const event = post({ key, path: '/bookings', body: { seat: '12A' } });
  const authorizer = { lambda: { tenantId: 'agency-1' } };
  const context = { getRemainingTimeInMillis: () => remainingMs } as never;
  const request = { ...event, requestContext: { ...event.requestContext, authorizer } };
  return (await handler(request as never, context)) as unknown as Result;
}

const codeOf = ({ body }: Result) => JSON.parse(body).code;

describe('the booking example', () => {
  it('books once, and stores a refusal of the airline as it stores a success', async () => {
    for (const [key, answer] of [
      ['booked', 201],
      ['taken', 409],
    ] as const) {
      status = answer;
      const first = await book(key);
      const second = await book(key);
      expect(first).toMatchObject({ statusCode: answer, body: `{"answer":${answer}}` });
      expect(second).toMatchObject({ statusCode: answer, body: first.body });
      expect(second.headers['Idempotent-Replayed']).toBe('true');
    }
    expect(asked).toHaveLength(2);
  });

  it('asks again only if nothing can have been booked, with the same downstream key', async () => {
    status = 429;
    await expect(book('slower')).rejects.toThrow('the airline wants fewer requests');
    status = 201;
    expect((await book('slower')).statusCode).toBe(201);
    expect(asked).toHaveLength(2);
    expect(new Set(asked).size).toBe(1);

    const { AIRLINE_URL } = process.env;
    const closed = createServer();
    vi.stubEnv('AIRLINE_URL', await listen(closed));
    await close(closed);
    await expect(book('away')).rejects.toThrow('no connection was made');
    vi.stubEnv('AIRLINE_URL', AIRLINE_URL);
    expect((await book('away')).statusCode).toBe(201);
  });

  it('calls unknown what it cannot know, and does not ask again', async () => {
    for (const answer of [408, 500]) {
      status = answer;
      await expect(book(`lost-${answer}`)).rejects.toThrow(`the airline answered ${answer}`);
      expect(codeOf(await book(`lost-${answer}`))).toBe('outcome_unknown');
    }
    expect(asked).toHaveLength(2);
  });

  it('gives up before its lease ends', async () => {
    status = undefined;
    await expect(book('slow', 3_000)).rejects.toThrow('The lease of this attempt is about to end');
    expect(codeOf(await book('slow'))).toBe('outcome_unknown');
    expect(asked).toHaveLength(1);
  });
});
