/* A process with a pool in it, for the test that kills it. It prints the environment's pid once that is busy. */
import { memoryQueues } from '../../../lib/local/functions/memory-queues.ts';
import { functionPool } from '../../../lib/local/functions/pool.ts';
import type { FunctionModel } from '../../../lib/local/model.ts';

const model = JSON.parse(process.argv[2] ?? '{}') as FunctionModel;
const pool = functionPool({
  models: [model],
  clock: Date.now,
  endpoints: () => ({}),
  queues: memoryQueues(),
  report: ({ message }) => {
    if (message === 'busy') process.stdout.write(`${pool.pids(model.name).join(' ')}\n`);
  },
});
await pool.invoke(model.name, '{}');
