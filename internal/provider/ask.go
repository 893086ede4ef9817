package provider

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// NoCache is the rule by which an earlier answer is none to a request.
type NoCache string

// The rules.
const (
	Cacheable   NoCache = ""
	NoQuestion  NoCache = "no_question"    // not a call that answers with text, or a body that is not read without doubt
	LastTurn    NoCache = "last_turn"      // the last turn is not one plain text of the user's: a prefill, parts, an image
	NotText     NoCache = "not_text"       // images, files, audio or reasoning in the conversation
	ToolContext NoCache = "tool_context"   // calls of tools, or their results, in the conversation
	MayAct      NoCache = "tools"          // tools that the answer may call
	Held        NoCache = "held_state"     // what a provider keeps for the request is not in it
	NoTemper    NoCache = "no_temperature" // the provider's default is not zero (BR-063)
	Drawn       NoCache = "sampled"        // a temperature above zero: an answer is one draw of many
	TooLong     NoCache = "too_long"       // a text that nobody asks twice
)

// MaxQuestion bounds the text of a question, in bytes.
const MaxQuestion = 32 << 10

// Asked is a request taken apart for a cache.
type Asked struct {
	Text string // the last user text
	Rest []byte // the canonical form with a hole where Text stood, without the answer's form: all that changes the answer beside it
	Why  NoCache
}

// hole stands for the text in Rest. No canonical form holds this byte.
const hole = 0

// bodyMark begins the body in the canonical form of a request with a JSON body. No line before it holds a line break
// but its own.
var bodyMark = []byte("\nbody json\n")

// Ask takes a request apart. form is its canonical form as package idempotency makes it. With Why [Drawn] or [NoTemper]
// Text and Rest are there too, for who takes an answer of a draw, as a last resort may; with any other rule they are not.
func Ask(call *Call, form []byte) Asked {
	at := bytes.Index(form, bodyMark)
	read, known := askers[call.Endpoint]
	if at < 0 || !known || call.Read {
		return Asked{Why: NoQuestion}
	}
	doc := jsonview.Value(form[at+len(bodyMark):])
	if !doc.IsObject() {
		return Asked{Why: NoQuestion}
	}
	if why := topLevel(doc); why != Cacheable {
		return Asked{Why: why}
	}
	text, why := read(doc)
	if why != Cacheable {
		return Asked{Why: why}
	}
	a := Asked{Text: text.String(), Why: temper(call, doc)}
	switch {
	case len(text) > MaxQuestion:
		return Asked{Why: TooLong}
	case strings.TrimSpace(a.Text) == "":
		return Asked{Why: LastTurn}
	}
	start := text.Offset(form)
	a.Rest = apply(form, append(formless(call, form, doc), cut{start, start + len(text), []byte{hole}}))
	return a
}

var askers = map[string]func(jsonview.Value) (jsonview.Value, NoCache){
	wire.Chat: askChat, wire.Responses: askResponses, wire.Messages: askChat, wire.Generate: askGemini, wire.StreamGenerate: askGemini,
}

// topRules are members of a body that make an earlier answer none, if they say something.
var topRules = map[string]NoCache{
	"tools": MayAct, "functions": MayAct, "mcp_servers": MayAct, "container": MayAct, "web_search_options": MayAct, "skills": MayAct,
	"search_parameters": MayAct, "plugins": MayAct, "compaction": MayAct, "fallbacks": MayAct,
	"previous_response_id": Held, "conversation": Held, "prompt": Held, "cachedContent": Held, "cached_content": Held,
	"background": Held, "context_management": Held,
	"audio": NotText, "modalities": NotText,
}

func topLevel(doc jsonview.Value) NoCache {
	for o := doc.Object(); ; {
		key, val, ok := o.Next()
		if !ok {
			return Cacheable
		}
		if why := topRules[string(key)]; why != Cacheable && (val.Filled() || val.IsObject() && why == MayAct) && !(string(key) == "modalities" && string(val) == `["text"]`) {
			return why
		}
	}
}

// temper reads whether the answer is drawn.
func temper(call *Call, doc jsonview.Value) NoCache {
	t := doc.Get("temperature")
	if call.Wire == Gemini {
		if t = doc.Path("generationConfig", "temperature"); t == nil {
			t = doc.Path("generation_config", "temperature")
		}
	}
	n, err := strconv.ParseFloat(string(t), 64)
	switch {
	case err != nil:
		return NoTemper
	case n != 0:
		return Drawn
	}
	return Cacheable
}

// askChat reads OpenAI's and Anthropic's messages.
func askChat(doc jsonview.Value) (jsonview.Value, NoCache) {
	return lastText(doc.Get("messages"), func(m jsonview.Value) (turn, NoCache) {
		return readTurn(m, "content", "text", "refusal")
	})
}

