package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// SaidBy is the model of an answer that no model gave.
const SaidBy = "holdfast-default"

// Said is a fixed text as an API's answer.
type Said struct {
	ContentType string
	Body        []byte
	Format      Format
}

// Say puts a text in the form of the answer that a request asks for, plain or as a stream, with all members that the API's own
// SDK expects, and a usage of nothing. id makes the answer's ids; body is the request's. ok is false where no text can be the answer: the
// call asks for something else: for JSON of a form that a fixed text has not, a call of a tool, sound, several of Gemini's candidates.
func Say(call *Call, body []byte, text, id string, at time.Time) (s Said, ok bool) {
	doc := jsonview.Of(body)
	if call.Read || wantsJSON(doc) || wantsMore(doc) {
		return Said{}, false
	}
	v := voice{text: text, id: strings.ReplaceAll(id, "-", ""), at: strconv.FormatInt(at.Unix(), 10), model: SaidBy, doc: doc,
		usage: chatNothing, tier: `"default"`, print: "null"}
	v.chatID = "chatcmpl-" + v.id
	s = unsaid(call)
	switch call.Endpoint {
	case wire.Chat:
		s.Body = v.either(call, v.chat, v.chatStream)
	case wire.Responses:
		s.Body = v.either(call, v.response, v.responseStream)
	case wire.Messages:
		s.Body = v.either(call, v.message, v.messageStream)
	case wire.Generate, wire.StreamGenerate:
		s.Body = v.gemini(call.Format)
	default:
		return Said{}, false
	}
	return s, true
}

// unsaid is an answer in the form that a call asks for, without its body.
func unsaid(call *Call) Said {
	s := Said{ContentType: ContentType, Format: call.Format}
	if call.Format == SSE {
		s.ContentType = "text/event-stream"
		if call.Wire == OpenAI || call.Wire == Anthropic {
			s.ContentType += "; charset=utf-8"
		}
	}
	return s
}

// voice is what an answer says, and what of the request it repeats.
type voice struct {
	text, model        string
	id, chatID         string
	at                 string
	usage, tier, print string // of a chat: as JSON
	doc                jsonview.Value
}

func (v *voice) either(call *Call, plain, stream func() string) []byte {
	if call.Stream {
		return v.fill(stream())
	}
	return v.fill(plain())
}

// fill puts what is said in the places of a form, and the request's members. It is done once, at the end, so
// that nothing which is put in is taken for a place.
func (v *voice) fill(form string) []byte {
	places := []string{"$text", quote(v.text), "$id", v.id, "$chat", quote(v.chatID), "$at", v.at, "$model", quote(v.model),
		"$usage", v.usage, "$tier", v.tier, "$print", v.print}
	for _, m := range repeated {
		said := m[1]
		// On one line, as an event has to be.
		var f bytes.Buffer
		if raw := v.doc.Get(m[0]); raw.Set() && json.Compact(&f, raw) == nil {
			said = f.String()
		}
		places = append(places, "$["+m[0]+"]", said)
	}
	return []byte(strings.NewReplacer(places...).Replace(form))
}

// repeated are the members of a request that a response of OpenAI's repeats, with what it says where they are not there.
var repeated = [...][2]string{{"instructions", "null"}, {"max_output_tokens", "null"}, {"max_tool_calls", "null"}, {"parallel_tool_calls", "true"},
	{"previous_response_id", "null"}, {"reasoning", `{"effort":null,"summary":null}`}, {"temperature", "1"},
	{"text", `{"format":{"type":"text"},"verbosity":"medium"}`}, {"tool_choice", `"auto"`}, {"tools", "[]"}, {"top_p", "1"},
	{"truncation", `"disabled"`}, {"user", "null"}, {"metadata", "{}"}}

func quote(text string) string { return string(encode(text)) }

const (
	chatForm    = `{"id":$chat,"object":"chat.completion","created":$at,"model":$model,"choices":[%s],"usage":$usage,"service_tier":$tier,"system_fingerprint":$print}`
	chatChoice  = `{"index":%d,"message":{"role":"assistant","content":$text,"refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}`
	chatNothing = `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`
	chatChunk   = `data: {"id":$chat,"object":"chat.completion.chunk","created":$at,"model":$model,"service_tier":$tier,"system_fingerprint":$print,"choices":[%s]%s}` + "\n\n"
	chatDelta   = `{"index":%d,"delta":%s,"logprobs":null,"finish_reason":%s}`
)

// maxChoices is how many answers at most OpenAI gives to one request.
const maxChoices = 128

func (v *voice) choices() int { return int(min(max(v.doc.Get("n").Int(), 1), maxChoices)) }

func (v *voice) chat() string {
	choices := make([]string, v.choices())
	for i := range choices {
		choices[i] = fmt.Sprintf(chatChoice, i)
	}
	return fmt.Sprintf(chatForm, strings.Join(choices, ","))
}

func (v *voice) chatStream() string {
	var out strings.Builder
	usage, last := "", ""
	if wantsUsage(v.doc) {
		usage, last = `,"usage":null`, fmt.Sprintf(chatChunk, "", `,"usage":$usage`)
	}
	for i := range v.choices() {
		for _, part := range [...][2]string{{`{"role":"assistant","content":"","refusal":null}`, "null"}, {`{"content":$text}`, "null"}, {`{}`, `"stop"`}} {
			fmt.Fprintf(&out, chatChunk, fmt.Sprintf(chatDelta, i, part[0], part[1]), usage)
		}
	}
	return out.String() + last + "data: [DONE]\n\n"
}

