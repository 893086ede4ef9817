// What a run of the suite talks to. Both addresses come from the environment, so that the same tests prove first the
// simulator (HOLDFAST_URL equal to SIM_URL) and then the gateway in front of it.
import { createHash } from 'node:crypto';

const address = (name) => {
  const url = new URL(process.env[name] ?? 'unset:');
  // The suite sends faults and floods: to this machine only.
  if (!['127.0.0.1', 'localhost', '[::1]'].includes(url.hostname)) {
    throw new Error(`${name} is not a loopback address; run ../run.sh, or set HOLDFAST_URL and SIM_URL to running processes`);
  }
  return url.origin;
};

export const base = address('HOLDFAST_URL');
export const sim = address('SIM_URL');
// A second gateway, which knows none of the clients' credentials.
export const guarded = process.env.HOLDFAST_GUARDED_URL && address('HOLDFAST_GUARDED_URL');
// A breaking network in front of the gateway.
export const cutter = process.env.HOLDFAST_CUT_URL && address('HOLDFAST_CUT_URL');
// A gateway that retries.
export const nest = process.env.HOLDFAST_NEST_URL && address('HOLDFAST_NEST_URL');
// A gateway whose answers come from another API than the client's.
export const translate = process.env.HOLDFAST_TRANSLATE_URL && address('HOLDFAST_TRANSLATE_URL');
export const direct = base === sim;

// What only a gateway can do is skipped without one.
export const gatewayOnly = direct ? { skip: 'without a gateway between' } : {};
export const cutterOnly = cutter ? {} : { skip: 'without a gateway and a breaking network between' };

const run = `node${Date.now().toString(36)}`;
let seq = 0;
export const newOp = () => `${run}-${++seq}`;

const control = (method, path) => document(method, `${sim}/sim/v1/${path}`);

async function document(method, url) {
  const res = await fetch(url, { method, signal: AbortSignal.timeout(30_000) });
  const body = await res.text();
  if (!res.ok) throw new Error(`${method} ${url}: ${res.status}: ${body}`);
  return JSON.parse(body);
}

export const counts = (op) => control('GET', `ops/${encodeURIComponent(op)}`);
export const calls = (op) => control('GET', `calls?op=${encodeURIComponent(op)}`);
export const release = (gate) => control('POST', `gates/${encodeURIComponent(gate)}`);
export const waitHeld = (gate, n = 1) => control('GET', `wait?timeout_ms=20000&held=${n}&gate=${encodeURIComponent(gate)}`);

// Waits until the cutter has cut the operation's connection and seen so many requests.
export const awaitCut = (op, requests) => document('GET', `${cutter}/cutter/v1/await?cut=1&requests=${requests}&id=${encodeURIComponent(op)}`);
export const cutNow = (op) => document('POST', `${cutter}/cutter/v1/cut?id=${encodeURIComponent(op)}`);

// As the clients that retry do it.
export const backOff = () => new Promise((done) => setTimeout(done, 500));

// How the simulator's call log shows a credential.
export const fingerprint = (credential) => `sha256:${createHash('sha256').update(credential).digest('hex').slice(0, 12)}`;
