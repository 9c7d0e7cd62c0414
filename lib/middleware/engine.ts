import { sameAttempt } from '../core/record.ts';
import { unitOfWork } from '../effects/unit-of-work.ts';
import { breaker } from './breaker.ts';
import { claimer } from './claim.ts';
import { finisher } from './finish.ts';
import { type Engine, type EnginePorts, lastCall } from './protocol.ts';

/** Reserve, run, complete: the protocol of one request, without anything of HTTP. */
export function engine<W>(ports: EnginePorts<W>): Engine<W> {
  const { ledger, clock } = ports;
  const fuse = breaker();
  return {
    ...claimer(ports, fuse),
    ...finisher(ports, fuse),

    async scheduled({ pk, ...fence }, until) {
      const record = await ledger.read(pk, { until });
      const same = record?.operationId === fence.operationId && sameAttempt(record, fence);
      return record?.status === 'in_progress' && same ? record : undefined;
    },

    begin(operation, mine, signal) {
      return unitOfWork({ ledger, clock, call: () => lastCall(operation, clock()) }, mine, signal);
    },
  };
}
