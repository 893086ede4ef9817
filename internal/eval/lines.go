package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/canon"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/provider/jsonview"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// Bounds of a set.
const (
	maxLines  = 100_000
	maxSet    = 1 << 30 // bytes
	maxFaults = 100     // that are told one by one
)

// LinesError lists every line of a file that cannot be used, as FILE:LINE: what is wrong.
type LinesError struct {
	Faults []string
	More   int // further ones
}

func (e *LinesError) Error() string {
	text := strings.Join(e.Faults, "\n")
	if e.More > 0 {
		text += fmt.Sprintf("\nand %d more lines", e.More)
	}
	return text
}

func (e *LinesError) add(file string, line int, err error) {
	if len(e.Faults) == maxFaults {
		e.More++
		return
	}
	e.Faults = append(e.Faults, fmt.Sprintf("%s:%d: %s", file, line, err))
}

func (e *LinesError) orNil() error {
	if len(e.Faults) == 0 {
		return nil
	}
	return e
}

// errEmpty says that a file holds no line to work with.
var errEmpty = errors.New("it has no lines")

// readLines hands each line that is not blank to take, and collects what it finds wrong.
func readLines(file string, in io.Reader, maxLine int64, take func(number int, text []byte) error) error {
	var bad LinesError
	r := bufio.NewReaderSize(in, 64<<10)
	set, taken := int64(0), 0
	for number := 1; ; number++ {
		text, size, err := readLine(r, maxLine)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s:%d: %w", file, number, err)
		}
		last := err != nil
		set += size
		switch text = bytes.TrimSpace(text); {
		case set > maxSet || taken > maxLines:
			return fmt.Errorf("%s:%d: a set has at most %d lines and %d MiB; split it", file, number, maxLines, maxSet>>20)
		case size > maxLine:
			bad.add(file, number, fmt.Errorf("it is longer than %d bytes", maxLine))
			taken++
		case len(text) > 0:
			taken++
			if err := take(number, text); err != nil {
				bad.add(file, number, err)
			}
		}
		if last {
			break
		}
	}
	if taken == 0 {
		return fmt.Errorf("%s: %w", file, errEmpty)
	}
	return bad.orNil()
}

// readLine returns a line, and its size; of one that is longer than most it keeps no more.
func readLine(r *bufio.Reader, most int64) (line []byte, size int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if size += int64(len(part)); size <= most {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, size, err
		}
	}
}

// strict decodes one JSON object with known fields alone, spelled as they are written here. Nothing in it is said twice: which of
// the two is meant, each reader decides by itself.
func strict(text []byte, v any) error {
	if _, err := new(canon.Encoder).Append(nil, text, nil); errors.Is(err, canon.ErrDuplicate) {
		return err
	}
	for o := jsonview.Value(text).Object(); ; {
		key, _, ok := o.Next()
		if !ok {
			break
		}
		if name := string(key); strings.ToLower(name) != name { // which the decoder would take for the field
			return fmt.Errorf("unknown field %q", name)
		}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return readable(err, v)
	}
	if d.Decode(&struct{}{}) != io.EOF {
		return errors.New("something follows the object")
	}
	return nil
}

// readable says what is wrong with a line in its own words, not in those of a Go type.
func readable(err error, v any) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	text := strings.TrimPrefix(err.Error(), "json: ")
	switch name, unknown := strings.CutPrefix(text, "unknown field "); {
	case unknown:
		if near := policy.Nearest(strings.Trim(name, `"`), members(v)); near != "" {
			return fmt.Errorf("%s; did you mean %s?", text, near)
		}
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Errorf("it is of type %s, not an object", kind.Value)
	case errors.As(err, &kind):
		return fmt.Errorf("its %s is of type %s, not %s", kind.Field, kind.Value, kind.Type.Kind())
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it is no JSON: write one object in a line, its names and texts in double quotes")
	}
	return errors.New(text)
}

