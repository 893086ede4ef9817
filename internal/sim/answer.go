package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// answer is what one execution of a generation yields, before any wire format. It follows from the request, the step
// and the number of the execution alone.
type answer struct {
	n       int64
	q       *request
	model   string
	created time.Time
	text    string
	chunks  []string // of text, or of the call's arguments
	call    *toolCall
	finish  string // the step's own reason, "" for the usual one
	in, out int    // tokens
}

type toolCall struct{ name, args string }

// newAnswer makes the answer of execution n.
func newAnswer(q *request, st *Step, n int64, now time.Time) *answer {
	a := &answer{n: n, q: q, model: q.model, created: now, finish: st.Finish}
	if st.Model != "" {
		a.model = st.Model
	}
	content := ""
	if a.call = q.toolCall(st, n); a.call != nil {
		content = a.call.args
	} else {
		a.text = answerText(q, st, n)
		content = a.text
	}
	pieces := st.Chunks
	if pieces == 0 {
		pieces = 5
	}
	a.chunks = split(content, pieces)
	a.in, a.out = tokens(q.all), tokens(len(content))
	return a
}

// tokens is a plausible count: four bytes each.
func tokens(bytes int) int { return max(1, (bytes+3)/4) }

func answerText(q *request, st *Step, n int64) string {
	if st.Text != "" {
		return pad(strings.ReplaceAll(st.Text, "%N", fmt.Sprint(n)), st.Size)
	}
	if q.wantJSON {
		if q.schema.Exists() {
			return string(sample(q.schema, n))
		}
		return string(doc{"answer", n, "text", excerpt(q.text)}.bytes())
	}
	return pad(fmt.Sprintf("answer #%d to %q", n, excerpt(q.text)), st.Size)
}

func excerpt(s string) string {
	const most = 80
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

// pad fills text up to size bytes with words that tell where they stand, so that a lost or doubled piece shows.
func pad(text string, size int) string {
	if len(text) >= size {
		return text
	}
	var b strings.Builder
	b.Grow(size + 16)
	b.WriteString(text)
	for b.Len() < size {
		fmt.Fprintf(&b, " w%d", b.Len())
	}
	return b.String()[:size]
}

// split cuts s into at most n pieces of about one length, never inside a character. The empty string is no piece.
func split(s string, n int) []string {
	var out []string
	for ; n > 1 && len(s) > 0; n-- {
		k := max(1, len(s)/n)
		for k < len(s) && !utf8.RuneStart(s[k]) {
			k++
		}
		out = append(out, s[:k])
		s = s[k:]
	}
	if s != "" {
		out = append(out, s)
	}
	return out
}

// toolCall is the one that the request asks for: by tool_choice, by the step, or by naming the tool in the text.
func (q *request) toolCall(st *Step, n int64) *toolCall {
	if st.Tool != "" && len(st.ToolArgs) > 0 {
		return &toolCall{st.Tool, string(st.ToolArgs)}
	}
	for _, t := range q.tools {
		forced := q.choice == t.name || q.choice == "*"
		named := q.choice != "-" && !q.answered && t.name != "" && strings.Contains(q.text, t.name)
		if st.Tool == t.name || st.Tool == "" && (forced || named) {
			return &toolCall{t.name, string(sample(t.schema, n))}
		}
	}
	if st.Tool != "" {
		return &toolCall{st.Tool, "{}"}
	}
	return nil
}

// ident makes an id of the provider's shape that tells executions apart and follows from them alone.
func (a *answer) ident(prefix string, length int) string {
	return ident(prefix, length, a.n)
}

func ident(prefix string, length int, n int64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", prefix, n))
	tail := hex.EncodeToString(sum[:])
	return fmt.Sprintf("%ssim%d%s", prefix, n, tail)[:len(prefix)+length]
}
