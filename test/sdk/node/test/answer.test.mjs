import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ask, clients, clientsOf } from '../clients.mjs';
import { base, calls, counts, direct, fingerprint, gatewayOnly, newOp } from '../rig.mjs';
import { toolArgs, toolName, toolScript } from '../client/tool.mjs';
import { model as anthropicModel, newAnthropic } from '../client/anthropic.mjs';
import { model as geminiModel, newGemini } from '../client/gemini.mjs';
import { newOpenAI } from '../client/openai.mjs';
import { vercelProviders } from '../client/vercel.mjs';
import { embedMany } from 'ai';

const parallel = { concurrency: 16 };

suite('answers', parallel, () => {
  for (const client of clients) {
    for (const streamed of [false, true]) {
      const name = `${client.name} ${streamed ? 'stream' : 'plain'}`;

      test(`${name}: text`, async () => {
        const op = newOp();
        const text = 'Grüße, 世界 "1" 🎉\nand a second line';
        const { out, tape, error } = await ask(client, streamed, { op, prompt: 'say it', script: { text } });
        assert.ifError(error);
        assert.equal(out.text, text);
        const n = await counts(op);
        assert.deepEqual([tape.attempts, n.calls, n.effects], [1, 1, 1]);
        if (!direct) assert.ok(tape.last.headers.get('holdfast-intent'), 'no Holdfast-Intent header');
      });

      test(`${name}: tool call`, async () => {
        const { out, error } = await ask(client, streamed, { op: newOp(), prompt: 'weather', tool: true, script: toolScript() });
        assert.ifError(error);
        assert.equal(out.call?.name, toolName);
        assert.deepEqual(JSON.parse(out.call.args), toolArgs);
      });
    }

    // Where the gateway has no credential configured the client's own goes on (semantics 44).
    test(`${client.name}: credential`, async () => {
      const op = newOp();
      const { tape, error } = await ask(client, false, { op, prompt: 'who am I' });
      assert.ifError(error);
      const [call, ...more] = await calls(op);
      assert.equal(more.length, 0);
      for (const header of ['Authorization', 'X-Api-Key', 'X-Goog-Api-Key']) {
        const sent = tape.last.request.get(header);
        if (sent) assert.equal(call.headers[header], fingerprint(sent), header);
      }
    });
  }
});

suite('the name of the provider in front of its paths', { ...parallel, ...gatewayOnly }, () => {
  const prefixes = { 'chat.completions': 'openai', responses: 'openai', messages: 'anthropic', streamGenerateContent: 'gemini' };
  for (const prefix of new Set(Object.values(prefixes))) {
    for (const client of clientsOf(`${base}/${prefix}`).filter(({ wire }) => prefixes[wire] === prefix)) {
      for (const streamed of [false, true]) {
        test(`${client.name} ${streamed ? 'stream' : 'plain'}`, async () => {
          const { out, error } = await ask(client, streamed, { op: newOp(), prompt: 'by name', script: { text: 'found' } });
          assert.ifError(error);
          assert.equal(out.text, 'found');
        });
      }
    }
  }
});

suite('the other calls', parallel, () => {
  const openai = newOpenAI(base);
  const anthropic = newAnthropic(base);
  const google = newGemini(base);

  test('openai embeddings', async () => {
    const { data } = await openai.embeddings.create({ model: 'text-embedding-3-small', input: ['one', 'two'] });
    assert.equal(data.length, 2);
    assert.ok(data[1].embedding.length > 0);
  });
  test('openai models', async () => {
    const { data } = await openai.models.list();
    assert.ok(data[0].id);
  });
  test('openai response read again', async () => {
    const made = await openai.responses.create({ model: 'gpt-5-mini', input: 'keep this' });
    const read = await openai.responses.retrieve(made.id);
    assert.ok(made.output_text);
    assert.equal(read.output_text, made.output_text);
  });
  test('openai chat stream helper', async () => {
    const stream = openai.chat.completions.stream({ model: 'gpt-5-mini', messages: [{ role: 'user', content: 'help' }] });
    assert.ok(await stream.finalContent());
  });
  test('anthropic stream helper', async () => {
    const stream = anthropic.messages.stream({ model: anthropicModel, max_tokens: 100, messages: [{ role: 'user', content: 'help' }] });
    assert.ok(await stream.finalText());
  });
  test('anthropic count tokens', async () => {
    const { input_tokens } = await anthropic.messages.countTokens({ model: anthropicModel, messages: [{ role: 'user', content: 'how long' }] });
    assert.ok(input_tokens > 0);
  });
  test('anthropic models', async () => {
    const { data } = await anthropic.models.list();
    assert.ok(data[0].id);
  });
  test('google embeddings', async () => {
    const { embeddings } = await google.models.embedContent({ model: 'gemini-embedding-001', contents: ['one', 'two'] });
    assert.equal(embeddings.length, 2);
    assert.ok(embeddings[1].values.length > 0);
  });
  test('google count tokens', async () => {
    const { totalTokens } = await google.models.countTokens({ model: geminiModel, contents: 'how long' });
    assert.ok(totalTokens > 0);
  });
  test('google models', async () => {
    const { page } = await google.models.list();
    assert.ok(page[0].name);
  });
  for (const [name, provider, model] of [['openai', 'openai', 'text-embedding-3-small'], ['google', 'google', 'gemini-embedding-001']]) {
    test(`ai/${name} embeddings`, async () => {
      const { embeddings } = await embedMany({ model: vercelProviders(base)[provider].textEmbeddingModel(model), values: ['one', 'two'] });
      assert.equal(embeddings.length, 2);
    });
  }
});
