import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ask, clients } from '../clients.mjs';
import { calls, counts, gatewayOnly, newOp, release, waitHeld } from '../rig.mjs';
import { toolScript } from '../client/tool.mjs';
import { Tape } from '../tape.mjs';

const parallel = { concurrency: 16, ...gatewayOnly };
const forms = clients.flatMap((client) => [false, true].map((streamed) => ({ client, streamed, name: `${client.name} ${streamed ? 'stream' : 'plain'}` })));

suite('the same key again gets the first answer', parallel, () => {
  for (const { client, streamed, name } of forms) {
    for (const [what, more] of [['text', {}], ['tool', { tool: true, script: toolScript() }]]) {
      test(`${name}: ${what}`, async () => {
        const op = newOp();
        const call = { op, prompt: 'once only', headers: { 'Idempotency-Key': op }, ...more };
        const first = await ask(client, streamed, call);
        const second = await ask(client, streamed, call);
        assert.ifError(first.error);
        assert.ifError(second.error);
        assert.deepEqual([first.tape.replayed, second.tape.replayed], [false, true]);
        assert.deepEqual(second.out, first.out);
        assert.ok(first.out.text || first.out.call);
        assert.equal(await second.tape.last.body, await first.tape.last.body);
        assert.equal(second.tape.last.headers.get('holdfast-intent'), first.tape.last.headers.get('holdfast-intent'));
        const [sent, ...again] = await calls(op);
        assert.equal(again.length, 0);
        assert.notEqual(sent.idempotency_key, op, 'the caller\'s key went to the provider (semantics 17)');
      });
    }
  }
});

// A definite permanent failure is kept for its key, a transient one releases it (semantics 14).
suite('a failure and its key', parallel, () => {
  for (const { client, streamed, name } of forms) {
    for (const [status, kept] of [[400, true], [500, false]]) {
      test(`${name}: ${status}`, async () => {
        const op = newOp();
        const call = { op, prompt: 'fail once', script: { steps: [{ status }, {}] }, headers: { 'Idempotency-Key': op } };
        const first = await ask(client, streamed, call);
        assert.equal(client.fault(first.error).status, status);
        const second = await ask(client, streamed, call);
        assert.equal(second.tape.replayed, kept);
        if (kept) assert.equal(client.fault(second.error).status, status);
        else assert.ifError(second.error);
        assert.equal((await counts(op)).calls, kept ? 1 : 2);
      });
    }
  }
});

suite('twenty at once with one key are one call', { ...parallel, concurrency: 2 }, () => {
  for (const { client, streamed, name } of forms) {
    test(name, async () => {
      const op = newOp();
      const call = { op, prompt: 'all together', script: { work_ms: 200, event_ms: 10 }, headers: { 'Idempotency-Key': op } };
      const all = await Promise.all(Array.from({ length: 20 }, () => ask(client, streamed, call)));
      for (const { error } of all) assert.ifError(error);
      const bodies = new Set(await Promise.all(all.map(({ tape }) => tape.last.body)));
      assert.equal(bodies.size, 1);
      assert.ok(all[0].out.text);
      assert.equal(new Set(all.map(({ out }) => out.text)).size, 1);
      assert.equal(all.filter(({ tape }) => !tape.replayed).length, 1);
      assert.equal((await counts(op)).calls, 1);
    });
  }
});

// Where policy lets nobody wait, a duplicate is told to come back; clients that retry then get the first answer.
suite('a duplicate in flight', parallel, () => {
  for (const client of clients) {
    test(client.name, async () => {
      const op = newOp();
      const call = { op, prompt: 'mine', script: { hold: op }, retries: 2, headers: { 'Idempotency-Key': op, 'Holdfast-Workflow': 'conflict' } };
      const first = ask(client, false, call);
      await waitHeld(op);
      const tape = new Tape();
      tape.onStatus = async (status) => {
        if (status !== 409) return;
        await release(op);
        await first;
      };
      const second = await ask(client, false, call, tape);
      const { out, error } = await first;
      assert.ifError(error);
      assert.equal((await counts(op)).calls, 1);
      if (client.name === 'google/genai') { // does not retry
        const fault = client.fault(second.error);
        assert.deepEqual([fault.status, fault.code], [409, 'request_in_flight']);
        return;
      }
      assert.ifError(second.error);
      assert.deepEqual([second.out.text, tape.attempts, tape.replayed], [out.text, 2, true]);
    });
  }
});
