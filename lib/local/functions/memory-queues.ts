import type { Queues } from '../ports.ts';

/** As long as the cloud runs. */
export function memoryQueues(): Queues {
  const queues = new Map<string, string[]>();
  return {
    send(queue, body) {
      const bodies = queues.get(queue) ?? [];
      bodies.push(body);
      queues.set(queue, bodies);
    },
    waiting: (queue) => [...(queues.get(queue) ?? [])],
  };
}
