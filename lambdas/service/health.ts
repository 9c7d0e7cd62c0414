import manifest from '../../package.json' with { type: 'json' };
import { type ApiAnswer, json } from './answers.ts';

/** GET /health: that the code has started, and which. It asks no store: a slow table must not take the service down. */
export async function health(): Promise<ApiAnswer> {
  return json(200, { status: 'ok', version: manifest.version });
}
