// Records the HTTP exchanges that a client makes for one call of ours, its own retries included. It watches the global
// fetch, which every client here uses by default, and changes nothing. Import it before any client.
import { AsyncLocalStorage } from 'node:async_hooks';

const current = new AsyncLocalStorage();
const fetchOfNode = globalThis.fetch;

globalThis.fetch = async (input, init) => {
  const tape = current.getStore();
  if (!tape) return fetchOfNode(input, init);
  const request = new Headers(input instanceof Request ? input.headers : undefined);
  new Headers(init?.headers).forEach((value, name) => request.set(name, value));
  const exchange = { request, status: 0, headers: new Headers(), body: Promise.resolve('') };
  tape.exchanges.push(exchange);
  const res = await fetchOfNode(input, init);
  exchange.status = res.status;
  exchange.headers = res.headers;
  if (tape.onStatus) await current.exit(() => tape.onStatus(res.status));
  if (!res.body) return res;
  const [forClient, forUs] = res.body.tee();
  exchange.body = collect(forUs);
  const watched = new Response(forClient, res);
  Object.defineProperty(watched, 'url', { value: res.url });
  return watched;
};

async function collect(stream) {
  const pieces = [];
  try {
    for await (const piece of stream) pieces.push(piece);
  } catch {
    // The client gets the same error; here only what came before it counts.
  }
  return Buffer.concat(pieces).toString('latin1');
}

export class Tape {
  exchanges = [];
  onStatus = undefined;

  get attempts() {
    return this.exchanges.length;
  }

  get last() {
    return this.exchanges.at(-1) ?? { headers: new Headers(), body: Promise.resolve('') };
  }

  get replayed() {
    return this.last.headers.get('idempotency-replayed') === 'true';
  }

  record(f) {
    return current.run(this, f);
  }
}
