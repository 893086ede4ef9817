package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// parseText makes of text what can be compared: JSON is read, other text becomes its lines.
func parseText(s string) any {
	if len(s) > maxValue {
		s = s[:maxValue]
	}
	trimmed := strings.TrimSpace(s)
	if len(trimmed) > 0 && strings.ContainsAny(trimmed[:1], `{["`) || trimmed == "null" {
		if v, err := parseJSON([]byte(trimmed)); err == nil {
			return v
		}
		if v, ok := parseJSONLines(trimmed); ok {
			return v
		}
	}
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) == 1 {
		return lines[0]
	}
	out := make([]any, len(lines))
	for i, l := range lines {
		out[i] = strings.TrimRight(l, "\r")
	}
	return out
}

func parseJSONLines(s string) (any, bool) {
	lines := strings.Split(s, "\n")
	if len(lines) < 2 {
		return nil, false
	}
	var out []any
	for _, l := range lines {
		v, err := parseJSON([]byte(l))
		if err != nil {
			return nil, false
		}
		out = append(out, v)
	}
	return out, true
}

// parseJSON keeps numbers as they were written: an id beyond 2^53 is not the id beside it.
func parseJSON(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more than one value")
	}
	return v, nil
}

// single is the only element of a list, or the list.
func single(v []any) any {
	if len(v) == 1 {
		return v[0]
	}
	return v
}

// resultValue is what a tool's result says: its structured content, which says the same as its text where there is
// both, else its content.
func resultValue(r *mcp.CallToolResult) any {
	if r.StructuredContent != nil {
		if b, err := json.Marshal(r.StructuredContent); err == nil {
			if v, err := parseJSON(b); err == nil {
				return opened(v)
			}
		}
	}
	return contentValue(r)
}

// opened parses the texts in a value that have lines, or JSON, of their own.
func opened(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = opened(e)
		}
	case []any:
		for i, e := range v {
			v[i] = opened(e)
		}
	case string:
		if strings.Contains(v, "\n") || strings.HasPrefix(v, "{") || strings.HasPrefix(v, "[") {
			return parseText(v)
		}
	}
	return v
}

func contentValue(r *mcp.CallToolResult) any {
	parts := make([]any, 0, len(r.Content))
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			parts = append(parts, parseText(t.Text))
			continue
		}
		b, err := json.Marshal(c)
		if err != nil {
			b = []byte(err.Error())
		}
		parts = append(parts, parseText(string(b)))
	}
	return single(parts)
}

var (
	stamps = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?( ?(Z|UTC|[+-]\d\d:?\d\d))?( [A-Z]{3,4})?( m=[+-][0-9.]+)?` +
		`|(Mon|Tue|Wed|Thu|Fri|Sat|Sun),? ([A-Z][a-z]{2} \d{1,2}|\d{1,2} [A-Z][a-z]{2})( \d{4})? \d\d:\d\d:\d\d( \d{4})?( ?(GMT|UTC)?([+-]\d{4})?( \([^)]*\))?)?`)
	spans    = regexp.MustCompile(`\b\d+(\.\d+)? ?(ns|µs|ms|milliseconds|seconds)\b`)
	epochs   = regexp.MustCompile(`\b\d{10}(\d{3}|\d{6}|\d{9})?\b`)
	replayed = []string{"replayed", "replay", "duplicate", "deduplicated", "deduped", "idempotent", "cached", "idempotent_replay", "from_cache", "is_duplicate", "is_replay", "idempotent_replayed", "isreplay", "isduplicate"}
	passing  = []string{"request_id", "requestid", "req_id", "trace_id", "traceid", "span_id", "correlation_id", "correlationid", "duration", "duration_ms", "durationms", "took", "took_ms", "elapsed", "elapsed_ms", "latency", "latency_ms", "now", "server_time", "servertime", "uptime", "uptime_ms", "uptime_seconds"}
)

// timeless replaces what is a moment: no two answers share it, and none is wrong for it.
func timeless(s string) string {
	if !strings.ContainsAny(s, "0123456789") {
		return s
	}
	if strings.Contains(s, ":") {
		s = stamps.ReplaceAllString(s, "<time>")
	}
	return epochs.ReplaceAllStringFunc(s, func(d string) string {
		if nearNow(d) {
			return "<time>"
		}
		return d
	})
}

// nearNow reports whether digits are a moment of these days in seconds, or a finer unit, since 1970.
func nearNow(digits string) bool {
	if len(digits) < 10 {
		return false
	}
	n, err := strconv.ParseInt(digits[:10], 10, 64)
	if err != nil {
		return false
	}
	d := time.Since(time.Unix(n, 0))
	return d < 36*time.Hour && d > -36*time.Hour
}

// plain is v without moments; with strict false also without what names a request rather than a record.
func plain(v any, answer bool) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			low := strings.ToLower(k)
			if slices.Contains(passing, low) || answer && slices.Contains(replayed, low) {
				continue
			}
			out[k] = plain(e, answer)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plain(e, answer)
		}
		return out
	case string:
		s := timeless(v)
		if answer {
			s = spans.ReplaceAllString(s, "<span>")
		}
		return s
	case json.Number:
		if s := strings.ReplaceAll(v.String(), ".", ""); len(s) >= 10 && nearNow(s) {
			return "<time>"
		}
	}
	return v
}

// text is v as canonical JSON.
func text(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(b.String())
}

// short is v for a report.
func short(v any) string {
	s, ok := v.(string)
	if !ok {
		s = text(v)
	}
	return cut(s, 160)
}

func cut(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// shellLine is a command as one could type it.
func shellLine(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		if a == "" || strings.ContainsAny(a, " \t\n'\"$`\\*?&|;<>()#!") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		out[i] = a
	}
	return strings.Join(out, " ")
}
