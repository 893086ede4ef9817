package sim

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// findInline looks for the script that the request itself brings.
func (q *request) findInline() {
	if name, ok := strings.CutPrefix(q.model, "sim:"); ok {
		q.setInline(name)
	}
	if i := strings.LastIndex(q.text, "sim:{"); i >= 0 && q.inline == nil {
		dec := json.NewDecoder(strings.NewReader(q.text[i+len("sim:"):]))
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			q.invalid = "sim: the script in the text is not JSON: " + err.Error()
			return
		}
		q.setInline(string(raw))
		q.text = strings.TrimSpace(q.text[:i] + q.text[i+len("sim:")+len(raw):])
	}
	if q.inline == nil && q.wire != wireTool && len(q.body) > 0 {
		q.setInline(gjson.GetBytes(q.body, "metadata.sim").String())
	}
	if q.inline == nil {
		q.setInline(q.header.Get("Sim-Script"))
	}
}

// inlineStep lets a bare fault name stand where JSON would want quotes.
func inlineStep(raw string) []byte {
	if raw[0] == '{' || raw[0] == '"' {
		return []byte(raw)
	}
	return appendString(nil, raw)
}

// setInline takes a step, or an object with steps (and times, then) like a rule.
func (q *request) setInline(raw string) {
	if raw == "" {
		return
	}
	r := &Rule{}
	var err error
	if doc := gjson.Parse(raw); doc.IsObject() && (doc.Get("steps").Exists() || doc.Get("then").Exists()) {
		err = strict([]byte(raw), r)
	} else {
		r.Steps, r.Times = make([]Step, 1), -1
		err = r.Steps[0].UnmarshalJSON(inlineStep(raw))
	}
	if err == nil && r.early() {
		err = fmt.Errorf("%w: %s, and with it the script; put a rule at %sscript", ErrScript, arrivesFirst, ControlPrefix)
	}
	if err != nil {
		q.invalid = badScript(err).Error() + " (in the request itself)"
		return
	}
	q.inline, q.inlineText = r, raw
}
