package signal

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// fault is what a body says about itself, before any rule.
type fault struct {
	present bool // the body states a failure
	inBand  bool // under a 2xx

	// Machine-readable words, as given. name prefers them in this order.
	detail string // error.details.error_code: the cause behind a general type
	code   string
	typ    string
	reason string   // ErrorInfo.reason, or the reason of a list of errors
	status string   // a status name: RESOURCE_EXHAUSTED
	num    int      // an integer code, or status
	more   []string // words that rules may know, which are not this answer's own code

	message  string   // all words for people, for matching
	quotaIDs []string // Google's QuotaFailure
	waits    []string // structured waits, as decimal seconds with a unit: "34.07s"
	headers  headers  // an upstream's headers, quoted in the body

	exhausted Limit // the limit of which the answer's headers say that nothing is left

	page        string // an HTML page, for the wait in its prose
	textCut     bool   // the words are only the beginning: no numbers are read from them
	toolStarted bool
}

// name is the most specific machine-readable code.
func (f *fault) name(status int) string {
	for _, c := range []string{f.detail, f.code, f.typ, f.reason, f.status} {
		if c = strings.TrimSpace(clip(strings.ToValidUTF8(c, "\uFFFD"), 128)); c != "" {
			return c
		}
	}
	if f.num != 0 {
		return strconv.Itoa(f.num)
	}
	return "http_" + strconv.Itoa(status)
}

// words are the codes that rules may know, the most specific first; quoted errors come last.
func (f *fault) words() []string {
	return append([]string{f.detail, f.code, f.reason, f.typ, f.status}, f.more...)
}

func (f *fault) say(s string) {
	if s == "" || len(f.message) > maxMatch {
		return
	}
	if f.message != "" {
		f.message += "\n"
	}
	f.message += clip(s, maxMatch)
}