func askResponses(doc jsonview.Value) (jsonview.Value, NoCache) {
	input := doc.Get("input")
	if input.IsString() {
		return input, Cacheable
	}
	return lastText(input, func(m jsonview.Value) (turn, NoCache) {
		if kind := m.Get("type"); kind != nil && !kind.Is("message") {
			return turn{}, foreignItem(kind)
		}
		return readTurn(m, "content", "input_text", "output_text", "refusal")
	})
}

// foreignItem is the rule for an item of a conversation that is no message.
func foreignItem(kind jsonview.Value) NoCache {
	switch name := kind.String(); {
	case name == "item_reference":
		return Held
	case name == "reasoning", name == "compaction":
		return NotText
	}
	return ToolContext
}

func askGemini(doc jsonview.Value) (jsonview.Value, NoCache) {
	return lastText(doc.Get("contents"), func(m jsonview.Value) (turn, NoCache) { return readTurn(m, "parts", "") })
}

// turn is one message of a conversation.
type turn struct {
	user  bool
	texts []jsonview.Value
}

// lastText returns the text of the last turn, where every turn is text.
func lastText(turns jsonview.Value, read func(jsonview.Value) (turn, NoCache)) (jsonview.Value, NoCache) {
	var last turn
	for a := turns.Array(); ; {
		item, ok := a.Next()
		if !ok {
			break
		}
		var why NoCache
		if last, why = read(item); why != Cacheable {
			return nil, why
		}
	}
	if !last.user || len(last.texts) != 1 {
		return nil, LastTurn
	}
	return last.texts[0], Cacheable
}

// inert are the members of a message that are no content.
var inert = []string{"role", "name", "type", "id", "status", "phase", "annotations"}

// readTurn reads a message whose content stands in the member named, as a string or as parts of the given types.
func readTurn(m jsonview.Value, content string, types ...string) (t turn, why NoCache) {
	role := m.Get("role")
	t.user = role.Is("user") || role == nil && content == "parts"
	if role.Is("tool") || role.Is("function") {
		return t, ToolContext
	}
	for o := m.Object(); ; {
		key, val, ok := o.Next()
		switch {
		case !ok:
			return t, Cacheable
		case string(key) == content:
			if t.texts, why = texts(val, types); why != Cacheable {
				return t, why
			}
		case slices.Contains(inert, string(key)), !val.Filled():
		case string(key) == "tool_calls", string(key) == "function_call", string(key) == "tool_call_id":
			return t, ToolContext
		default:
			return t, NotText
		}
	}
}

// texts returns a content's texts.
func texts(content jsonview.Value, types []string) (out []jsonview.Value, why NoCache) {
	if content.IsString() {
		return append(out, content), Cacheable
	}
	for a := content.Array(); ; {
		part, ok := a.Next()
		if !ok {
			return out, Cacheable
		}
		text, why := partText(part, types)
		if why != Cacheable {
			return nil, why
		}
		out = append(out, text)
	}
}

// partText returns the text of a part that is nothing but text.
func partText(part jsonview.Value, types []string) (text jsonview.Value, why NoCache) {
	kind := part.Get("type").String()
	if !slices.Contains(types, kind) {
		return nil, foreignPart(kind)
	}
	for o := part.Object(); ; {
		key, val, ok := o.Next()
		switch {
		case !ok && text == nil:
			return nil, NotText
		case !ok:
			return text, Cacheable
		case string(key) == "text" && val.IsString(), string(key) == "refusal" && val.IsString():
			text = val
		case string(key) == "functionCall", string(key) == "function_call", string(key) == "functionResponse", string(key) == "function_response",
			string(key) == "executableCode", string(key) == "codeExecutionResult":
			return nil, ToolContext
		case string(key) != "type" && val.Filled() && string(key) != "annotations" && string(key) != "logprobs":
			return nil, NotText
		}
	}
}

// foreignPart is the rule for a part that is no text.
func foreignPart(kind string) NoCache {
	for _, word := range []string{"tool", "function", "mcp", "container"} {
		if strings.Contains(kind, word) {
			return ToolContext
		}
	}
	return NotText
}

// Keepable says that an answer may answer others too: whole, by its provider's own account, and nothing but an answer (BR-066).
// An answer that a limit ended is whole only for who set that limit, and one that calls a tool has begun something.
func Keepable(call *Call, finish string, tool, hosted bool) bool {
	if tool || hosted {
		return false
	}
	switch call.Endpoint {
	case wire.Chat:
		return finish == "stop"
	case wire.Responses:
		return finish == "completed"
	case wire.Messages:
		return finish == "end_turn" || finish == "stop_sequence"
	case wire.Generate, wire.StreamGenerate:
		return finish == "STOP"
	}
	return false
}
