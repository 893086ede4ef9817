package sim

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
)

// The wires. A call that belongs to no provider is one of a tool.
const (
	wireOpenAI    = "openai"
	wireAnthropic = "anthropic"
	wireGemini    = "gemini"
	wireTool      = "tool"
)

// request is a call as the simulator understands it.
type request struct {
	call         int64 // its number
	method, path string
	query        url.Values
	header       http.Header
	body         []byte

	wire, endpoint string
	id             string // of a get by id
	model          string
	stream         bool
	array          bool // Gemini's stream without alt=sse
	op, key        string

	text       string // last text of the user
	all        int    // characters of the whole prompt, for usage
	inputs     int    // of an embeddings call
	tools      []tool
	choice     string // name of the tool that must be called, "*" for any, "-" for none
	answered   bool   // the last message brings a tool's result
	schema     gjson.Result
	wantJSON   bool
	inline     *Rule
	inlineText string
	invalid    string // why the provider would answer 400
}

type tool struct {
	name   string
	schema gjson.Result
}

// routeRequest reads what method, path and header say; the body comes later, if at all.
func routeRequest(r *http.Request) *request {
	q := &request{method: r.Method, path: r.URL.Path, query: r.URL.Query(), header: r.Header, key: r.Header.Get("Idempotency-Key")}
	q.wire, q.endpoint = wireTool, ""
	q.route()
	q.op = r.Header.Get("Sim-Op")
	return q
}

func (q *request) route() {
	p := strings.TrimSuffix(q.path, "/")
	if strings.HasPrefix(p, "/tools/") {
		return
	}
	get, post := q.method == http.MethodGet || q.method == http.MethodHead, q.method == http.MethodPost
	if model, action, ok := geminiAction(p); ok && post {
		q.wire, q.endpoint, q.model = wireGemini, action, model
		q.stream = action == "streamGenerateContent"
		q.array = q.stream && q.query.Get("alt") != "sse"
		return
	}
	for _, e := range [...]struct{ suffix, wire, endpoint string }{
		{"/chat/completions", wireOpenAI, "chat.completions"},
		{"/responses", wireOpenAI, "responses"},
		{"/embeddings", wireOpenAI, "embeddings"},
		{"/v1/messages", wireAnthropic, "messages"},
		{"/v1/messages/count_tokens", wireAnthropic, "count_tokens"},
	} {
		if post && strings.HasSuffix(p, e.suffix) {
			q.wire, q.endpoint = e.wire, e.endpoint
			return
		}
	}
	if id, ok := after(p, "/responses/"); ok {
		id, cancel := strings.CutSuffix(id, "/cancel")
		switch {
		case cancel && post:
			q.wire, q.endpoint, q.id = wireOpenAI, "responses.cancel", id
		case q.method == http.MethodDelete:
			q.wire, q.endpoint, q.id = wireOpenAI, "responses.delete", id
		case get:
			q.wire, q.endpoint, q.id = wireOpenAI, "responses.get", id
		}
		return
	}
	if strings.HasSuffix(p, "/chat/completions") && get {
		q.wire, q.endpoint = wireOpenAI, "chat.completions.list"
		return
	}
	if id, ok := after(p, "/chat/completions/"); ok && get {
		q.wire, q.endpoint, q.id = wireOpenAI, "chat.completions.get", id
		return
	}
	if get {
		q.routeModels(p)
	}
}

func (q *request) routeModels(p string) {
	id, one := after(p, "/models/")
	if !one && !strings.HasSuffix(p, "/models") {
		return
	}
	q.endpoint, q.id = "models", id
	switch {
	case strings.HasPrefix(p, "/v1beta"), strings.HasPrefix(p, "/v1alpha"), q.header.Get("X-Goog-Api-Key") != "":
		q.wire = wireGemini
	case q.header.Get("Anthropic-Version") != "":
		q.wire = wireAnthropic
	default:
		q.wire = wireOpenAI
	}
}

// after returns what follows the last place of sep in p.
func after(p, sep string) (string, bool) {
	i := strings.LastIndex(p, sep)
	if i < 0 || i+len(sep) == len(p) {
		return "", false
	}
	return p[i+len(sep):], true
}

