import { devNull } from 'node:os';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { stage } from './stage.ts';

const LOOKING = 'export const handler = async () => ({ ...process.env });';

describe('a function sees', () => {
  beforeEach(() => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'AKIAREAL');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'real');
    vi.stubEnv('AWS_PROFILE', 'production');
    vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', 'http://169.254.170.2/');
    vi.stubEnv('STRIPE_KEY', 'sk_live_real');
    vi.stubEnv('NODE_OPTIONS', '--no-deprecation');
  });
  afterEach(() => {
    vi.unstubAllEnvs();
  });

  it('its own variables and those of Lambda, and nothing of the machine but the path to programs', async () => {
    const environment = { LEDGER_TABLE: 'ledger', AWS_SECRET_ACCESS_KEY: 'of the template' };
    const endpoints = { AWS_ENDPOINT_URL_DYNAMODB: 'http://127.0.0.1:1' };
    const { call } = stage({ f: { code: LOOKING, environment } }, { endpoints });
    expect(await call()).toEqual({
      LEDGER_TABLE: 'ledger',
      AWS_ENDPOINT_URL_DYNAMODB: 'http://127.0.0.1:1',
      PATH: process.env['PATH'],
      TZ: 'UTC',
      LANG: 'en_US.UTF-8',
      _HANDLER: 'index.handler',
      LAMBDA_TASK_ROOT: expect.stringMatching(/\/f$/),
      AWS_EXECUTION_ENV: expect.stringMatching(/^AWS_Lambda_nodejs\d+\.x$/),
      AWS_LAMBDA_FUNCTION_NAME: 'f',
      AWS_LAMBDA_FUNCTION_VERSION: '$LATEST',
      AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '512',
      AWS_LAMBDA_INITIALIZATION_TYPE: 'on-demand',
      AWS_LAMBDA_LOG_GROUP_NAME: '/aws/lambda/f',
      AWS_LAMBDA_LOG_STREAM_NAME: expect.any(String),
      AWS_REGION: 'us-east-1',
      AWS_DEFAULT_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'local',
      AWS_SECRET_ACCESS_KEY: 'local',
      AWS_SESSION_TOKEN: 'local',
      AWS_CONFIG_FILE: devNull,
      AWS_SHARED_CREDENTIALS_FILE: devNull,
      AWS_EC2_METADATA_DISABLED: 'true',
    });
  });

  it('no channel to the process that runs it', async () => {
    const code = 'export const handler = async () => [typeof process.send, process.connected ?? null];';
    expect(await stage({ f: code }).call()).toEqual(['undefined', null]);
  });
});

describe('what a function writes', () => {
  it('is told with its name: text, JSON and metrics, from both outputs', async () => {
    const code = `export const handler = async () => {
      console.log('plain');
      console.error('of an error');
      console.log(JSON.stringify({ level: 'ERROR', message: 'no', code: 7 }));
      const _aws = { CloudWatchMetrics: [{ Namespace: 'n', Dimensions: [['operation']], Metrics: [{ Name: 'm' }] }] };
      console.log(JSON.stringify({ _aws, operation: 'o', m: 3, tenant: 't' }));
    };`;
    const { call, told, reports } = stage({ f: code }, { clock: () => 1_700_000_000_000 });
    await call();
    await Promise.all([told('m=3'), told('of an error')]);
    const written = reports
      .filter(({ kind }) => kind !== 'platform')
      .map(({ at, source, ...report }) => report);
    expect(written).toEqual(
      expect.arrayContaining([
        { kind: 'log', level: 'info', message: 'plain' },
        { kind: 'log', level: 'warn', message: 'of an error' },
        { kind: 'log', level: 'error', message: 'no', fields: { code: 7 } },
        {
          kind: 'metric',
          level: 'info',
          message: 'm=3',
          fields: {
            namespace: 'n',
            metrics: { m: 3 },
            dimensions: { operation: 'o' },
            properties: { tenant: 't' },
          },
        },
      ]),
    );
    expect(written).toHaveLength(4);
    expect(new Set(reports.map(({ at, source }) => `${at} ${source}`))).toEqual(new Set(['1700000000000 f']));
  });

  it('is told though it was killed, has no end, is no text or is very long', async () => {
    const code = `export const handler = async () => {
      process.stdout.write(Buffer.from([0xff, 0xfe, 0x00, 0x80, 0x0a]));
      await new Promise((resolve) => process.stdout.write('x'.repeat(3_000_000) + '\\n', resolve));
      process.stdout.write('the last words');
      process.kill(process.pid, 'SIGKILL');
    };`;
    const { pool, reports, told } = stage({ f: code });
    await pool.invoke('f', '{}');
    await told('the last words');
    const lengths = reports.filter(({ kind }) => kind === 'log').map(({ message }) => message.length);
    expect(lengths).toEqual([4, 256 * 1024 + 1, 'the last words'.length]);
  });

  it('into the pool’s own pipe ends its environment, and nothing else', async () => {
    const code = `
      import { writeSync } from 'node:fs';
      export const handler = async ({ spoils }) => {
        if (spoils) { writeSync(3, 'this is no frame of anybody'); await new Promise((r) => setInterval(r, 2 ** 30)); }
        return 'fine';
      };`;
    const { pool, call } = stage({ f: code });
    expect(await pool.invoke('f', '{"spoils":true}')).toMatchObject({ kind: 'failed', error: 'Crash' });
    expect(await call()).toBe('fine');
  });
});
