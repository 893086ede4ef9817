import { APICallError, generateText, jsonSchema, RetryError, streamText, tool } from 'ai';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createGoogle } from '@ai-sdk/google';
import { createOpenAI } from '@ai-sdk/openai';
import { addCall, toolName, toolSchema } from './tool.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;

export function vercelProviders(base) {
  return {
    openai: createOpenAI({ baseURL: `${base}/v1`, apiKey: 'sk-test-openai' }),
    anthropic: createAnthropic({ baseURL: `${base}/v1`, apiKey: 'sk-test-anthropic' }),
    google: createGoogle({ baseURL: `${base}/v1beta`, apiKey: 'test-gemini-key' }),
  };
}

export function vercel(base) {
  const { openai, anthropic, google } = vercelProviders(base);
  return [
    client('ai/openai-chat', 'chat.completions', openai.chat('gpt-5-mini'), 1, 3),
    client('ai/openai', 'responses', openai('gpt-5-mini'), 4, 5),
    client('ai/anthropic', 'messages', anthropic('claude-haiku-4-5'), 3, 4),
    client('ai/google', 'streamGenerateContent', google('gemini-2.5-flash'), 0, 1),
  ];
}

function client(name, wire, model, lead, inTool) {
  // It retries by status alone after 2 s and 4 s, so the tests that are not about that switch it off.
  const params = (call) => ({
    model,
    prompt: call.prompt,
    headers: call.headers,
    maxRetries: call.retries ?? 0,
    ...(call.tool && { tools: { [toolName]: tool({ inputSchema: jsonSchema(toolSchema) }) } }),
  });
  return {
    name, wire, lead, inTool, retry: false, obeys: false, fault,
    async plain(call) {
      const { text, toolCalls } = await generateText(params(call));
      const [made] = toolCalls;
      return { text, call: made && { name: made.toolName, args: JSON.stringify(made.input) } };
    },
    async stream(call, out) {
      let failed;
      const result = streamText({ ...params(call), onError: ({ error }) => { failed ??= { error }; } });
      for await (const part of result.stream) {
        if (part.type === 'text-delta') out.text += part.text;
        if (part.type === 'tool-input-start') addCall(out, part.toolName);
        if (part.type === 'tool-input-delta') addCall(out, '', part.delta);
        if (part.type === 'error') failed ??= { error: part.error };
      }
      if (failed) throw failed.error;
    },
  };
}

function fault(error) {
  const last = RetryError.isInstance(error) ? error.lastError : error;
  if (!APICallError.isInstance(last)) return { typed: false };
  return { typed: true, status: last.statusCode, code: code(last.responseBody), kind: last.name };
}

function code(body) {
  try {
    const { error } = JSON.parse(body);
    return error.details?.find((d) => d.reason)?.reason ?? error.code ?? error.type;
  } catch {
    return undefined;
  }
}