// decode reads one JSON value; numbers keep their text.
func decode(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

const maxNesting = 4 // of errors quoted within errors

// readValue reads an error out of any of the known forms. flat allows an error without an error member.
func (f *fault) readValue(v any, flat bool, depth int) {
	if depth > maxNesting {
		return
	}
	switch v := v.(type) {
	case []any: // Gemini's streaming form without alt=sse; lists of errors
		for _, e := range v {
			if f.readValue(e, flat, depth+1); f.present {
				return
			}
		}
	case map[string]any:
		f.readObject(v, flat, depth)
	}
}

func (f *fault) readObject(o map[string]any, flat bool, depth int) {
	f.readWaits(o)
	switch {
	case f.readErrorMember(o, depth), f.readListed(o, flat, depth):
		f.present = true
	case flat || isErrorObject(o):
		f.present = true
		f.readError(o, depth)
	}
}

// readErrorMember reads "error": an object, a text, or just true.
func (f *fault) readErrorMember(o map[string]any, depth int) bool {
	switch e := o["error"].(type) {
	case map[string]any:
		if len(e) == 0 && f.inBand {
			return false
		}
		f.readError(e, depth)
		if f.num == 0 {
			f.num = statusMember(o)
		}
		return true
	case string:
		if e == "" {
			return false
		}
		if str(o["error_description"]) != "" { // RFC 6749 5.2: the text is a code
			set(&f.code, e)
		}
		f.say(e)
		f.more = append(f.more, e)
		f.readEmbedded(e, depth)
		f.readError(without(o, "error"), depth)
		return true
	case bool:
		if e {
			f.readError(without(o, "error"), depth)
		}
		return e
	}
	return false
}

// readListed reads the forms of frameworks and gateways.
func (f *fault) readListed(o map[string]any, flat bool, depth int) bool {
	if errs, ok := o["errors"].([]any); ok && len(errs) > 0 { // Cloudflare's API, GraphQL-like gateways
		if e, ok := errs[0].(map[string]any); ok {
			f.readError(e, depth)
		}
		f.say(str(errs[0]))
		return true
	}
	if d, ok := o["detail"]; ok && (flat || len(o) == 1) { // FastAPI, RFC 9457
		f.readDetail(d, depth)
		f.say(str(o["title"]))
		f.readError(without(o, "detail"), depth)
		return true
	}
	if b, ok := o["base_resp"].(map[string]any); ok && firstInt(b, "status_code") != 0 { // MiniMax, always under a 200
		f.num = firstInt(b, "status_code")
		f.say(str(b["status_msg"]))
		return true
	}
	if a, ok := o["fault"].(map[string]any); ok { // Apigee
		f.say(str(a["faultstring"]))
		if d, ok := a["detail"].(map[string]any); ok {
			set(&f.code, str(d["errorcode"]))
		}
		return true
	}
	return false
}

// isErrorObject: forms without an error member that may come under a 200 (Responses' flat event, vLLM, Mistral).
func isErrorObject(o map[string]any) bool {
	return str(o["type"]) == "error" || str(o["object"]) == "error" || str(o["__type"]) != ""
}

func without(o map[string]any, key string) map[string]any {
	c := make(map[string]any, len(o))
	for k, v := range o {
		if k != key {
			c[k] = v
		}
	}
	return c
}

// readDetail reads FastAPI's detail: a text, a list of {type, msg}, or an error of its own.
func (f *fault) readDetail(d any, depth int) {
	switch d := d.(type) {
	case string:
		f.say(d)
	case []any:
		for i, e := range d {
			o, ok := e.(map[string]any)
			if !ok || i > 8 {
				return
			}
			if f.typ == "" {
				f.typ = str(o["type"])
			}
			f.say(str(o["msg"]))
		}
	case map[string]any:
		f.readValue(d, true, depth+1)
	}
}

// readError reads the members that an error object has at any provider. What is known already stays.
func (f *fault) readError(o map[string]any, depth int) {
	f.readCode(o["code"])
	set(&f.typ, errorType(o))
	set(&f.status, str(o["status"]))
	if f.num == 0 {
		f.num = statusMember(o)
	}
	f.readWaits(o)
	for _, k := range []string{"message", "Message", "msg", "error_message", "error_description"} {
		switch m := o[k].(type) {
		case string:
			f.say(m)
			f.readEmbedded(m, depth)
		case map[string]any: // Mistral and FastAPI put validation details here
			f.readValue(m, true, depth+1)
		}
	}
	if inner, ok := o["innererror"].(map[string]any); ok {
		set(&f.reason, str(inner["code"]))
	}
	f.readDetails(o["details"])
	f.readMetadata(o["metadata"], depth)
}

func errorType(o map[string]any) string {
	t := str(o["type"])
	if t == "" {
		t = str(o["__type"]) // AWS: com.amazon.coral.service#ThrottlingException
		t = t[strings.LastIndexByte(t, '#')+1:]
	}
	switch t {
	case "error", "about:blank", "None", "null": // the envelope; RFC 9457's nothing; a gateway's nil
		return ""
	}
	return t
}

// readCode: a text is a code even when it looks like a number (Azure's "429"); an integer is the weakest word.
func (f *fault) readCode(c any) {
	switch c := c.(type) {
	case string:
		if c != "null" && c != "None" { // a gateway's nil
			set(&f.code, c)
		}
	case json.Number:
		if n, err := strconv.Atoi(c.String()); err == nil && f.num == 0 {
			f.num = n
		}
	}
}

func statusMember(o map[string]any) int {
	return firstInt(o, "status", "statusCode", "status_code", "http_status", "raw_status_code", "http_code")
}

// readDetails reads google.rpc details (list) and Anthropic's details (object).
func (f *fault) readDetails(d any) {
	switch d := d.(type) {
	case map[string]any:
		set(&f.detail, str(d["error_code"]))
	case []any:
		for i, e := range d {
			if o, ok := e.(map[string]any); ok && i < 32 {
				f.readGoogleDetail(o)
			}
		}
	}
}

func (f *fault) readGoogleDetail(o map[string]any) {
	switch t := str(o["@type"]); {
	case strings.HasSuffix(t, "google.rpc.ErrorInfo"):
		set(&f.reason, str(o["reason"]))
	case strings.HasSuffix(t, "google.rpc.RetryInfo"):
		f.addWait(o["retryDelay"], "")
	case strings.HasSuffix(t, "google.rpc.QuotaFailure"):
		vs, _ := o["violations"].([]any)
		for i, v := range vs {
			if q, ok := v.(map[string]any); ok && i < 32 {
				f.quotaIDs = append(f.quotaIDs, str(q["quotaId"])+" "+str(q["quotaMetric"]))
			}
		}
	}
}

// readMetadata reads OpenRouter's report about its upstream.
func (f *fault) readMetadata(m any, depth int) {
	o, ok := m.(map[string]any)
	if !ok {
		return
	}
	f.readWaits(o)
	f.more = append(f.more, str(o["limit_source"]))
	if hs, ok := o["headers"].(map[string]any); ok {
		in := make(map[string][]string, len(hs))
		for k, v := range hs {
			in[k] = []string{scalar(v)}
		}
		f.headers = readHeaders(in)
	}
	if raw := str(o["raw"]); raw != "" {
		f.say(raw)
		f.readEmbedded(raw, depth)
	}
}

// readEmbedded reads an error that a gateway quoted as text within its own.
func (f *fault) readEmbedded(s string, depth int) {
	i := strings.IndexByte(s, '{')
	if i < 0 || depth >= maxNesting || len(s) > maxBody || !strings.Contains(s, `"error"`) && !strings.Contains(s, `"message"`) {
		return
	}
	v, err := decode([]byte(s[i:]))
	if err != nil {
		return
	}
	var in fault
	in.readValue(v, false, depth+1)
	if !in.present {
		return
	}
	f.say(in.message)
	f.more = append(f.more, in.words()...)
	f.waits = append(f.waits, in.waits...)
	f.quotaIDs = append(f.quotaIDs, in.quotaIDs...)
	if f.num == 0 {
		f.num = in.num
	}
}

func set(to *string, v string) {
	if *to == "" {
		*to = v
	}
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// firstInt is the first of the members that is an integer, or a text that is one.
func firstInt(o map[string]any, keys ...string) int {
	for _, k := range keys {
		if n, err := strconv.Atoi(scalar(o[k])); err == nil {
			return n
		}
	}
	return 0
}
