// The classes of positions in an answer at which a client loses its connection, as ../go/lost_test.go has them.

// Begins with the first piece of content, and names the execution that wrote it.
export const text = 'Hold fast, this is what execution %N has to say, all of it';
export const whole = (out) => /^Hold fast, .*, all of it$/.test(out.text);

// Texts of a wire format's answer that tell where in it one is.
const marks = {
  'chat.completions': { lead: '"role":"assistant"', finish: '"finish_reason":"stop"', plain: '"finish_reason":"stop"' },
  responses: { lead: 'response.created', finish: 'response.completed', plain: '"status":"completed"' },
  messages: { lead: 'message_start', finish: 'message_delta', plain: '"stop_reason":"end_turn"' },
  streamGenerateContent: { lead: '', finish: '"finishReason":"STOP"', plain: '"finishReason":"STOP"' },
};

// fin: the gateway sees an orderly end; held: the provider waits until the client has asked again.
export const places = [
  { name: 'before the head', at: 'now', held: true },
  { name: 'head lost', at: 'none' },
  { name: 'in the bridge', at: 'byte', held: true, streamed: true, workflow: 'bridged' },
  { name: 'in the lead-in', at: 'mark', mark: (m, streamed) => streamed && m.lead },
  { name: 'after the first content', at: 'mark', mark: () => 'Hold' },
  { name: 'after the finish event', at: 'mark', mark: (m, streamed) => (streamed ? m.finish : m.plain) },
  { name: 'after the last byte', at: 'end', fin: true, workflow: 'patient' },
  { name: 'reset after the last byte', at: 'end', workflow: 'patient' },
];

// What tells the cutter to cut the first request of the operation.
export function cutHeaders(place, client, streamed, op) {
  const plan = new URLSearchParams({ id: op, at: place.at });
  if (place.mark) {
    const mark = place.mark(marks[client.wire], streamed);
    if (mark) plan.set('mark', mark);
    else plan.set('at', 'head'); // there is none
  }
  if (place.fin) plan.set('how', 'fin');
  return { Cut: plan.toString(), ...(place.workflow && { 'Holdfast-Workflow': place.workflow }) };
}