// geminiAction splits …/models/{model}:{action}.
func geminiAction(p string) (model, action string, ok bool) {
	rest, found := after(p, "/models/")
	if !found {
		return "", "", false
	}
	i := strings.LastIndexByte(rest, ':')
	if i < 0 {
		return "", "", false
	}
	switch action = rest[i+1:]; action {
	case "generateContent", "streamGenerateContent", "embedContent", "batchEmbedContents", "countTokens":
		return rest[:i], action, true
	}
	return "", "", false
}

// generates reports whether the call costs or changes something, so that it has an effect.
func (q *request) generates() bool {
	switch q.endpoint {
	case "chat.completions", "responses", "embeddings", "messages", "generateContent", "streamGenerateContent",
		"embedContent", "batchEmbedContents":
		return true
	}
	return q.wire == wireTool && q.method != http.MethodGet && q.method != http.MethodHead && q.method != http.MethodOptions
}

// opMarker ends in a letter or digit, so that a sentence may end behind it.
var opMarker = regexp.MustCompile(`\bop=([A-Za-z0-9](?:[A-Za-z0-9_.:-]{0,62}[A-Za-z0-9])?)`)

// parse reads the body.
func (q *request) parse(body []byte) {
	q.body = body
	if q.wire != wireTool && q.method == http.MethodPost && q.endpoint != "responses.cancel" {
		if gjson.ValidBytes(body) {
			q.read(gjson.ParseBytes(body))
		} else {
			q.invalid = "We could not parse the JSON body of your request."
		}
	} else if gjson.ValidBytes(body) {
		q.setInline(gjson.GetBytes(body, "sim").Raw)
	}
	if q.op == "" {
		// The last one counts: a conversation repeats earlier turns.
		if all := opMarker.FindAllSubmatch(body, -1); len(all) > 0 {
			q.op = string(all[len(all)-1][1])
		} else if m := opMarker.FindStringSubmatch("op=" + q.query.Get("op")); m != nil {
			q.op = m[1]
		}
	}
	q.findInline()
}

func (q *request) read(doc gjson.Result) {
	q.all = len(q.body)
	if q.wire != wireGemini {
		q.model = doc.Get("model").String()
		q.stream = doc.Get("stream").Bool()
		if q.model == "" {
			q.invalid = "you must provide a model parameter"
		}
	}
	switch q.endpoint {
	case "chat.completions":
		q.readChat(doc)
	case "responses":
		q.readResponses(doc)
	case "messages", "count_tokens":
		q.readMessages(doc)
	case "generateContent", "streamGenerateContent", "countTokens":
		q.readGemini(doc)
	case "embeddings":
		q.inputs = 1
		if in := doc.Get("input"); in.IsArray() && !in.Get("0").IsArray() && in.Get("0").Type != gjson.Number {
			q.inputs = len(in.Array())
		}
	case "embedContent":
		q.inputs, q.text = 1, texts(doc.Get("content.parts"))
	case "batchEmbedContents":
		q.inputs = len(doc.Get("requests").Array())
	}
}

func (q *request) readChat(doc gjson.Result) {
	messages := doc.Get("messages").Array()
	if len(messages) == 0 {
		q.missing("messages")
	}
	q.text = lastUser(messages, "content")
	q.answered = len(messages) > 0 && messages[len(messages)-1].Get("role").String() == "tool"
	for _, t := range doc.Get("tools").Array() {
		q.tools = append(q.tools, tool{t.Get("function.name").String(), t.Get("function.parameters")})
	}
	q.choose(doc.Get("tool_choice"), "required", "function.name")
	q.schema = doc.Get("response_format.json_schema.schema")
	q.wantJSON = strings.HasPrefix(doc.Get("response_format.type").String(), "json")
}

