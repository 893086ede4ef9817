import OpenAI from 'openai';
import { addCall, toolName, toolSchema } from './tool.mjs';

const model = 'gpt-5-mini';

export const newOpenAI = (base) => new OpenAI({ baseURL: `${base}/v1`, apiKey: 'sk-test-openai' });

const options = (call) => ({ headers: call.headers, ...(call.retries !== undefined && { maxRetries: call.retries }) });

function fault(error) {
  if (!(error instanceof OpenAI.APIError) || error instanceof OpenAI.APIConnectionError) return { typed: false };
  return { typed: true, status: error.status, code: error.code, kind: error.constructor.name };
}

export function openaiChat(base) {
  const sdk = newOpenAI(base);
  const params = (call) => ({
    model,
    messages: [{ role: 'user', content: call.prompt }],
    ...(call.tool && { tools: [{ type: 'function', function: { name: toolName, parameters: toolSchema } }] }),
  });
  return {
    name: 'openai/chat', wire: 'chat.completions', retry: true, obeys: true, lead: 1, inTool: 3, fault,
    async plain(call) {
      const res = await sdk.chat.completions.create(params(call), options(call));
      const { content, refusal, tool_calls: [tool] = [] } = res.choices[0].message;
      return { text: (content ?? '') + (refusal ?? ''), call: tool && { name: tool.function.name, args: tool.function.arguments } };
    },
    async stream(call, out) {
      const events = await sdk.chat.completions.create({ ...params(call), stream: true }, options(call));
      for await (const event of events) {
        for (const { delta } of event.choices) {
          out.text += (delta?.content ?? '') + (delta?.refusal ?? '');
          for (const tool of delta?.tool_calls ?? []) addCall(out, tool.function?.name, tool.function?.arguments);
        }
      }
    },
  };
}

export function openaiResponses(base) {
  const sdk = newOpenAI(base);
  const params = (call) => ({
    model,
    input: call.prompt,
    ...(call.tool && { tools: [{ type: 'function', name: toolName, strict: false, parameters: toolSchema }] }),
  });
  return {
    name: 'openai/responses', wire: 'responses', retry: true, obeys: true, lead: 4, inTool: 5, fault,
    async plain(call) {
      const res = await sdk.responses.create(params(call), options(call));
      const tool = res.output.find((item) => item.type === 'function_call');
      return { text: res.output_text, call: tool && { name: tool.name, args: tool.arguments } };
    },
    async stream(call, out) {
      const events = await sdk.responses.create({ ...params(call), stream: true }, options(call));
      for await (const event of events) {
        switch (event.type) {
          case 'response.output_text.delta':
          case 'response.refusal.delta':
            out.text += event.delta;
            break;
          case 'response.output_item.added':
            if (event.item.type === 'function_call') addCall(out, event.item.name);
            break;
          case 'response.function_call_arguments.delta':
            addCall(out, '', event.delta);
        }
      }
    },
  };
}
