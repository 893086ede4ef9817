import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Tape } from '../tape.mjs';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { calls, counts, newOp, translate } from '../rig.mjs';
import { toolArgs, toolName, toolSchema } from '../client/tool.mjs';

// A client is answered by another API than its own: by the only tier of its workflow, or behind a first one that fails
// (translate.yaml). ../../go/translate_test.go says the same of Go's clients.
const options = { concurrency: 32, skip: !translate && 'HOLDFAST_TRANSLATE_URL is not set' };

const toolResult = '11 °C, "rain"';
const picture = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const personSchema = {
  type: 'object', additionalProperties: false, required: ['name', 'age'], properties: { name: { type: 'string' }, age: { type: 'integer' } },
};

// A conversation in one API, with its official client: each call of a tool is answered with a result, until the model calls none.
// out holds what had come when an error is thrown.
async function speakOpenAI(q, out) {
  const sdk = new OpenAI({ baseURL: `${translate}/v1`, apiKey: 'sk-test-openai', maxRetries: 0 });
  const content = q.images ? [{ type: 'image_url', image_url: { url: `data:image/png;base64,${picture}` } }, { type: 'text', text: q.prompt }] : q.prompt;
  const body = {
    model: 'gpt-5-mini',
    messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Hello' }, { role: 'assistant', content: 'Hi' }, { role: 'user', content }],
    ...(q.tools && { tools: [{ type: 'function', function: { name: toolName, parameters: toolSchema } }] }),
    ...(q.schema && { response_format: { type: 'json_schema', json_schema: { name: 'person', strict: true, schema: personSchema } } }),
    ...(q.stream && { stream: true, stream_options: { include_usage: true } }),
  };
  for (;;) {
    let answer;
    if (q.stream) {
      const events = sdk.chat.completions.stream(body, { headers: q.headers });
      events.on('content', (delta) => (out.text += delta));
      out.text = '';
      answer = await events.finalChatCompletion();
    } else {
      answer = await sdk.chat.completions.create(body, { headers: q.headers });
    }
    const { message, finish_reason: finish } = answer.choices[0];
    Object.assign(out, { text: message.content ?? '', finish, in: answer.usage.prompt_tokens, out: answer.usage.completion_tokens });
    if (!message.tool_calls?.length) return;
    body.messages.push(message);
    for (const c of message.tool_calls) {
      out.calls.push([c.function.name, JSON.parse(c.function.arguments)]);
      body.messages.push({ role: 'tool', tool_call_id: c.id, content: toolResult });
    }
  }
}

async function speakAnthropic(q, out) {
  const sdk = new Anthropic({ baseURL: translate, apiKey: 'sk-test-anthropic', maxRetries: 0 });
  const content = [{ type: 'text', text: q.prompt }];
  if (q.images) content.unshift({ type: 'image', source: { type: 'base64', media_type: 'image/png', data: picture } });
  const body = {
    model: 'claude-haiku-4-5', max_tokens: 1024, system: 'Be brief.',
    messages: [{ role: 'user', content: 'Hello' }, { role: 'assistant', content: 'Hi' }, { role: 'user', content }],
    ...(q.tools && { tools: [{ name: toolName, input_schema: toolSchema }] }),
    ...(q.schema && { output_config: { format: { type: 'json_schema', schema: personSchema } } }),
  };
  for (;;) {
    let answer;
    if (q.stream) {
      const events = sdk.messages.stream(body, { headers: q.headers });
      events.on('text', (delta) => (out.text += delta));
      out.text = '';
      answer = await events.finalMessage();
    } else {
      answer = await sdk.messages.create(body, { headers: q.headers });
    }
    const text = answer.content.filter((b) => b.type === 'text').map((b) => b.text).join('');
    Object.assign(out, { text, finish: answer.stop_reason, in: answer.usage.input_tokens, out: answer.usage.output_tokens });
    const uses = answer.content.filter((b) => b.type === 'tool_use');
    if (uses.length === 0) return;
    out.calls.push(...uses.map((b) => [b.name, b.input]));
    body.messages.push({ role: 'assistant', content: answer.content },
      { role: 'user', content: uses.map((b) => ({ type: 'tool_result', tool_use_id: b.id, content: toolResult })) });
  }
}

const clients = {
  openai: { speak: speakOpenAI, error: OpenAI.APIError, stop: 'stop', limit: 'length', overloaded: 503 },
  anthropic: { speak: speakAnthropic, error: Anthropic.APIError, stop: 'end_turn', limit: 'max_tokens', overloaded: 529 },
};
const limits = { openai: 'length', anthropic: 'max_tokens', gemini: 'MAX_TOKENS' };

const crossings = [['openai', 'anthropic'], ['openai', 'gemini'], ['anthropic', 'openai'], ['anthropic', 'gemini']].flatMap(([client, far]) =>
  [false, true].flatMap((second) => [false, true].map((stream) => ({ client, far, second, stream, name: `${client} from ${far}${second ? ', second' : ''}${stream ? ', stream' : ''}` }))));

