import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { isControl } from './control/control-plane.ts';

/** One port for both: the API as it is deployed, and beside it the control plane, which is not. */
export class FrontDoor {
  /** What the stacks have; nothing, while they are not up. */
  api: RequestListener | undefined;
  /** Beside it, as soon as there is something to look at or to move. */
  control: ((request: IncomingMessage, response: ServerResponse) => Promise<void>) | undefined;

  readonly listener: RequestListener = (request, response) => {
    if (isControl(request) && this.control) void this.control(request, response);
    else if (this.api) this.api(request, response);
    else notYet(response);
  };
}

/** As API Gateway says it when nothing answers behind it. */
function notYet(response: ServerResponse): void {
  response.writeHead(503, { 'content-type': 'application/json', 'retry-after': '1' });
  response.end('{"message":"Service Unavailable"}');
}
