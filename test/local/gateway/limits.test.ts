import { describe, expect, it } from 'vitest';
import { tokenBucket } from '../../../lib/local/gateway/token-bucket.ts';
import { gateway, sendText } from './stage.ts';

const MIB = 1_024 * 1_024;

describe('the size of a request', () => {
  /** The request line and the values of all headers, as API Gateway counts. */
  async function sentWith(bytes: number) {
    const api = await gateway();
    const line = 'GET / HTTP/1.1'.length;
    const others = 'a'.length + 'close'.length;
    const text = `GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Long: ${'x'.repeat(bytes - line - others)}\r\n\r\n`;
    return { answer: await sendText(api.port, text), api };
  }

  it('may be 10,240 bytes without its body', async () => {
    const { answer } = await sentWith(10_240);
    expect(answer).toContain('HTTP/1.1 200 ');
  });

  it('may be no byte more: 431, and no function is asked', async () => {
    const { answer, api } = await sentWith(10_241);
    expect(answer).toContain('HTTP/1.1 431 ');
    expect(answer).toContain('{"message":"Request Header Fields Too Large"}');
    expect(api.invoked).toEqual([]);
  });

  it('counts the query, too', async () => {
    const api = await gateway();
    expect((await api.send({ path: `/?q=${'x'.repeat(10_240)}` })).status).toBe(431);
  });

  it('may not be more than 10 MB in its body: 413', async () => {
    const api = await gateway();
    const answer = await api.send({ method: 'POST', body: new Uint8Array(10 * MIB + 1) });
    expect(answer.status).toBe(413);
    expect(answer.body.toString()).toBe('{"message":"Request Entity Too Large"}');
    expect(api.invoked).toEqual([]);
  });

  it('may not be more than what Lambda takes as an event, which is 6 MB: 413', async () => {
    const api = await gateway();
    const headers = [['Content-Type', 'text/plain']] as const;
    const answer = await api.send({ method: 'POST', headers, body: 'x'.repeat(6 * MIB) });
    expect(answer.status).toBe(413);
    expect(answer.body.toString()).toBe('{"message":"Request Entity Too Large"}');
    expect(api.invoked).toEqual([]);
    expect((await api.send({ method: 'POST', headers, body: 'x'.repeat(6 * MIB - 2_000) })).status).toBe(200);
  });
});

describe('the throttle of the stage', () => {
  const throttle = { ratePerSecond: 2, burst: 3 };

  it('lets a burst through, and then as many as the rate says: 429', async () => {
    const api = await gateway({ api: { throttle } });
    const statuses = async (count: number) => {
      const answers = [];
      for (let sent = 0; sent < count; sent += 1) answers.push((await api.send()).status);
      return answers;
    };
    expect(await statuses(4)).toEqual([200, 200, 200, 429]);
    api.time.now += 499;
    expect(await statuses(1)).toEqual([429]);
    api.time.now += 1;
    expect(await statuses(2)).toEqual([200, 429]);
    api.time.now += 60_000;
    expect(await statuses(4)).toEqual([200, 200, 200, 429]);
    expect(api.invoked).toHaveLength(7);
  });

  it('answers in the words of API Gateway', async () => {
    const api = await gateway({ api: { throttle: { ratePerSecond: 0, burst: 0 } } });
    const answer = await api.send();
    expect(answer.status).toBe(429);
    expect(answer.body.toString()).toBe('{"message":"Too Many Requests"}');
  });

  it('takes nothing for what no route takes', async () => {
    const api = await gateway({ routes: ['GET /here'], api: { throttle: { ratePerSecond: 0, burst: 1 } } });
    expect((await api.send({ path: '/nowhere' })).status).toBe(404);
    expect((await api.send({ path: '/here' })).status).toBe(200);
  });

  it('is not fooled by a clock that is set back', () => {
    let now = 10_000;
    const admits = tokenBucket({ ratePerSecond: 1, burst: 1 }, () => now);
    expect(admits()).toBe(true);
    now = 0;
    expect(admits()).toBe(false);
    now = 1_000;
    expect(admits()).toBe(true);
  });

  it('is nobody’s, where there is none', () => {
    const admits = tokenBucket(undefined, () => 0);
    expect(Array.from({ length: 5 }, admits)).toEqual([true, true, true, true, true]);
  });
});
