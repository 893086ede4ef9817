import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ask, clients, clientsOf } from '../clients.mjs';
import { backOff, counts, cutter, cutterOnly, gatewayOnly, newOp } from '../rig.mjs';
import { cutHeaders, places, text, whole } from '../places.mjs';

const behindCutter = clientsOf(cutter ?? 'http://127.0.0.1:1');
const parallel = { concurrency: 16 };
const google = (client) => client.wire === 'streamGenerateContent';

const events = (body) => body.match(/\r?\n\r?\n/g)?.length ?? 0;

suite('the bytes behind the n-th event are those of the recording', { ...parallel, ...gatewayOnly }, () => {
  for (const client of clients) {
    test(client.name, async () => {
      const op = newOp();
      const call = { op, prompt: 'go on', headers: { 'Idempotency-Key': op } };
      const first = await ask(client, true, call);
      assert.ifError(first.error);
      const body = await first.tape.last.body;
      assert.doesNotMatch(body, /^id:/m, 'numbers that nobody asked for');
      const all = events(body);
      for (let n = 0; n <= all; n++) {
        // A client need not understand half a stream: the bytes count.
        const { tape } = await ask(client, true, { ...call, headers: { ...call.headers, 'Last-Event-ID': String(n) } });
        const rest = await tape.last.body;
        assert.ok(body.endsWith(rest), rest);
        assert.equal(events(body.slice(0, body.length - rest.length)), n);
        assert.match(body.slice(0, body.length - rest.length), /(^|\n\r?\n)$/);
      }
      await streamLost(client, { ...call, headers: { ...call.headers, 'Last-Event-ID': String(all + 1) } });
      assert.equal((await counts(op)).calls, 1);
    });
  }
});

// Gemini's clients, which do not survive numbers, get none.
suite('what came before the loss and what follows are the answer', { ...parallel, ...cutterOnly }, () => {
  for (const client of behindCutter) {
    test(client.name, async () => {
      const op = newOp();
      const [place] = places.filter(({ name }) => name === 'after the first content');
      const call = {
        op, prompt: 'from here', script: { text, event_ms: 5 },
        headers: { 'Holdfast-Stream-Ids': '1', 'Holdfast-Workflow': 'patient', ...cutHeaders(place, client, true, op) },
      };
      const first = await ask(client, true, call);
      assert.ok(first.error, 'not cut');
      const got = await first.tape.last.body;
      await backOff();
      const second = await ask(client, true, { ...call, headers: { ...call.headers, 'Last-Event-ID': String(events(got)) } });
      const rest = await second.tape.last.body;
      // A retry, which says so, gets the whole recording.
      const third = await ask(client, true, { ...call, headers: { ...call.headers, 'X-Stainless-Retry-Count': '2' } });
      assert.ifError(third.error);
      assert.ok(whole(third.out), third.out.text);
      assert.equal(got + rest, await third.tape.last.body);
      const numbers = Array.from((got + rest).matchAll(/^id: (\d+)$/gm), ([, n]) => Number(n));
      assert.deepEqual(numbers, google(client) ? [] : Array.from({ length: events(got + rest) }, (_, i) => i + 1));
      assert.equal((await counts(op)).calls, 1);
    });
  }
});

suite('nothing to resume from', { ...parallel, ...gatewayOnly }, () => {
  for (const client of clients) {
    test(client.name, async () => {
      const op = newOp();
      const call = { op, prompt: 'never asked', headers: { 'Last-Event-ID': '1' } };
      await streamLost(client, call);
      await streamLost(client, { ...call, headers: { ...call.headers, 'Idempotency-Key': op } });
    });
  }
});

async function streamLost(client, call) {
  const before = (await counts(call.op)).calls;
  const { tape, error } = await ask(client, true, call);
  const fault = client.fault(error);
  assert.deepEqual([fault.status, fault.code, tape.attempts], [409, 'stream_lost', 1]);
  assert.equal((await counts(call.op)).calls, before);
}