func (q *request) readResponses(doc gjson.Result) {
	input := doc.Get("input")
	q.text = input.String()
	if input.IsArray() {
		items := input.Array()
		q.text = lastUser(items, "content")
		q.answered = len(items) > 0 && items[len(items)-1].Get("type").String() == "function_call_output"
	} else if !input.Exists() && !doc.Get("prompt").Exists() && !doc.Get("conversation").Exists() {
		q.missing("input")
	}
	for _, t := range doc.Get("tools").Array() {
		if t.Get("type").String() == "function" {
			q.tools = append(q.tools, tool{t.Get("name").String(), t.Get("parameters")})
		}
	}
	q.choose(doc.Get("tool_choice"), "required", "name")
	q.schema = doc.Get("text.format.schema")
	q.wantJSON = strings.HasPrefix(doc.Get("text.format.type").String(), "json")
}

func (q *request) readMessages(doc gjson.Result) {
	messages := doc.Get("messages").Array()
	if len(messages) == 0 {
		q.missing("messages")
	}
	if q.endpoint == "messages" && !doc.Get("max_tokens").Exists() {
		q.missing("max_tokens")
	}
	q.text = lastUser(messages, "content")
	if len(messages) > 0 {
		last := messages[len(messages)-1].Get("content")
		q.answered = last.Get(`#(type=="tool_result")`).Exists()
	}
	for _, t := range doc.Get("tools").Array() {
		if t.Get("input_schema").Exists() {
			q.tools = append(q.tools, tool{t.Get("name").String(), t.Get("input_schema")})
		}
	}
	q.choose(doc.Get("tool_choice"), "any", "name")
	q.schema = doc.Get("output_config.format.schema")
	q.wantJSON = q.schema.Exists()
}

func (q *request) readGemini(doc gjson.Result) {
	if inner := doc.Get("generateContentRequest"); inner.Exists() { // countTokens wraps a whole request
		doc = inner
	}
	contents := doc.Get("contents").Array()
	if len(contents) == 0 {
		q.invalid = "* GenerateContentRequest.contents: contents is not specified"
	}
	q.text = lastUser(contents, "parts")
	if len(contents) > 0 {
		q.answered = contents[len(contents)-1].Get("parts.#.functionResponse").Get("0").Exists()
	}
	for _, t := range doc.Get("tools").Array() {
		for _, f := range t.Get("functionDeclarations").Array() {
			schema := f.Get("parametersJsonSchema")
			if !schema.Exists() {
				schema = f.Get("parameters")
			}
			q.tools = append(q.tools, tool{f.Get("name").String(), schema})
		}
	}
	calling := doc.Get("toolConfig.functionCallingConfig")
	switch strings.ToUpper(calling.Get("mode").String()) {
	case "ANY":
		q.choice = "*"
		if name := calling.Get("allowedFunctionNames.0").String(); name != "" {
			q.choice = name
		}
	case "NONE":
		q.choice = "-"
	}
	config := doc.Get("generationConfig")
	q.schema = config.Get("responseJsonSchema")
	if !q.schema.Exists() {
		q.schema = config.Get("responseSchema")
	}
	q.wantJSON = config.Get("responseMimeType").String() == "application/json"
}

func (q *request) missing(field string) {
	if q.invalid != "" {
		return
	}
	q.invalid = fmt.Sprintf("Missing required parameter: '%s'.", field)
	if q.wire == wireAnthropic {
		q.invalid = field + ": Field required"
	}
}

// choose reads tool_choice in the forms of OpenAI and Anthropic.
func (q *request) choose(c gjson.Result, any, namePath string) {
	kind := c.String()
	if c.IsObject() {
		kind = c.Get("type").String()
	}
	switch {
	case kind == any:
		q.choice = "*"
	case kind == "none":
		q.choice = "-"
	case c.Get(namePath).Exists():
		q.choice = c.Get(namePath).String()
	}
}

// lastUser is the text of the last message of the user's.
func lastUser(messages []gjson.Result, field string) string {
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if role := m.Get("role").String(); role != "user" && role != "" {
			continue
		}
		if text := texts(m.Get(field)); text != "" {
			return text
		}
	}
	return ""
}

// texts joins the text of a string or of a list of parts.
func texts(content gjson.Result) string {
	if !content.IsArray() {
		return content.String()
	}
	var all []string
	for _, part := range content.Array() {
		if t := part.Get("text"); t.Exists() {
			all = append(all, t.String())
		}
	}
	return strings.Join(all, "\n")
}
