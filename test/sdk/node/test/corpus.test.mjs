import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import { ask, clients } from '../clients.mjs';
import { direct, newOp } from '../rig.mjs';

const streams = process.env.HOLDFAST_STREAMS ?? new URL('../../../../internal/provider/testdata/streams', import.meta.url).pathname;
const recordings = JSON.parse(readFileSync(`${streams}/index.json`, 'utf8')).filter(({ format }) => format === 'sse');

// Complete recordings that a client cannot read with or without a gateway, and why.
const limits = new Map(Object.entries({
  'openai/chat mistral-reasoning-array-content.sse': 'hands out the array of parts as it is',
  'ai/openai-chat mistral-reasoning-array-content.sse': 'asks for content that is a string',
  'ai/openai-chat mistral-tool-whole.sse': 'asks for an index in each tool call',
}));

suite('recorded streams', { concurrency: 16 }, () => {
  for (const client of clients) {
    const mine = recordings.filter(({ api }) => api === client.wire);
    assert.notEqual(mine.length, 0, `no recordings of ${client.wire} in ${streams}`);
    for (const recording of mine) {
      const { file, ends } = recording;
      if (ends === 'complete') {
        test(`${client.name} ${file}`, () => complete(client, recording));
        continue;
      }
      for (const [how, cut] of [['clean'], ['fin', { at: 'event', n: 1_000_000, how: 'fin' }]]) {
        test(`${client.name} ${file} ${how}`, { skip: direct && 'without a gateway between' }, () => broken(client, recording, cut));
      }
    }
  }
});

async function complete(client, { file, text }) {
  const { out, error } = await ask(client, true, { op: newOp(), prompt: `play ${file}`, script: { stream: file } });
  const known = limits.get(`${client.name} ${file}`);
  if (known) {
    assert.ok(error || out.text !== text, `reads it now; take it out of the list: ${known}`);
    return;
  }
  assert.ifError(error);
  assert.equal(brief(out.text), brief(text));
  assert.ok(out.text === text);
}

async function broken(client, { file, ends, text }, cut) {
  const script = { stream: file, event_ms: 5, ...(cut && { cut }) };
  const { out, tape, error } = await ask(client, true, { op: newOp(), prompt: `play ${file}`, script });
  assert.ok(error, `${ends}, yet no error; wire ${(await tape.last.body).slice(-400)}`);
  // A break that arrives together with the first content: nothing was visible yet (semantics 22).
  if (out.text === '' && client.fault(error).status >= 500) return;
  assert.equal(brief(out.text), brief(text));
}

const brief = (s) => (s.length > 200 ? `${s.slice(0, 100)}… (${s.length})` : s);
