import { ApiError, GoogleGenAI } from '@google/genai';
import { toolName, toolSchema } from './tool.mjs';

export const model = 'gemini-2.5-flash';

export const newGemini = (base) => new GoogleGenAI({ apiKey: 'test-gemini-key', httpOptions: { baseUrl: base } });

function add(out, res) {
  for (const part of res.candidates?.[0]?.content?.parts ?? []) {
    if (part.text && !part.thought) out.text += part.text;
    if (part.functionCall) out.call = { name: part.functionCall.name, args: JSON.stringify(part.functionCall.args) };
  }
  return out;
}

export function gemini(base) {
  const sdk = newGemini(base);
  const params = (call) => ({
    model,
    contents: call.prompt,
    config: {
      httpOptions: { headers: call.headers, ...(call.again && { retryOptions: { attempts: 3, initialDelay: 0.1, jitter: 0 } }) },
      ...(call.tool && { tools: [{ functionDeclarations: [{ name: toolName, parametersJsonSchema: toolSchema }] }] }),
    },
  });
  return {
    // A tool call is one part of one event here: inside the call means before the stream's finish.
    name: 'google/genai', wire: 'streamGenerateContent', retry: false, obeys: true, lead: 0, inTool: 1,
    plain: async (call) => add({ text: '', call: undefined }, await sdk.models.generateContent(params(call))),
    async stream(call, out) {
      for await (const res of await sdk.models.generateContentStream(params(call))) add(out, res);
    },
    fault(error) {
      if (!(error instanceof ApiError)) return { typed: false };
      return { typed: true, status: error.status, code: reason(error.message), kind: error.name };
    },
  };
}

// The client's message is the error body as JSON, with the client's own words before it for an error in a stream.
function reason(message) {
  try {
    const { error } = JSON.parse(message.slice(message.indexOf('{')));
    return error.details?.find((d) => d.reason)?.reason ?? error.status;
  } catch {
    return undefined;
  }
}
