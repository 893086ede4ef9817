// The official JavaScript clients, of the first and of the second generation, ask a real server through Holdfast.
// run.sh gives: HOLDFAST, HOLDFAST_MCP_URL (a gateway), HOLDFAST_MCP_CONFIG (its configuration).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as Stdio1 } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as Http1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from '@modelcontextprotocol/client'
import { StdioClientTransport as Stdio2 } from '@modelcontextprotocol/client/stdio'

const { HOLDFAST, HOLDFAST_MCP_URL, HOLDFAST_MCP_CONFIG } = process.env
const capabilities = { sampling: {}, elicitation: {}, roots: { listChanged: true }, tasks: { list: {}, cancel: {}, requests: { elicitation: { create: {} }, sampling: { createMessage: {} } } } }
const info = { name: 'test', version: '1' }
const generations = {
  v1: { Client: Client1, Stdio: Stdio1, Http: Http1, on: (c, name, schema, f) => c.setRequestHandler(schema, f) },
  v2: { Client: Client2, Stdio: Stdio2, Http: Http2, on: (c, name, schema, f) => c.setRequestHandler(name, f) },
}

async function connect(g, how, server) {
  const client = new g.Client(info, { capabilities })
  g.on(client, 'sampling/createMessage', CreateMessageRequestSchema, () => ({ model: 'm', role: 'assistant', content: { type: 'text', text: 'sampled by the client' } }))
  g.on(client, 'elicitation/create', ElicitRequestSchema, () => ({ action: 'decline' }))
  g.on(client, 'roots/list', ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///a/root', name: 'a root of the client' }] }))
  const transport = how === 'http'
    ? new g.Http(new URL(`${HOLDFAST_MCP_URL}/mcp/${server}`))
    : new g.Stdio({ command: HOLDFAST, args: ['mcp', 'proxy', '--config', HOLDFAST_MCP_CONFIG, '--server', server, '--log-level', 'error'], env: { PATH: process.env.PATH, HOME: process.env.HOME ?? '' } })
  await client.connect(transport)
  return client
}

const text = r => r.content.map(c => c.text ?? '').join('\n')

for (const [generation, g] of Object.entries(generations)) {
  for (const how of ['stdio', 'http']) {
    for (const server of ['everything-stdio', 'everything-http']) {
      test(`${generation}: ${how} client, ${server}`, async t => {
        const client = await connect(g, how, server)
        t.after(() => client.close())
        const { tools } = await client.listTools()
        const byName = Object.fromEntries(tools.map(x => [x.name, x]))
        assert.ok(byName['toggle-simulated-logging'].inputSchema.properties.repeat_reason)
        assert.ok(!byName.echo.inputSchema.properties.repeat_reason)
        const call = (name, args = {}, options) => generation === 'v1' ? client.callTool({ name, arguments: args }, undefined, options) : client.callTool({ name, arguments: args }, options)
        assert.equal(text(await call('echo', { message: 'hé' })), 'Echo: hé')
        assert.match(text(await call('trigger-sampling-request', { prompt: 'p', maxTokens: 5 })), /sampled by the client/)
        assert.match(text(await call('trigger-elicitation-request')), /declin/i)
        assert.match(text(await call('get-roots-list')), /a root of the client/)
        const progress = []
        await call('trigger-long-running-operation', { duration: 0.4, steps: 4 }, { onprogress: p => progress.push(p.progress) })
        // The last comes with the answer; without Holdfast, too, these clients have stopped listening by then.
        assert.deepEqual(progress.slice(0, 3), [1, 2, 3])
        const structured = await call('get-structured-content', { location: 'New York' })
        assert.ok(structured.structuredContent.conditions)
        assert.ok((await client.listResources()).resources.length > 0)
        assert.ok((await client.listPrompts()).prompts.length > 0)
        await call('gzip-file-as-resource', { name: 'a.gz', data: 'data:text/plain,hello', outputType: 'resourceLink' })
        const again = await call('gzip-file-as-resource', { name: 'a.gz', data: 'data:text/plain,hello', outputType: 'resourceLink' })
        assert.equal(again._meta['holdfast/replayed'], true)
        // What a client no longer waits for does not harm what comes after.
        await assert.rejects(call('trigger-long-running-operation', { duration: 20, steps: 2 }, { timeout: 200 }))
        assert.equal(text(await call('echo', { message: 'on' })), 'Echo: on')
        // Parallel calls get their own answers.
        const sums = await Promise.all(Array.from({ length: 20 }, (_, i) => call('get-sum', { a: i, b: 1 })))
        sums.forEach((r, i) => assert.match(text(r), new RegExp(`\\b${i + 1}\\.?$`)))
      })
    }
  }
}

for (const how of ['stdio', 'http']) {
  for (const server of ['everything-stdio', 'everything-http']) {
    test(`a task: ${how} client, ${server}`, async t => {
      const client = await connect(generations.v1, how, server)
      t.after(() => client.close())
      await client.listTools()
      const run = async () => {
        const seen = []
        let task, result
        for await (const m of client.experimental.tasks.callToolStream({ name: 'simulate-research-query', arguments: { topic: `${how} ${server}` } }, CallToolResultSchema, { task: { ttl: 60000 } })) {
          seen.push(m.type)
          if (m.type === 'taskCreated') task = m.task.taskId
          if (m.type === 'result') result = m.result
          if (m.type === 'error') throw m.error
        }
        assert.ok(seen.includes('taskCreated'))
        return { task, result }
      }
      const first = await run()
      assert.ok(first.result.content.length > 0)
      const again = await run() // the same task, not a second one
      assert.equal(again.task, first.task)
    })
  }
}
