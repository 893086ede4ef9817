import Anthropic from '@anthropic-ai/sdk';
import { addCall, toolName, toolSchema } from './tool.mjs';

export const model = 'claude-haiku-4-5';

export const newAnthropic = (base) => new Anthropic({ baseURL: base, apiKey: 'sk-test-anthropic' });

export function anthropicMessages(base) {
  const sdk = newAnthropic(base);
  const params = (call) => ({
    model,
    max_tokens: 1024,
    messages: [{ role: 'user', content: call.prompt }],
    ...(call.tool && { tools: [{ name: toolName, input_schema: toolSchema }] }),
  });
  const options = (call) => ({ headers: call.headers, ...(call.retries !== undefined && { maxRetries: call.retries }) });
  return {
    name: 'anthropic/messages', wire: 'messages', retry: true, obeys: true, lead: 3, inTool: 4,
    async plain(call) {
      const res = await sdk.messages.create(params(call), options(call));
      const tool = res.content.find((block) => block.type === 'tool_use');
      return {
        text: res.content.map((block) => (block.type === 'text' ? block.text : '')).join(''),
        call: tool && { name: tool.name, args: JSON.stringify(tool.input) },
      };
    },
    async stream(call, out) {
      for await (const event of await sdk.messages.create({ ...params(call), stream: true }, options(call))) {
        if (event.type === 'content_block_start' && event.content_block.type === 'tool_use') addCall(out, event.content_block.name);
        if (event.type !== 'content_block_delta') continue;
        if (event.delta.type === 'text_delta') out.text += event.delta.text;
        if (event.delta.type === 'input_json_delta') addCall(out, '', event.delta.partial_json);
      }
    },
    fault(error) {
      if (!(error instanceof Anthropic.APIError) || error instanceof Anthropic.APIConnectionError) return { typed: false };
      return { typed: true, status: error.status, code: error.type, kind: error.name };
    },
  };
}
