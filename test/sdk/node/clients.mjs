// Every API of every client, in one form:
//   name     of the test
//   wire     as in the corpus: chat.completions, responses, messages, streamGenerateContent
//   retry    retries 408, 409, 429 and 5xx by itself (sdk-facts, read in its source)
//   obeys    x-should-retry
//   plain    (call) → { text, call }
//   stream   (call, out): fills out while events come, so that it holds what came before an error
//   fault    (error) → { typed, status, code, kind }
//   lead     events of the simulator's streams before the first content
//   inTool   events after which a tool's arguments are under way
import { Tape } from './tape.mjs';
import { base } from './rig.mjs';
import { openaiChat, openaiResponses } from './client/openai.mjs';
import { anthropicMessages } from './client/anthropic.mjs';
import { gemini } from './client/gemini.mjs';
import { vercel } from './client/vercel.mjs';

export const clientsOf = (url) => [openaiChat(url), openaiResponses(url), anthropicMessages(url), gemini(url), ...vercel(url)];

export const clients = clientsOf(base);

// A call: op (counted by the simulator), prompt, script (how the simulator answers), headers, tool (offered or not),
// retries (undefined: the client's default), again (a client that retries only if told to is told to).
export async function ask(client, streamed, call, tape = new Tape()) {
  const prompt = `${call.prompt} (${call.op})`; // else a lost answer of one test would be another's
  const headers = { 'Sim-Op': call.op, ...(call.script && { 'Sim-Script': script(call.script) }), ...call.headers };
  let out = { text: '', call: undefined };
  try {
    await tape.record(async () => {
      if (streamed) await client.stream({ ...call, prompt, headers }, out);
      else out = await client.plain({ ...call, prompt, headers });
    });
    return { out, tape };
  } catch (error) {
    return { out, tape, error };
  }
}

// A header takes ASCII only.
const script = (s) => JSON.stringify(s).replace(/[^\x20-\x7e]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
