package audit

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Markdown writes the report as a page: a table, then the evidence of each finding.
func (r *Report) Markdown(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Double-send audit of %s\n\n", safe(r.Server))
	fmt.Fprintf(&b, "`%s`, %s, in %.0f s. %s.\n\n", code(r.Target), r.Started.Format("2006-01-02 15:04:05Z"), r.Seconds, r.Summary())
	b.WriteString("| tool | verdict | what happened | hints |\n|---|---|---|---|\n")
	for _, t := range r.Tools {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", code(t.Name), bold(t.Verdict), safe(t.Says), t.Hints)
	}
	r.compared(&b)
	for _, t := range r.Tools {
		t.markdown(&b)
	}
	if r.Through != nil {
		b.WriteString("\n# Through the proxy\n")
		for _, t := range r.Through.Tools {
			t.markdown(&b)
		}
	}
	fmt.Fprintf(&b, "\n## How it was seen\n\nStates were compared by: %s. Repeats were sent twice in sequence, twice at once, after a lost reply, after a call that was given up while it ran, and %gs or more later: a deduplication that is forgotten after more than that was not seen to be.\n", listing(r.Readers), r.Late)
	if len(r.Moving) > 0 {
		fmt.Fprintf(&b, "\nThese parts change although nobody writes, and were left out: %s.\n", listing(r.Moving))
	}
	r.ends(&b)
	if len(r.Left) > 0 {
		b.WriteString("\n## What the audit left behind\n\n")
		for _, l := range r.Left {
			fmt.Fprintf(&b, "- %s\n", safe(cut(l, 200)))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// ends says when the server ended by itself, without the proxy and with it.
func (r *Report) ends(b *strings.Builder) {
	for _, r := range []*Report{r, r.Through} {
		if r == nil || len(r.Ended) == 0 {
			continue
		}
		fmt.Fprintf(b, "\nThe server ended by itself %s, and was started again:\n\n", plural(len(r.Ended), "time"))
		for _, e := range r.Ended {
			fmt.Fprintf(b, "- %s\n", safe(e.String()))
		}
	}
}

// compared is a table of the verdicts without the proxy and with it.
func (r *Report) compared(b *strings.Builder) {
	if r.Through == nil {
		return
	}
	mended, still := r.Mended()
	fmt.Fprintf(b, "\n## What the proxy changes\n\n%s mended, %d not.\n\n| tool | without | through the proxy |\n|---|---|---|\n", plural(len(mended), "tool"), len(still))
	for _, t := range r.Tools {
		if after, ok := r.Through.find(t.Name); ok {
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", code(t.Name), bold(t.Verdict), bold(after.Verdict))
		}
	}
}

func (t ToolReport) markdown(b *strings.Builder) {
	if !t.Verdict.Bad() && t.Verdict != CannotTell {
		return
	}
	fmt.Fprintf(b, "\n## `%s`: %s\n\n", code(t.Name), t.Verdict)
	for _, n := range t.Notes {
		fmt.Fprintf(b, "%s.\n", safe(upper(n)))
	}
	for _, f := range t.Findings {
		if f.Verdict == Safe {
			continue
		}
		fmt.Fprintf(b, "\n**%s** — %s: %s\n\n", f.Probe, f.Verdict, safe(f.Says))
		if f.Args != nil {
			fmt.Fprintf(b, "- arguments: `%s`\n", code(cut(text(f.Args), 300)))
		}
		for _, e := range f.Evidence {
			fmt.Fprintf(b, "- %s\n", safe(e))
		}
	}
}

// Summary is the count of each verdict in a line.
func (r *Report) Summary() string {
	parts := []string{plural(len(r.Tools), "write tool")}
	for _, v := range severity {
		if n := r.Count(v); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	return strings.Join(parts, ", ")
}

// String is the hints as a list, the default ones left out.
func (h Hints) String() string {
	return fmt.Sprintf("readOnly %s, idempotent %s, destructive %s", h.ReadOnly, h.Idempotent, h.Destructive)
}

func bold(v Verdict) string {
	if v.Bad() {
		return "**" + string(v) + "**"
	}
	return string(v)
}

// safe keeps a server's words from being markup, and from moving a terminal's cursor.
func safe(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "`", "'").Replace(printable(s))
}

func code(s string) string { return strings.NewReplacer("`", "'", "|", `\|`).Replace(printable(s)) }

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func listing(names []string) string {
	if len(names) == 0 {
		return "nothing, for there is neither a read tool nor a resource"
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = "`" + code(n) + "`"
	}
	return strings.Join(quoted, ", ")
}
