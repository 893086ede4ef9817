package demo

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Sequences for a terminal.
const (
	boldOn   = "\x1b[1m"
	dimOn    = "\x1b[2m"
	greenOn  = "\x1b[32m"
	redOn    = "\x1b[31m"
	styleOff = "\x1b[0m"
)

// coloured says that somebody watches who wants colours (no-color.org).
func coloured(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func style(out io.Writer, on, text string) string {
	if !coloured(out) {
		return text
	}
	return on + text + styleOff
}

func bold(out io.Writer, text string) string { return style(out, boldOn, text) }

func (s *stage) say(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

// width is that of the prose.
const width = 100

// paragraph prints text, broken into lines, under an indent.
func (s *stage) paragraph(first, rest, text string) {
	line := first
	for word := range strings.FieldsSeq(text) {
		if line != first && line != rest {
			if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
				s.say("%s\n", line)
				line = rest
			} else {
				line += " "
			}
		}
		line += word
	}
	s.say("%s\n", line)
}

// open begins a scene.
func (s *stage) open(c scene) {
	s.say("\n%s\n", bold(s.out, c.title))
	s.paragraph("  ", "  ", c.plot)
}

// see prints what somebody in the scene sees.
func (s *stage) see(who string, lines ...string) {
	s.say("  %s\n", style(s.out, dimOn, who))
	for _, line := range lines {
		s.say("  %s\n", style(s.out, dimOn, strings.TrimRight("│ "+line, " ")))
	}
}

// close ends a scene.
func (s *stage) close(c scene, op *Operation) {
	s.say("  client: %s\n", op.Client)
	s.paragraph("  → ", "    ", c.moral)
	for _, b := range op.Broken {
		s.say("  %s\n", style(s.out, redOn, "NOT AS PROMISED: "+b))
	}
}

// sum prints the table and the verdict.
func (s *stage) sum(r *Report) {
	s.say("\n")
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "operation\tcalls\teffects\tas promised\twithout Holdfast")
	for _, op := range r.Operations {
		word := "yes"
		if op.Broken != nil {
			word = fmt.Sprintf("NO, %d and %d", op.WantCalls, op.WantEffects)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", op.Name, op.Calls, op.Effects, word, op.Without)
	}
	_ = w.Flush() // a strings.Builder takes everything
	head, rows, _ := strings.Cut(table.String(), "\n")
	s.say("%s\n%s\n", bold(s.out, head), rows)
	switch {
	case r.AsPromise:
		s.say("%s The log passes `holdfast store verify`. %d.%d s.\n",
			style(s.out, greenOn, "Every figure is as promised."), r.TookMS/1000, r.TookMS%1000/100)
		s.say("Next: `holdfast serve`, and point an SDK's base URL at http://127.0.0.1:8787.\n")
	case r.Store != "":
		s.say("%s\n%s\n", style(s.out, redOn, "NOT AS PROMISED: the log is wrong."), r.Store)
	default:
		s.say("%s\n", style(s.out, redOn, "NOT AS PROMISED. This is a defect; please report it with the lines above."))
	}
}

// lastEvents are the last lines of a stream, cut to what fits.
func lastEvents(body []byte, n int) []string {
	var lines []string
	for line := range bytes.Lines(body) {
		if text := strings.TrimSpace(string(line)); text != "" {
			if r := []rune(text); len(r) > width {
				text = string(r[:width-1]) + "…"
			}
			lines = append(lines, text)
		}
	}
	return lines[max(0, len(lines)-n):]
}
