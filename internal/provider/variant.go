package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// Prompt is a tier's variant of a request: smaller models want fewer and other words.
type Prompt struct {
	System    string // in the place of the system text; "": as it came
	MaxTokens int64  // the most that an answer may have; 0: as it came
	Examples  int    // how many examples stay; AllExamples: as they came
	Template  string // around the last user text, in the place of Input; "": as it came
	// OldMaxTokens bounds a chat completion that has no bound by max_tokens, which servers know that are not OpenAI's own.
	OldMaxTokens bool
}

// AllExamples is a Prompt that keeps the examples of a request.
const AllExamples = -1

// Input is what a template has in the place of the user's text.
const Input = "{input}"

// Empty reports whether p changes nothing.
func (p *Prompt) Empty() bool {
	return p.System == "" && p.MaxTokens <= 0 && p.Examples < 0 && p.Template == ""
}

// What a request is varied by, and cannot be.
var (
	errNoObject = errors.New("its body is not a JSON object")
	errNoTurns  = errors.New("its conversation is not a list of messages")
	errNoText   = errors.New("it has no user's text that the template could stand around")
	errNoRoom   = errors.New("its thinking budget leaves no room for an answer under the tier's prompt.max_tokens")
	errNoPairs  = errors.New("what Holdfast-Examples calls examples are not pairs of a user's text and the answer to it, with a message behind them")
)

// Vary makes a tier's variant of a request: of a chat completion, a response, a message or a generation; every other call has
// none and comes back as it is. examples says how many pairs at the front of the conversation, a user's text and the answer
// to it, are examples. The body that it is given is not changed. An error says what of p the request has no place for.
func Vary(c *Call, body []byte, p *Prompt, examples int) ([]byte, error) {
	form := formOf(c)
	if form == nil || p.Empty() {
		return body, nil
	}
	var doc object
	if err := json.Unmarshal(body, &doc); err != nil || doc == nil {
		return nil, errNoObject
	}
	turns, err := form.turns(doc)
	if err != nil {
		return nil, err
	}
	changed := false
	if p.Examples >= 0 && examples > p.Examples {
		if turns, err = dropExamples(form, turns, examples, p.Examples); err != nil {
			return nil, err
		}
		changed = true
	}
	if p.Template != "" {
		if err := form.wrap(turns, p.Template); err != nil {
			return nil, err
		}
		changed = true
	}
	if p.System != "" {
		turns = form.system(doc, turns, p.System)
		changed = true
	}
	if changed {
		doc[form.list] = marshalled(turns)
	}
	if p.MaxTokens > 0 {
		if p.OldMaxTokens && form == forms[wire.Chat] {
			form = &oldChat
		}
		if err := form.bound(doc, p.MaxTokens); err != nil {
			return nil, err
		}
	}
	return json.Marshal(doc)
}

// object is a JSON object whose members are left as they stand. Of a name that stands twice the last counts, as for the providers.
type object map[string]json.RawMessage

func (o object) text(name string) string {
	var s string
	_ = json.Unmarshal(o[name], &s) // another type has no text
	return s
}

// raw is a text as it stands between its quotes, escapes and all: what no decoder can say again, such as half a surrogate pair,
// comes back as it came. "" is no text, or an empty one.
func (o object) raw(name string) string {
	if o.text(name) == "" {
		return ""
	}
	s := string(bytes.TrimSpace(o[name]))
	return s[1 : len(s)-1]
}

func marshalled(v any) json.RawMessage {
	p, err := json.Marshal(v)
	if err != nil { // of texts, numbers and what was read from JSON
		return json.RawMessage("null")
	}
	return p
}

// form is where a wire format has the parts of a conversation.
type form struct {
	list    string   // member with the turns
	parts   string   // member of a turn with its content
	user    string   // role of a turn of the user's
	answers string   // role of an answer
	top     []string // members with the system text; the first one is written
	wrapped bool     // … as {"parts": [{"text": …}]}
	systems []string // roles of turns that are system text
	bounds  []string // members that bound the answer; the last is written where none is there
	inside  []string // members that may hold them, the first is written where none is there; none: the request itself
}

var forms = map[string]*form{
	wire.Chat: {list: "messages", parts: "content", user: "user", answers: "assistant", systems: []string{"system", "developer"},
		bounds: []string{"max_tokens", "max_completion_tokens"}},
	wire.Responses: {list: "input", parts: "content", user: "user", answers: "assistant", top: []string{"instructions"}, systems: []string{"system", "developer"},
		bounds: []string{"max_output_tokens"}},
	wire.Messages: {list: "messages", parts: "content", user: "user", answers: "assistant", top: []string{"system"}, bounds: []string{"max_tokens"}},
	wire.Generate: {list: "contents", parts: "parts", user: "user", answers: "model", top: []string{"systemInstruction", "system_instruction"}, wrapped: true,
		bounds: []string{"max_output_tokens", "maxOutputTokens"}, inside: []string{"generationConfig", "generation_config"}},
}

// oldChat is that of chat completions in which max_tokens is the bound that is written.
var oldChat = form{bounds: []string{"max_completion_tokens", "max_tokens"}}

func formOf(c *Call) *form {
	if !c.Known || c.Read {
		return nil
	}
	if c.Endpoint == wire.StreamGenerate {
		return forms[wire.Generate]
	}
	return forms[c.Endpoint]
}

// turns reads the conversation. A Responses input of one text is one turn.
func (f *form) turns(doc object) ([]object, error) {
	var turns []object
	if err := json.Unmarshal(doc[f.list], &turns); err == nil && len(turns) > 0 {
		return turns, nil
	}
	if text := doc.text(f.list); text != "" && f == forms[wire.Responses] {
		return []object{{"role": marshalled(f.user), f.parts: doc[f.list]}}, nil
	}
	return nil, errNoTurns
}