// A question that the far side answers by these steps, one for each call of it. Nothing but the text gets there.
function asks({ client, far, second, stream }, op, ...steps) {
  const all = second ? steps.flatMap((step) => ['503', step]) : steps;
  return { prompt: `Tell me, sim:${JSON.stringify({ steps: all })} op=${op}`, stream, headers: { 'Holdfast-Workflow': second ? `${client}_then_${far}` : far } };
}

async function talk({ client }, q) {
  const tape = new Tape();
  const out = { text: '', finish: undefined, calls: [] };
  try {
    await tape.record(() => clients[client].speak(q, out));
    return { out, tape };
  } catch (error) {
    return { out, tape, error };
  }
}

// talk that succeeds, and was answered by the far side.
async function must(x, q) {
  const { out, tape, error } = await talk(x, q);
  assert.ifError(error);
  assert.equal(tape.last.headers.get('holdfast-source'), 'far');
  return { ...out, tape };
}

const each = (f) => () => {
  for (const x of crossings) test(x.name, () => f(x));
};

suite('translated: text', options, each(async (x) => {
  const op = newOp();
  const got = await must(x, asks(x, op, { text: 'four € "<b>" %N' }));
  assert.match(got.text, /^four € "<b>" \d+/);
  assert.equal(got.finish, clients[x.client].stop);
  assert.ok(got.in > 0 && got.out > 0, `${got.in}, ${got.out}`);
  assert.equal((await counts(op)).effects, 1);
  assert.equal((await must(x, asks(x, newOp(), { finish: limits[x.far] }))).finish, clients[x.client].limit);
}));

// A tool is called three times, each time with the result of the call before.
suite('translated: tools', options, each(async (x) => {
  const op = newOp();
  const step = { tool: toolName, tool_args: toolArgs };
  const got = await must(x, { ...asks(x, op, step, step, step, 'ok'), tools: true });
  assert.deepEqual(got.calls, Array(3).fill([toolName, toolArgs]));
  assert.equal(got.finish, clients[x.client].stop);
  assert.notEqual(got.text, '');
  const last = (await calls(op)).at(-1).body;
  assert.equal(last.split(JSON.stringify(toolResult).slice(1, -1)).length - 1, 3, last);
}));

suite('translated: schema', options, each(async (x) => {
  const person = JSON.parse((await must(x, { ...asks(x, newOp(), 'ok'), schema: true })).text);
  assert.deepEqual(Object.keys(person).sort(), ['age', 'name']);
}));

suite('translated: images', options, each(async (x) => {
  const op = newOp();
  await must(x, { ...asks(x, op, 'ok'), images: true });
  const last = (await calls(op)).at(-1).body;
  assert.ok(last.includes(picture) && last.includes('Be brief.'), last);
}));

// The far side's errors are errors of the client's own type, with the status that its API has for them. What comes of several tiers
// is told as one error of the gateway's.
suite('translated: failures', options, () => {
  for (const x of crossings.filter(({ second }) => !second)) {
    test(x.name, async () => {
      const { error: type, overloaded } = clients[x.client];
      for (const [step, status] of [[{ status: 400, message: 'wrong' }, 400], [{ status: 503, message: 'later' }, overloaded], [{ status: 500, message: 'oh' }, 500]]) {
        const { error } = await talk(x, asks(x, newOp(), step));
        assert.ok(error instanceof type, `${error}`);
        assert.equal(error.status, status);
        assert.ok(error.message.includes(step.message), error.message);
      }
    });
  }
});

// A stream that breaks before its first content is an error in its place, or the next tier's matter; behind it the client has what
// came, and raises.
suite('translated: broken', options, each(async (x) => {
  if (!x.stream) {
    assert.ok((await talk(x, asks(x, newOp(), 'cut:1'))).error, 'half a document was an answer');
    return;
  }
  for (const how of ['cut', 'reset', 'clean', 'error']) {
    const early = await talk(x, asks(x, newOp(), `${how}:0`));
    assert.ok(early.error && early.out.text === '', `${how} before its content: ${JSON.stringify(early.out)}`);
    const op = newOp();
    const { out, error } = await talk(x, asks(x, op, `${how}:4`, 'ok'));
    assert.ok(error && out.text !== '' && out.finish === undefined, `${how} behind its content: ${error}, ${JSON.stringify(out)}`);
    assert.equal((await counts(op)).effects, 1);
  }
}));

// An answer that did not arrive is asked for again, and comes once more as it was.
suite('translated: replay', options, each(async (x) => {
  const op = newOp();
  const q = asks(x, op, 'ok', 'ok');
  q.headers['Idempotency-Key'] = op;
  const first = await must(x, q);
  const { out, tape, error } = await talk(x, q);
  assert.ifError(error);
  assert.equal(out.text, first.text);
  assert.equal(tape.last.headers.get('idempotency-replayed'), 'true');
  assert.equal((await counts(op)).effects, 1);
}));
