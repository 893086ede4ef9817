import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ask, clients } from '../clients.mjs';
import { counts, direct, newOp } from '../rig.mjs';

const parallel = { concurrency: 32 };

// openai and @anthropic-ai/sdk obey x-should-retry: false; Vercel's client goes by status alone; Google's does not retry.
// What Vercel's asks again is a failure whose outcome is unknown: behind the one attempt that this gateway makes, its
// error is the answer (semantics 37).
suite('the retries of a client with its defaults', parallel, () => {
  for (const client of clients) {
    test(client.name, async () => {
      const op = newOp();
      const vercel = client.name.startsWith('ai/');
      const { tape, error } = await ask(client, false, { op, prompt: 'once', script: { steps: [{ status: 500 }, {}] }, retries: vercel ? 2 : undefined });
      const n = await counts(op);
      if (direct && (vercel || client.retry)) {
        assert.ifError(error);
        assert.deepEqual([tape.attempts, n.calls], [2, 2]);
        return;
      }
      assert.ok(error, 'no error');
      assert.deepEqual([tape.attempts, n.calls], [vercel ? 3 : 1, 1]);
    });
  }
});