const (
	responseForm = `{"id":"resp_$id","object":"response","created_at":$at,"status":"%s","background":false,"completed_at":%s,"error":null,"incomplete_details":null,` +
		`"instructions":$[instructions],"max_output_tokens":$[max_output_tokens],"max_tool_calls":$[max_tool_calls],"model":$model,"output":[%s],` +
		`"parallel_tool_calls":$[parallel_tool_calls],"previous_response_id":$[previous_response_id],"prompt_cache_key":null,"reasoning":$[reasoning],` +
		`"safety_identifier":null,"service_tier":"default","store":false,"temperature":$[temperature],"text":$[text],"tool_choice":$[tool_choice],"tools":$[tools],` +
		`"top_logprobs":0,"top_p":$[top_p],"truncation":$[truncation],"usage":%s,"user":$[user],"metadata":$[metadata]}`
	responseNothing = `{"input_tokens":0,"input_tokens_details":{"cached_tokens":0},"output_tokens":0,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":0}`
	responseItem    = `{"id":"msg_$id","type":"message","status":"%s","content":[%s],"role":"assistant"}`
	responsePart    = `{"type":"output_text","annotations":[],"logprobs":[],"text":$text}`
)

func (v *voice) response() string {
	return fmt.Sprintf(responseForm, "completed", "$at", fmt.Sprintf(responseItem, "completed", responsePart), responseNothing)
}

func (v *voice) responseStream() string {
	begun := fmt.Sprintf(responseForm, "in_progress", "null", "", "null")
	return responseEvents(begun, v.response(), []responseOutput{{
		begun: fmt.Sprintf(responseItem, "in_progress", ""), done: fmt.Sprintf(responseItem, "completed", responsePart),
		id: `"msg_$id"`, empty: strings.Replace(responsePart, "$text", `""`, 1), part: responsePart, text: "$text"}})
}

// responseOutput is an item of a response, as JSON: a message of one part, or whole from the beginning where part is "".
type responseOutput struct{ begun, done, id, empty, part, text string }

// responseEvents are the events that lead from a response that has begun to one that is done.
func responseEvents(begun, done string, output []responseOutput) string {
	var out strings.Builder
	n := 0
	add := func(kind, rest string) {
		fmt.Fprintf(&out, "event: response.%s\ndata: {\"type\":\"response.%s\",\"sequence_number\":%d,%s}\n\n", kind, kind, n, rest)
		n++
	}
	add("created", `"response":`+begun)
	add("in_progress", `"response":`+begun)
	for i, o := range output {
		item := fmt.Sprintf(`"output_index":%d,"item":`, i)
		add("output_item.added", item+o.begun)
		if o.part != "" {
			at := fmt.Sprintf(`"item_id":%s,"output_index":%d,"content_index":0,`, o.id, i)
			add("content_part.added", at+`"part":`+o.empty)
			add("output_text.delta", at+`"delta":`+o.text+`,"logprobs":[]`)
			add("output_text.done", at+`"text":`+o.text+`,"logprobs":[]`)
			add("content_part.done", at+`"part":`+o.part)
		}
		add("output_item.done", item+o.done)
	}
	add("completed", `"response":`+done)
	return out.String()
}

const (
	messageForm = `{"id":"msg_$id","type":"message","role":"assistant","model":$model,"content":[%s],"stop_reason":%s,"stop_sequence":null,` +
		`"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0,"service_tier":"standard"}}`
	messageNothing = `{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}`
	messageText    = `{"type":"text","text":$text}`
	messageStream  = `event: message_start
data: {"type":"message_start","message":%s}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":%s,"usage":%s}

event: message_stop
data: {"type":"message_stop"}

`
)

func (v *voice) message() string { return fmt.Sprintf(messageForm, messageText, `"end_turn"`) }

func (v *voice) messageStream() string {
	return string(messageEvents(fmt.Sprintf(messageForm, "", "null"), "$text", `{"stop_reason":"end_turn","stop_sequence":null}`, messageNothing))
}

// messageEvents are the events of a message of one text; all is JSON.
func messageEvents(begun, text, delta, usage string) []byte {
	return fmt.Appendf(nil, messageStream, begun, text, delta, usage)
}

const geminiForm = `{"candidates":[{"content":{"parts":[{"text":$text}],"role":"model"},"finishReason":"STOP","index":0}],` +
	`"usageMetadata":{"promptTokenCount":0,"candidatesTokenCount":0,"totalTokenCount":0,"promptTokensDetails":[{"modality":"TEXT","tokenCount":0}]},` +
	`"modelVersion":$model,"responseId":"$id"}`

func (v *voice) gemini(f Format) []byte { return geminiFramed(f, v.fill(geminiForm)) }

// geminiFramed puts documents on one line each in a format of Gemini's; there is one of [JSON].
func geminiFramed(f Format, docs ...[]byte) []byte {
	switch f {
	case SSE:
		var out []byte
		for _, doc := range docs {
			out = append(append(append(out, "data: "...), doc...), "\r\n\r\n"...)
		}
		return out
	case JSONArray:
		return append(append([]byte("["), bytes.Join(docs, []byte("\n,\n"))...), "\n]\n"...)
	}
	return docs[0]
}
