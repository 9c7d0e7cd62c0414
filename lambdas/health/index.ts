import { health } from '../service/health.ts';

/** GET /health. */
export const handler = health;
