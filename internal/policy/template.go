package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/cache"
	"github.com/holdfast-ai/holdfast/idempotency"
)

const maxTemplate = 1024

// checkTemplate checks a key template by the rules of the package that uses it.
func checkTemplate(text string) (what, remedy string) {
	if len(text) > maxTemplate {
		return fmt.Sprintf("is a template of %d bytes", len(text)), fmt.Sprintf("write at most %d", maxTemplate)
	}
	_, err := idempotency.ParseTemplate(text)
	if err == nil {
		return "", ""
	}
	what, remedy, _ = strings.Cut(err.Error(), "; ")
	if remedy == "" {
		remedy = `write field names in braces, e.g. "{customer_id}:{item_id}"`
	}
	return "is no key " + what, remedy
}

// templateFields lists the fields of text with {field} in it, or says what is wrong. Unlike a key it may have none.
func templateFields(text string) (fields []string, what string) {
	if !strings.ContainsAny(text, "{}") {
		return nil, ""
	}
	if what, _ = checkTemplate(text); what != "" {
		if strings.Contains(what, "names no field") {
			return nil, ""
		}
		return nil, strings.Replace(what, "is no key template", "is no template", 1)
	}
	t, err := idempotency.ParseTemplate(text)
	if err != nil {
		return nil, err.Error()
	}
	return t.Fields(), ""
}

// checkPattern checks a cache template by the rules of the package that uses it.
func checkPattern(text string) (what, remedy string) {
	_, err := cache.ParsePattern("", text)
	if err == nil {
		return "", ""
	}
	what, remedy, _ = strings.Cut(strings.TrimPrefix(err.Error(), cache.ErrPattern.Error()+": "), "; ")
	return "is no template: " + what, remedy
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
