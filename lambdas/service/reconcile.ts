import { type Dispatcher, dispatcher, type Invoker, type Sweep, sweeper } from '../../lib/index.ts';
import { deliveries, operations } from './operations.ts';
import type { Service } from './service.ts';

/** Charges what payments have left in their outbox. */
export function serviceDispatcher<W>(service: Service<W>): Dispatcher {
  const { ledger, clock, sinks } = service;
  return dispatcher({
    ...{ ledger, clock, ...sinks },
    operations: operations(service),
    deliveries: deliveries(service),
  });
}

/** Moves what is due: with the service's resolvers, its deliveries, and leave to finish abandoned orders. */
export function serviceSweeper<W>(service: Service<W>, invoke: Invoker): Sweep {
  const { ledger, clock, sinks } = service;
  return sweeper({
    ...{ ledger, clock, invoke, ...sinks },
    operations: operations(service),
    dispatcher: serviceDispatcher(service),
  });
}
