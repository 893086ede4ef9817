import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { ask, clientsOf } from '../clients.mjs';
import { counts, nest, newOp, release, waitHeld } from '../rig.mjs';

// Retries upon retries: the gateway's (nest.yaml: three attempts), the client's with its defaults (Google's with retries
// switched on, short ones), and a caller's loop that waits for nothing. ../go/nest_test.go says the same of Go's clients.
const maxAttempts = 3;
const tries = 3;
const options = { concurrency: 128, skip: !nest && 'HOLDFAST_NEST_URL is not set' };

const busy = (seconds) => ({ status: 429, headers: { 'Retry-After': `${seconds}` } });
const once = (step) => ({ steps: [step, 'ok'] });
const always = (...steps) => ({ steps, times: -1 });

const forms = nest ? clientsOf(nest).flatMap((client) => [false, true].map((streamed) => ({ client, streamed, name: `${client.name} ${streamed ? 'stream' : 'plain'}` }))) : [];
const isVercel = (client) => client.name.startsWith('ai/');

// An operation with routes of its own: its credential is its own.
function stacked({ client, streamed }, script, { keyed, workflow, again = true } = {}) {
  const op = newOp();
  const headers = { Authorization: `Bearer ${op}`, ...(keyed && { 'Idempotency-Key': op }), ...(workflow && { 'Holdfast-Workflow': workflow }) };
  const call = { op, prompt: 'be patient', script, headers, again, retries: isVercel(client) && again ? 2 : undefined };
  const tapes = [];
  const run = { client, call, tapes, result: undefined };
  run.once = async () => {
    run.result = await ask(client, streamed, call);
    tapes.push(run.result.tape);
  };
  run.loop = async () => {
    for (let n = 0; n < tries; n++) {
      await run.once();
      if (!run.result.error) return;
    }
  };
  run.requests = () => tapes.reduce((n, tape) => n + tape.attempts, 0);
  return run;
}

async function calls(run, want) {
  const n = (await counts(run.call.op)).calls;
  assert.equal(n, want, `${n} calls upstream, want ${want}; ${run.requests()} requests, ${run.tapes.length} tries, ${run.result.error}`);
}

async function answered(run) {
  await run.loop();
  assert.ifError(run.result.error);
  assert.notEqual(run.result.out.text, '');
  assert.equal(run.requests(), 1);
}

// The client's own type; one that obeys x-should-retry made one request for each try.
function failed(run, status, requests = run.tapes.length) {
  assert.ok(run.result.error, `no error, want ${status}`);
  const fault = run.client.fault(run.result.error);
  assert.ok(fault.typed, `not the client's own error: ${run.result.error}`);
  assert.equal(fault.status, status);
  if (run.client.retry) assert.equal(run.requests(), requests);
  return fault;
}

// An error of the gateway's own.
function refused(run, status, code, again, least, most, requests) {
  assert.equal(failed(run, status, requests).code, code);
  const { headers } = run.result.tape.last;
  const wait = Number(headers.get('retry-after'));
  assert.ok(wait >= least && wait <= most, `Retry-After: ${headers.get('retry-after')}`);
  assert.equal(headers.get('holdfast-error'), code);
  assert.equal(headers.get('x-should-retry'), `${again}`);
  assert.equal(headers.get('holdfast-safe-to-retry'), 'yes');
}

const keys = [{ keyed: false, key: 'derived key' }, { keyed: true, key: 'explicit key' }];

suite('retries upon retries', options, () => {
  for (const form of forms) {
    for (const { keyed, key } of keys) {
      // A wait that keeps its slot, and one that gives it back (semantics 36).
      for (const seconds of [1, 3]) {
        test(`busy once, for ${seconds} s, ${key}: ${form.name}`, async () => {
          const run = stacked(form, once(busy(seconds)), { keyed });
          await answered(run);
          await calls(run, 2);
        });
      }
      // Until the wait is over nobody calls the route, whatever they ask and under whatever key (semantics 34).
      test(`busy for long, ${key}: ${form.name}`, async () => {
        const run = stacked(form, busy(3600), { keyed, again: !isVercel(form.client) });
        await run.loop();
        failed(run, 429);
        run.call.prompt = 'another question';
        delete run.call.headers['Idempotency-Key'];
        await run.loop();
        refused(run, 429, 'rate_limited', false, 3500, 3600);
        await calls(run, 1);
      });
    }
    test(`down twice: ${form.name}`, async () => {
      const run = stacked(form, { steps: ['503', '503', 'ok'] });
      await answered(run);
      await calls(run, maxAttempts);
    });
    // An outcome that is unknown is repeated as the same operation, whose attempts are counted on (semantics 20, 37).
    // Vercel's client retries after 2 and 4 s without a count, which is one try of the caller's here.
    test(`always broken: ${form.name}`, async () => {
      const run = stacked(form, always('500'));
      await (isVercel(form.client) ? run.once() : run.loop());
      failed(run, 500);
      await calls(run, maxAttempts);
    });
    // Until the provider's wait is over its error is the answer to the same question (semantics 21).
    test(`always busy: ${form.name}`, async () => {
      const run = stacked(form, always(busy(2), busy(2), busy(3600)), { again: !isVercel(form.client) });
      await run.loop();
      failed(run, 429);
      await calls(run, maxAttempts);
    });
    test(`circuit_open: ${form.name}`, async () => {
      const run = stacked(form, always('500'), { workflow: 'tripping', again: !isVercel(form.client) });
      await run.once();
      failed(run, 500);
      run.call.prompt = 'another question';
      await run.loop();
      refused(run, 503, 'circuit_open', false, 1, 90);
      await calls(run, 1);
    });
  }
  // A definite failure without a wait holds no derived key (semantics 21), and any that may pass releases an explicit one
  // (semantics 14): each try of the caller's is an operation of its own.
  for (const form of forms) {
    for (const [status, keyed] of [[503, false], [500, true]]) {
      test(`always ${status}, released: ${form.name}`, async () => {
        const run = stacked(form, always(`${status}`), { keyed, again: false });
        await run.loop();
        failed(run, status);
        await calls(run, tries * maxAttempts);
      });
    }
  }
});

// Where all slots are in use a client is told to come back soon, and those that retry do.
for (const [workflow, code, status] of [['full', 'bulkhead_full', 429], ['waiting', 'admission_timeout', 503]]) {
  suite(`no slot is free: ${code}`, options, () => {
    const gates = [];
    const holders = [];
    before(async () => {
      for (const { client } of forms.filter(({ client, streamed }) => !streamed && ['openai/chat', 'anthropic/messages', 'google/genai'].includes(client.name))) {
        const op = newOp();
        gates.push(op);
        holders.push(ask(client, false, { op, prompt: 'hold the slot', script: { hold: op }, headers: { 'Holdfast-Workflow': workflow } }));
        await waitHeld(op);
      }
    });
    after(async () => {
      for (const gate of gates) await release(gate);
      for (const { error } of await Promise.all(holders)) assert.ifError(error);
    });
    for (const form of forms) {
      test(form.name, async () => {
        const run = stacked(form, 'ok', { workflow, again: false });
        await run.once();
        refused(run, status, code, true, 1, 3, 3);
        await calls(run, 0);
      });
    }
  });
}
