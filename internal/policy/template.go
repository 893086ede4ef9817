package policy

import (
	"fmt"
	"slices"
	"strings"
)

const maxTemplate = 1024

// checkTemplate checks a key template: text with {field} or {a.b.c} in it. {{ and }} stand for braces.
func checkTemplate(text string) (what, remedy string) {
	fields, what := templateFields(text)
	switch {
	case what != "":
		return what, `write field names in braces, e.g. "{customer_id}:{item_id}"`
	case len(fields) == 0:
		return quote(text) + " names no field", `write at least one in braces, e.g. "{order_id}"`
	}
	return "", ""
}

// templateFields lists the fields of a key template in order, or says what is wrong with it.
func templateFields(text string) (fields []string, what string) {
	if len(text) > maxTemplate {
		return nil, fmt.Sprintf("is a template of %d bytes; at most %d", len(text), maxTemplate)
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case (c == '{' || c == '}') && i+1 < len(text) && text[i+1] == c:
			i++
		case c == '}':
			return nil, quote(text) + " has a } without {"
		case c == '{':
			end := strings.IndexAny(text[i+1:], "{}")
			if end < 0 || text[i+1+end] != '}' {
				return nil, quote(text) + " has a { that is not closed"
			}
			name := text[i+1 : i+1+end]
			if !fieldForm.MatchString(name) {
				return nil, quote(text) + " has the field " + quote(name)
			}
			fields = append(fields, name)
			i += end + 1
		}
	}
	return fields, ""
}

// checkPattern checks a cache template: text with {value} in it.
func checkPattern(text string) (what, remedy string) {
	fields, what := templateFields(text)
	if what != "" {
		return what, `write values in braces, e.g. "Tell me about {product}"`
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(fields)))
	if len(distinct) != len(fields) {
		return quote(text) + " names a value twice", "give each value a name of its own"
	}
	if strings.Contains(strings.NewReplacer("{{", "", "}}", "").Replace(text), "}{") {
		return quote(text) + " has two values without text between them", "put text between them, or make them one"
	}
	return "", ""
}

// coarse says why a key template can hardly tell two intentions apart, empty if it can. A date, a day or a kind alone
// is the same for everybody (interface.md §4).
func coarse(template string) string {
	fields, what := templateFields(template)
	if what != "" || len(fields) == 0 {
		return ""
	}
	for _, f := range fields {
		if !isCoarse(f) {
			return ""
		}
	}
	return "tells only " + strings.Join(fields, ", ") + " apart"
}

var coarseNames = []string{
	"date", "day", "month", "year", "week", "time", "hour", "type", "kind", "status", "state", "action", "currency", "country",
	"language", "locale", "lang", "region", "model", "priority", "channel", "quantity", "qty", "count", "amount", "price", "method", "name",
}

func isCoarse(field string) bool {
	last := strings.ToLower(field[strings.LastIndexByte(field, '.')+1:])
	for _, word := range coarseNames {
		if last == word || strings.HasSuffix(last, "_"+word) && word != "name" {
			return true
		}
	}
	return false
}

// generatedIDs are fields that a model or an SDK makes anew for each try: a key from them never repeats.
var generatedIDs = []string{"tool_call_id", "call_id", "request_id", "message_id", "trace_id", "span_id", "nonce", "uuid", "timestamp"}

// generated returns the first field of a template that is made anew for each try, empty if there is none.
func generated(template string) string {
	fields, _ := templateFields(template)
	for _, f := range fields {
		if slices.Contains(generatedIDs, strings.ToLower(f[strings.LastIndexByte(f, '.')+1:])) {
			return f
		}
	}
	return ""
}