func (f *form) is(turn object, role string) bool {
	said := turn.text("role")
	return said == role || said == "" && role == f.user && f.wrapped // Gemini takes a turn without a role for the user's
}

func (f *form) isSystem(turn object) bool {
	for _, role := range f.systems {
		if turn.text("role") == role {
			return true
		}
	}
	return false
}

// plain reports whether a turn is of text alone: one with a call, its result, a file or a thought is no example.
func (f *form) plain(turn object) bool {
	for name := range turn {
		switch name {
		case "role", f.parts, "name", "type", "id", "status":
		default:
			return false
		}
	}
	if turn.text(f.parts) != "" {
		return true
	}
	var parts []object
	if json.Unmarshal(turn[f.parts], &parts) != nil || len(parts) == 0 {
		return false
	}
	for _, p := range parts {
		if p.text("text") == "" || p["thoughtSignature"] != nil || p["thought"] != nil {
			return false
		}
	}
	return true
}

// dropExamples keeps the first of a conversation's examples.
func dropExamples(f *form, turns []object, have, keep int) ([]object, error) {
	at := 0
	for at < len(turns) && f.isSystem(turns[at]) {
		at++
	}
	if have > (len(turns)-at)/2 || at+2*have >= len(turns) {
		return nil, errNoPairs
	}
	for i := range have {
		ask, say := turns[at+2*i], turns[at+2*i+1]
		if !f.is(ask, f.user) || !f.is(say, f.answers) || !f.plain(ask) || !f.plain(say) {
			return nil, errNoPairs
		}
	}
	kept := append([]object{}, turns[:at+2*keep]...)
	return append(kept, turns[at+2*have:]...), nil
}

// wrap writes a template around the last text of the user's, which it holds wherever it says Input.
func (f *form) wrap(turns []object, template string) error {
	for i := len(turns) - 1; i >= 0; i-- {
		if !f.is(turns[i], f.user) {
			continue
		}
		turn := turns[i]
		if text := turn.raw(f.parts); text != "" {
			turn[f.parts] = around(template, text)
			return nil
		}
		var parts []object
		if json.Unmarshal(turn[f.parts], &parts) != nil {
			continue
		}
		for j := len(parts) - 1; j >= 0; j-- {
			if text := parts[j].raw("text"); text != "" {
				parts[j]["text"] = around(template, text)
				turn[f.parts] = marshalled(parts)
				return nil
			}
		}
	}
	return errNoText
}

// around is a template with a raw text in it.
func around(template, text string) json.RawMessage {
	return json.RawMessage(strings.ReplaceAll(string(marshalled(template)), Input, text))
}

// system puts text in the place of all that is system text.
func (f *form) system(doc object, turns []object, text string) []object {
	kept := make([]object, 0, len(turns)+1)
	if len(f.top) == 0 {
		kept = append(kept, object{"role": marshalled("system"), f.parts: marshalled(text)})
	}
	for _, t := range turns {
		if !f.isSystem(t) {
			kept = append(kept, t)
		}
	}
	for i, name := range f.top {
		delete(doc, name)
		if i > 0 {
			continue
		}
		if doc[name] = marshalled(text); f.wrapped {
			doc[name] = marshalled(map[string]any{"parts": []map[string]string{{"text": text}}})
		}
	}
	return kept
}

// bound lowers what bounds the answer; a bound that is lower already stays. An error says that what the request wants leaves no
// room for an answer then.
func (f *form) bound(doc object, most int64) error {
	if f.inside == nil {
		lowered := f.lower(doc, most)
		if lowered == none {
			doc[f.bounds[len(f.bounds)-1]] = json.RawMessage(strconv.FormatInt(most, 10))
		}
		if lowered != kept && f == forms[wire.Messages] && thinks(doc) >= most {
			return errNoRoom
		}
		return nil
	}
	found, write := none, f.inside[0]
	for _, name := range f.inside {
		at := inner(doc, name)
		if at == nil {
			continue
		}
		write = name
		if how := f.lower(at, most); how != none {
			found = how
			doc[name] = marshalled(at)
		}
	}
	if found == none {
		at := inner(doc, write)
		if at == nil {
			at = object{}
		}
		at[f.bounds[len(f.bounds)-1]] = json.RawMessage(strconv.FormatInt(most, 10))
		doc[write] = marshalled(at)
	}
	return nil
}

// inner is an object in an object; nil: there is none.
func inner(doc object, name string) (at object) {
	if json.Unmarshal(doc[name], &at) != nil {
		return nil
	}
	return at
}

// lowering is what became of bounds.
type lowering uint8

const (
	none    lowering = iota // there are none
	kept                    // they are low enough
	lowered                 // one of them, or several
)

// lower lowers every bound of an object, in whatever spelling: a provider takes one of them.
func (f *form) lower(at object, most int64) (how lowering) {
	for _, name := range f.bounds {
		raw, ok := at[name]
		if !ok || string(raw) == "null" {
			continue
		}
		var n float64
		if json.Unmarshal([]byte(strings.Trim(string(raw), `"`)), &n) == nil && n > 0 && n <= float64(most) { // Gemini takes numbers in quotes
			how = max(how, kept)
			continue
		}
		how = lowered
		at[name] = json.RawMessage(strconv.FormatInt(most, 10))
	}
	return how
}

// thinks is the budget of Anthropic's thinking, which has to be below max_tokens; 0 where a request sets none.
func thinks(doc object) int64 {
	var t struct {
		Budget float64 `json:"budget_tokens"`
	}
	_ = json.Unmarshal(doc["thinking"], &t) // another type has no budget
	return int64(t.Budget)
}
