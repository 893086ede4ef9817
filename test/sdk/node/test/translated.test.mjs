// The answers that package translate tells to a client (its golden files), as the official clients read them.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';

const testdata = join(dirname(fileURLToPath(import.meta.url)), '../../../../translate/testdata');

// serve answers every call with the file.
function serve(file) {
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      response.writeHead(200, { 'content-type': file.endsWith('.sse') ? 'text/event-stream' : 'application/json' });
      response.end(readFileSync(file));
    });
  });
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve({ server, url: `http://127.0.0.1:${server.address().port}` })));
}

// What each case says, whichever far side said it; error: the client must raise one.
const said = {
  'openai/plain': { text: 'Invoice 1042: 19.99 € <paid> \\ "ok"', finish: 'stop' },
  'openai/stream': { text: { anthropic: 'Hi', gemini: 'There are **3** "r"s.' }, finish: 'stop' },
  'openai/tools': { text: 'One more.', finish: 'tool_calls', calls: ['weather', 'now'] },
  'openai/tools-stream': { text: { anthropic: "I'll look.", gemini: '' }, finish: 'tool_calls', calls: { anthropic: ['weather', 'now'], gemini: ['create_invoice'] } },
  'openai/schema': { text: '{"name":"Ada","age":36,"tags":["a"]}', finish: 'stop' },
  'openai/image': { text: 'A dot', finish: 'length' },
  'openai/refusal': { text: { anthropic: 'Hi', gemini: '' }, finish: 'content_filter' },
  'openai/error': { error: true },
  'anthropic/plain': { text: '4 € <b>', finish: 'end_turn' },
  'anthropic/stream': { text: { openai: 'The capital of France is Paris, on the Seine.', gemini: 'Four' }, finish: 'end_turn' },
  'anthropic/tools': { text: 'One more.', finish: 'tool_use', calls: ['weather', 'now'] },
  'anthropic/tools-stream': { text: { openai: "I'll create it.", gemini: '' }, finish: 'tool_use', calls: ['create_invoice'] },
  'anthropic/schema': { text: '{"name":"Ada","age":36,"tags":["a"]}', finish: 'end_turn' },
  'anthropic/image': { text: 'A dot', finish: 'max_tokens' },
  'anthropic/refusal': { text: { openai: 'The capital of France is', gemini: '' }, finish: 'refusal' },
  'anthropic/refusal-plain': { text: { openai: "I can't help with that.", gemini: '' }, finish: 'refusal' },
  'anthropic/error': { error: true },
};

// parsed is the name of a call whose arguments are JSON.
const parsed = (name, json) => {
  JSON.parse(json);
  return name;
};

async function openai(url, body) {
  const client = new OpenAI({ baseURL: url, apiKey: 'key', maxRetries: 0 });
  const answer = body.stream ? await client.chat.completions.stream(body).finalChatCompletion() : await client.chat.completions.create(body);
  const { message, finish_reason: finish } = answer.choices[0];
  return { text: message.content ?? '', finish, calls: (message.tool_calls ?? []).map((c) => parsed(c.function.name, c.function.arguments)) };
}

async function anthropic(url, body) {
  const client = new Anthropic({ baseURL: url, apiKey: 'key', maxRetries: 0 });
  const { stream, ...params } = body;
  const answer = stream ? await client.messages.stream(params).finalMessage() : await client.messages.create(params);
  const text = answer.content.filter((b) => b.type === 'text').map((b) => b.text).join('');
  const calls = answer.content.filter((b) => b.type === 'tool_use').map((b) => parsed(b.name, JSON.stringify(b.input)));
  return { text, finish: answer.stop_reason, calls };
}

const of = (v, far) => (v && !Array.isArray(v) && typeof v === 'object' ? v[far] : v);

for (const [name, want] of Object.entries(said)) {
  const folder = join(testdata, name);
  const body = JSON.parse(readFileSync(join(folder, 'request.json'), 'utf8'));
  const told = readdirSync(folder).filter((f) => f.includes('.told.'));
  assert.equal(told.length, 2, name);
  for (const file of told) {
    const far = file.split('.')[0];
    test(`translated ${name} from ${far}`, async () => {
      const { server, url } = await serve(join(folder, file));
      const asked = name.startsWith('openai/') ? openai(url, body) : anthropic(url, body);
      try {
        if (want.error) {
          await assert.rejects(asked);
        } else {
          assert.deepEqual(await asked, { text: of(want.text, far), finish: want.finish, calls: of(want.calls, far) ?? [] });
        }
      } finally {
        server.close();
        server.closeAllConnections();
      }
    });
  }
}
