import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ask, clients, clientsOf } from '../clients.mjs';
import { awaitCut, backOff, counts, cutNow, cutter, cutterOnly, gatewayOnly, newOp, release, waitHeld } from '../rig.mjs';
import { cutHeaders, places, text, whole } from '../places.mjs';

const behindCutter = clientsOf(cutter ?? 'http://127.0.0.1:1');

// Wherever in the answer, and without a key: the provider is called once.
suite('who loses the connection and asks again gets the first answer', { concurrency: 24, ...cutterOnly }, () => {
  for (const client of behindCutter) {
    for (const place of places) {
      for (const streamed of place.streamed ? [true] : [false, true]) {
        test(`${client.name} ${streamed ? 'stream' : 'plain'}: ${place.name}`, () => lost(client, place, streamed));
      }
    }
  }
});

async function lost(client, place, streamed) {
  const op = newOp();
  const call = { op, prompt: 'say it once', script: { text, event_ms: 5, ...(place.held && { hold: op }) }, headers: cutHeaders(place, client, streamed, op) };
  const answer = (async () => {
    const first = await ask(client, streamed, call);
    if (first.tape.attempts > 1) return first; // by itself
    await backOff();
    if (place.fin && client.retry) call.headers['X-Stainless-Retry-Count'] = '1'; // as its own retries say it
    return ask(client, streamed, call);
  })();
  if (place.at === 'now') {
    await waitHeld(op);
    await cutNow(op);
  }
  if (place.held) {
    await awaitCut(op, 2);
    await release(op);
  }
  const { out, tape, error } = await answer;
  await awaitCut(op, 2);
  assert.ifError(error);
  assert.ok(whole(out), JSON.stringify(out));
  // An orderly end behind a whole answer is what every client does that has read it: without a word of its own the
  // same question is a new one (semantics 19).
  const once = !place.fin || client.retry;
  assert.equal((await counts(op)).calls, once ? 1 : 2);
  if (!place.workflow) assert.equal(tape.replayed, once); // of a bridged answer a trailer says it, which fetch does not show
}

suite('fifty at once of clients that stay are fifty calls', { concurrency: 4, ...gatewayOnly }, () => {
  for (const client of clients) {
    for (const streamed of [false, true]) {
      test(`${client.name} ${streamed ? 'stream' : 'plain'}`, async () => {
        const call = { op: newOp(), prompt: 'what do you think?', script: { text: 'I am voter %N', work_ms: 50, event_ms: 5 } };
        const all = await Promise.all(Array.from({ length: 50 }, () => ask(client, streamed, call)));
        for (const { error, tape } of all) {
          assert.ifError(error);
          assert.deepEqual([tape.replayed, tape.attempts], [false, 1]);
        }
        assert.equal(new Set(all.map(({ out }) => out.text)).size, 50);
        assert.equal((await counts(call.op)).calls, 50);
      });
    }
  }
});

suite('of two that ask for one lost answer one gets it', { concurrency: 8, ...cutterOnly }, () => {
  for (const client of behindCutter) {
    test(client.name, async () => {
      const op = newOp();
      const [place] = places.filter(({ name }) => name === 'after the first content');
      const call = {
        op, prompt: 'say it to one', script: { text, hold: op, hold_at: 'event', hold_n: client.lead + 1 },
        headers: cutHeaders(place, client, true, op),
      };
      const first = await ask(client, true, call);
      assert.ok(first.error, 'not cut');
      await backOff();
      const both = Promise.all([ask(client, true, call), ask(client, true, call)]);
      await waitHeld(op, 2);
      await release(op);
      const [a, b] = await both;
      assert.ifError(a.error);
      assert.ifError(b.error);
      assert.notEqual(a.tape.replayed, b.tape.replayed);
      assert.ok(whole(a.out) && whole(b.out) && a.out.text !== b.out.text, `${a.out.text} and ${b.out.text}`);
      assert.equal((await counts(op)).calls, 2);
    });
  }
});

suite('who has the whole answer and asks again gets a new one', { concurrency: 16, ...gatewayOnly }, () => {
  for (const client of clients) {
    for (const streamed of [false, true]) {
      test(`${client.name} ${streamed ? 'stream' : 'plain'}`, async () => {
        const call = { op: newOp(), prompt: 'and again', script: { text: 'answer %N' }, headers: { 'Holdfast-Workflow': 'brief' } };
        const seen = new Set();
        const next = async () => {
          const { out, error, tape } = await ask(client, streamed, call);
          assert.ifError(error);
          assert.equal(tape.replayed, false);
          seen.add(out.text);
        };
        await next();
        await next(); // at once
        await backOff();
        await backOff();
        await next(); // a second later
        assert.equal(seen.size, 3);
        assert.equal((await counts(call.op)).calls, 3);
      });
    }
  }
});