// members are the names that a line's type knows.
func members(v any) (names []string) {
	t := reflect.TypeOf(v).Elem()
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Usual is what lines leave out.
type Usual struct {
	Path   string // "": what the workflow's match takes, a chat completion before a message
	Model  string // of prompts; "": that of the first tier
	Stream bool   // prompts ask for a stream
}

// line is one line of a set, in either form.
type line struct {
	ID     string          `json:"id"`
	Path   string          `json:"path"`
	Body   json.RawMessage `json:"body"`
	System *string         `json:"system"`
	Prompt *string         `json:"prompt"`
	Schema json.RawMessage `json:"schema"`
}

const lineForms = `it is neither {"prompt": "…", "system"?, "schema"?, "id"?} nor {"body": {…}, "path"?, "schema"?, "id"?}: %w`

// ReadRequests reads a set of requests, one in a line. Its error is a *LinesError where lines cannot be used: all of them.
func ReadRequests(file string, in io.Reader, p *Plan, usual Usual) ([]Request, error) {
	var all []Request
	err := readLines(file, in, p.config.Limits.MaxRequestBytes, func(number int, text []byte) error {
		r, err := p.request(text, &usual)
		r.Line = number
		all = append(all, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// request makes of a line what is sent.
func (p *Plan) request(text []byte, usual *Usual) (r Request, err error) {
	var l line
	if err := strict(text, &l); err != nil {
		return r, fmt.Errorf(lineForms, err)
	}
	if bytes.Equal(l.Schema, []byte("null")) {
		l.Schema = nil
	}
	r = Request{ID: l.ID, Path: l.Path, Body: l.Body}
	switch {
	case l.Prompt == nil && (len(l.Body) == 0 || l.Body[0] != '{'):
		return r, fmt.Errorf(lineForms, errors.New("there is no prompt, and no body that is an object"))
	case l.Prompt != nil && strings.TrimSpace(*l.Prompt) == "":
		return r, errors.New("its prompt is empty")
	case l.Prompt != nil && len(l.Body) > 0:
		return r, errors.New("it has a prompt and a body; one of the two is sent")
	case l.Prompt == nil && l.System != nil:
		return r, errors.New("system goes with prompt; a body has its own")
	case l.Prompt != nil && l.Path != "":
		return r, errors.New("path goes with body; --path says which API prompts are sent to")
	case l.Prompt != nil:
		r.Path = p.path(usual)
		if r.Body, err = p.prompt(&l, r.Path, usual); err != nil {
			return r, err
		}
	case r.Path == "":
		r.Path = p.path(usual)
	}
	if err := p.parse(&r); err != nil {
		return r, err
	}
	return r, r.judgedBy(l.Schema)
}

// parse reads what call a request is, and refuses what cannot be sent to every tier.
func (p *Plan) parse(r *Request) error {
	u, err := url.ParseRequestURI(r.Path)
	if err != nil || !strings.HasPrefix(r.Path, "/") {
		return fmt.Errorf("its path is none: %q; write e.g. /v1/chat/completions", r.Path)
	}
	r.call = callOf(p.config, u, r.Body)
	switch r.call.Endpoint {
	case wire.Chat, wire.Responses, wire.Messages, wire.Generate, wire.StreamGenerate:
	default:
		return fmt.Errorf("%s answers no prompt; it is one of /v1/chat/completions, /v1/responses, /v1/messages, /v1beta/models/{model}:generateContent, :streamGenerateContent", r.Path)
	}
	if r.call.Acts != "" {
		return fmt.Errorf("it makes the provider act (%s), and would once for each tier; take that out", r.call.Acts)
	}
	for i := range p.Tiers {
		if p.Tiers[i].Model == "" && r.call.Model == "" {
			return fmt.Errorf("it names no model, and tier %s has none of its own", p.Tiers[i].Name)
		}
	}
	if field := conversations[r.call.Endpoint]; !r.asks(field) {
		return fmt.Errorf("it asks nothing: its %s is missing, or empty", field)
	}
	return nil
}

// conversations are where each API has what is asked.
var conversations = map[string]string{wire.Chat: "messages", wire.Responses: "input", wire.Messages: "messages", wire.Generate: "contents", wire.StreamGenerate: "contents"}

// asks reports whether a request has a conversation, or a prompt that its provider keeps in the place of one.
func (r *Request) asks(field string) bool {
	doc := jsonview.Value(r.Body)
	return doc.Get(field).Filled() || r.call.Endpoint == wire.Responses && doc.Get("prompt").Filled()
}

// callOf reads a request as the gateway does: a path may begin with a provider's name.
func callOf(cfg *policy.Config, u *url.URL, body []byte) provider.Call {
	q := provider.Request{Method: http.MethodPost, Path: u.EscapedPath(), RawQuery: u.RawQuery, Header: headerOf(u.EscapedPath()), Body: body}
	name, rest, found := strings.Cut(strings.TrimPrefix(q.Path, "/"), "/")
	if c := provider.Parse(&q); c.Known || !found {
		return c
	}
	if c := cfg.Provider(name); c != nil {
		q.Path, q.Wire = "/"+rest, provider.Wire(c.Type)
	}
	return provider.Parse(&q)
}

// headerOf is what an SDK sends by which its API is known: Anthropic's shares its paths' beginning with OpenAI's.
func headerOf(path string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	if strings.HasSuffix(path, messagesPath) {
		h.Set("Anthropic-Version", "2023-06-01")
	}
	return h
}

// judgedBy sets by what answers are judged: the line's schema, or the request's own.
func (r *Request) judgedBy(own json.RawMessage) (err error) {
	if len(own) > 0 {
		if r.schema, err = newSchema(own); err != nil {
			return fmt.Errorf("its schema: %w", err)
		}
		return nil
	}
	text := asked(r.call.Endpoint, r.Body)
	if text == nil {
		return nil
	}
	if r.schema, err = newSchema(text); err != nil {
		r.schemaFault = err.Error() // a provider may read more than this validator does
	}
	return nil
}

const (
	chatPath     = "/v1/chat/completions"
	responsePath = "/v1/responses"
	messagesPath = "/v1/messages"
	promptTokens = 4096 // what Anthropic must be told (max_tokens)
)

// path is where lines go that name none: as clients of the workflow send theirs, and where that is open in the API of the first
// tier, or one that can be said in it.
func (p *Plan) path(usual *Usual) string {
	if usual.Path != "" {
		return usual.Path
	}
	order := []string{chatPath, messagesPath, responsePath}
	if c := p.config.Provider(p.Tiers[0].Provider); c != nil && c.Type == policy.TypeAnthropic {
		order = []string{messagesPath, chatPath, responsePath}
	}
	for _, path := range order {
		if p.takes(path) {
			return path
		}
	}
	return order[0]
}

// prompt writes a short line as a whole request. Its schema is asked for, too.
func (p *Plan) prompt(l *line, path string, usual *Usual) ([]byte, error) {
	model := usual.Model
	if model == "" {
		model = p.Tiers[0].Model
	}
	if model == "" {
		return nil, errors.New("a prompt names no model, and the first tier has none; write --model NAME")
	}
	var body map[string]any
	switch path {
	case chatPath:
		body = chatPrompt(l, usual.Stream)
	case responsePath:
		body = responsePrompt(l)
	case messagesPath:
		body = messagesPrompt(l)
	default:
		return nil, fmt.Errorf("prompts are sent to %s, %s or %s, not to %s", chatPath, responsePath, messagesPath, path)
	}
	body["model"] = model
	if usual.Stream {
		body["stream"] = true
	}
	return json.Marshal(body)
}

type object = map[string]any

func chatPrompt(l *line, stream bool) object {
	messages := []object{{"role": "user", "content": *l.Prompt}}
	if l.System != nil {
		messages = append([]object{{"role": "system", "content": *l.System}}, messages...)
	}
	body := object{"messages": messages}
	if len(l.Schema) > 0 {
		body["response_format"] = object{"type": "json_schema", "json_schema": object{"name": "answer", "schema": l.Schema}}
	}
	if stream {
		body["stream_options"] = object{"include_usage": true}
	}
	return body
}

func responsePrompt(l *line) object {
	body := object{"input": *l.Prompt, "store": false}
	if l.System != nil {
		body["instructions"] = *l.System
	}
	if len(l.Schema) > 0 {
		body["text"] = object{"format": object{"type": "json_schema", "name": "answer", "schema": l.Schema, "strict": false}}
	}
	return body
}

func messagesPrompt(l *line) object {
	body := object{"max_tokens": promptTokens, "messages": []object{{"role": "user", "content": *l.Prompt}}}
	if l.System != nil {
		body["system"] = *l.System
	}
	if len(l.Schema) > 0 {
		body["output_config"] = object{"format": object{"type": "json_schema", "schema": l.Schema}}
	}
	return body
}
