import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { suite, test } from 'node:test';
import { ask, clients } from '../clients.mjs';
import { counts, direct, gatewayOnly, newOp } from '../rig.mjs';
import { toolScript } from '../client/tool.mjs';

const parallel = { concurrency: 24 };

const cutByte = (how) => ({ cut: { at: 'byte', n: 60, how } });

suite('a plain answer that ends early raises, however it ends', parallel, () => {
  const scripts = {
    fin: cutByte('fin'), reset: cutByte('reset'), torn: cutByte('torn'), clean: cutByte('clean'),
    'head only': 'reset_after_head', empty: { body: '' }, 'reply lost': 'reply_lost', 'reset unhandled': 'reset_after_body',
  };
  for (const client of clients) {
    for (const [how, script] of Object.entries(scripts)) {
      // An empty 200 is an empty success to some clients; the gateway must tell it.
      test(`${client.name}: ${how}`, how === 'empty' ? gatewayOnly : {}, async () => {
        const op = newOp();
        const { out, tape, error } = await ask(client, false, { op, prompt: 'cut me', script });
        assert.ok(error, `no error, answer ${JSON.stringify(out)}`);
        if (direct) return; // the clients' own retries of a lost connection differ
        const fault = client.fault(error);
        assert.ok(fault.typed && fault.status >= 500, inspect(fault));
        assert.deepEqual([tape.attempts, (await counts(op)).calls], [1, 1]);
      });
    }
  }
});

// Also where the HTTP body ends properly, which no client notices by itself (sdk-facts).
suite('a stream that ends early raises at each place and in each manner', parallel, () => {
  const manners = {
    fin: (n) => ({ cut: { at: 'event', n, how: 'fin' } }),
    reset: (n) => ({ cut: { at: 'event', n, how: 'reset' } }),
    torn: (n) => ({ cut: { at: 'event', n, how: 'torn' } }),
    clean: (n) => ({ cut: { at: 'event', n, how: 'clean' } }),
    'late reset': (n) => ({ cut: { at: 'event', n, how: 'stall', stall_ms: 100 } }),
    error: (n) => ({ error_event: n, event_ms: 20 }),
  };
  for (const client of clients) {
    const places = [['at the head', 0], ['before content', client.lead], ['after content', client.lead + 1], ['in a tool call', client.inTool, true]];
    for (const [how, end] of Object.entries(manners)) {
      for (const [place, events, tool] of places) {
        test(`${client.name}: ${how} ${place}`, ['clean', 'error'].includes(how) ? gatewayOnly : {}, () => cutStream(client, how, end(events), events, tool));
      }
    }
  }
});

async function cutStream(client, how, end, events, tool) {
  const call = { op: newOp(), prompt: 'cut me', tool, script: tool ? toolScript(end) : end };
  const { out, tape, error } = await ask(client, true, call);
  assert.ok(error, `no error, answer ${JSON.stringify(out)}; wire ${(await tape.last.body).slice(-400)}`);
  const content = out.text !== '' || out.call !== undefined;
  // A break that arrives together with the first content may be answered by an error instead of a stream: nothing
  // was visible yet (semantics 22). Where there is time between the two the content must be out.
  const together = !direct && !['late reset', 'error'].includes(how) && client.fault(error).status >= 500;
  if (!together || content) assert.equal(content, events > client.lead, `content ${JSON.stringify(out)} after ${events} events`);
  if (direct) return;
  assert.deepEqual([tape.attempts, (await counts(call.op)).calls], [1, 1]);
  if (how === 'error') return; // the provider's own code, in the provider's words
  assert.match(inspect(error, { depth: 8 }) + JSON.stringify(error), /upstream_incomplete/);
}

suite('a stream that falls silent raises when the idle time is over', { ...parallel, ...gatewayOnly }, () => {
  for (const client of clients) {
    test(client.name, async () => {
      const call = { op: newOp(), prompt: 'stall', script: `stall:${client.lead + 1}`, headers: { 'Holdfast-Workflow': 'impatient' } };
      const { out, error } = await ask(client, true, call);
      assert.ok(error, 'no error');
      assert.notEqual(out.text, '');
    });
  }
});
