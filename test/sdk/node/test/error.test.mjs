import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ask, clients, clientsOf } from '../clients.mjs';
import { counts, direct, gatewayOnly, guarded, newOp } from '../rig.mjs';

const parallel = { concurrency: 24 };

// The class that openai and @anthropic-ai/sdk raise for a status.
const kinds = {
  400: 'BadRequestError', 401: 'AuthenticationError', 403: 'PermissionDeniedError', 404: 'NotFoundError',
  409: 'ConflictError', 422: 'UnprocessableEntityError', 429: 'RateLimitError', 500: 'InternalServerError',
};

function usual(client, fault, status) {
  assert.ok(fault.typed, 'not the client\'s own error');
  assert.equal(fault.status, status);
  if (client.retry && kinds[status]) assert.equal(fault.kind, kinds[status]);
}

// How often the client sends a request that always gets this status (sdk-facts: retries).
const steady = (client, status) => (client.retry && ([408, 409, 429].includes(status) || status >= 500) ? 3 : 1);

const forms = clients.flatMap((client) => [false, true].map((streamed) => ({ client, streamed, name: `${client.name} ${streamed ? 'stream' : 'plain'}` })));

suite('errors of the provider keep their status and body', parallel, () => {
  for (const { client, streamed, name } of forms) {
    for (const status of [400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 503, 529]) {
      test(`${name}: ${status}`, async () => {
        const op = newOp();
        const { tape, error } = await ask(client, streamed, { op, prompt: 'fail', script: { status, message: 'no luck today' } });
        assert.ok(error, 'no error');
        usual(client, client.fault(error), status);
        assert.match(await tape.last.body, /no luck today/);
        const n = await counts(op);
        const want = direct ? steady(client, status) : 1;
        assert.deepEqual([tape.attempts, n.calls], [want, want]);
        if (direct) return;
        assert.equal(tape.last.headers.get('x-should-retry'), 'false');
        assert.ok(tape.last.headers.get('holdfast-safe-to-retry'), 'no Holdfast-Safe-To-Retry');
      });
    }
  }
});

async function own(client, streamed, call, status, code, upstream) {
  const { tape, error } = await ask(client, streamed, call);
  assert.ok(error, `no error, want ${status} ${code}`);
  const fault = client.fault(error);
  usual(client, fault, status);
  assert.equal(fault.code, code);
  assert.equal(tape.last.headers.get('holdfast-error'), code);
  assert.equal(tape.last.headers.get('x-should-retry'), 'false');
  assert.ok(tape.last.headers.get('holdfast-safe-to-retry'), 'no Holdfast-Safe-To-Retry');
  assert.deepEqual(tape.exchanges.map((x) => x.status), [status], 'statuses of the client\'s tries');
  assert.equal((await counts(call.op)).calls, upstream, 'calls of the provider');
}

// Waits out the cool-down that the 429 of an earlier test left on the route: a call in a hurry is told of it at once.
const patient = async (client, streamed) => assert.ifError((await ask(client, streamed, { op: newOp(), prompt: 'no hurry' })).error);

suite('errors of the gateway raise the usual types', { ...parallel, ...gatewayOnly }, () => {
  for (const { client, streamed, name } of forms) {
    test(`${name}: deadline_exceeded`, async () => {
      await patient(client, streamed);
      const call = { op: newOp(), prompt: 'hang', script: 'hang', headers: { 'Holdfast-Deadline-Ms': '400' } };
      await own(client, streamed, call, 504, 'deadline_exceeded', 1);
    });
    test(`${name}: invalid_idempotency_key`, async () => {
      await own(client, streamed, { op: newOp(), prompt: 'long key', headers: { 'Idempotency-Key': 'k'.repeat(256) } }, 400, 'invalid_idempotency_key', 0);
    });
    test(`${name}: invalid_request`, async () => {
      await own(client, streamed, { op: newOp(), prompt: 'bad header', headers: { 'Holdfast-Deadline-Ms': 'soon' } }, 400, 'invalid_request', 0);
    });
    test(`${name}: request_too_large`, async () => {
      await own(client, streamed, { op: newOp(), prompt: 'too large '.repeat(1 << 18) }, 413, 'request_too_large', 0); // run.sh sets 2 MiB
    });
    test(`${name}: idempotency_key_reused`, async () => {
      const op = newOp();
      const headers = { 'Idempotency-Key': op };
      const first = await ask(client, streamed, { op, prompt: 'first meaning', headers });
      assert.ifError(first.error);
      await own(client, streamed, { op, prompt: 'second meaning', headers }, 422, 'idempotency_key_reused', 1);
    });
    // An external call whose reply was lost is never sent again; the caller is told so, twice.
    test(`${name}: outcome_unknown`, async () => {
      const op = newOp();
      const call = { op, prompt: 'pay', script: 'reply_lost', headers: { 'Idempotency-Key': op, 'Holdfast-Workflow': 'external' } };
      const first = await ask(client, streamed, call);
      assert.ok(client.fault(first.error).typed, 'first call: not the client\'s own error');
      assert.equal(first.tape.attempts, 1);
      await own(client, streamed, call, 409, 'outcome_unknown', 1);
      assert.equal((await counts(op)).effects, 1);
    });
  }
});

// Gemini's plain and streamed calls have the same body and differ in their path alone (semantics 15).
test('google/genai: the same key on another path', gatewayOnly, async () => {
  const client = clients.find(({ name }) => name === 'google/genai');
  const op = newOp();
  const call = { op, prompt: 'same words', headers: { 'Idempotency-Key': op } };
  assert.ifError((await ask(client, false, call)).error);
  await own(client, true, call, 422, 'idempotency_key_reused', 1);
});

suite('a gateway with credentials of its own refuses others (semantics 44)', { ...parallel, skip: !guarded && 'HOLDFAST_GUARDED_URL is not set' }, () => {
  for (const client of guarded ? clientsOf(guarded) : []) {
    for (const streamed of [false, true]) {
      test(`${client.name} ${streamed ? 'stream' : 'plain'}`, () => own(client, streamed, { op: newOp(), prompt: 'let me in' }, 401, 'unauthorized', 0));
    }
  }
});
