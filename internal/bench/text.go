package bench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteText prints the report for people: one table per part.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %d cores, %.1f s per figure and contender\n", r.Go, r.Platform, r.Cores, float64(r.DurationMS)/1e3)
	if r.Pinned {
		b.WriteString("the process in the middle has a core of its own; simulator and load share the others\n")
	}
	part := ""
	var table *tabwriter.Writer
	for _, f := range r.Figures {
		if f.Part != part {
			if table != nil {
				_ = table.Flush() // into a builder
			}
			part = f.Part
			fmt.Fprintf(&b, "\n%s: %s\n", part, r.titles[part])
			table = tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
			fmt.Fprintf(table, "  \tdirect\treference\tholdfast\tratio\ttarget\t\n")
		}
		f.write(table)
	}
	if table != nil {
		_ = table.Flush()
	}
	r.summary(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (f Figure) write(w io.Writer) {
	name := f.Name
	if f.Unit != "/s" {
		name += " (" + f.Unit + ")"
	}
	reference := f.Reference.text()
	if f.ReferenceName != reverseProxy && f.ReferenceName != "" {
		reference += " " + f.ReferenceName
	}
	verdict := f.Target
	if f.Met != nil {
		verdict += map[bool]string{true: "  met", false: "  MISSED"}[*f.Met]
	}
	if f.Note != "" {
		verdict = strings.TrimSpace(verdict + "  (" + f.Note + ")")
	}
	ratio := "–"
	if r := float64(f.Ratio); !math.IsNaN(r) && !math.IsInf(r, 0) {
		ratio = strconv.FormatFloat(r, 'f', 2, 64)
	}
	fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\t\n", name, f.Direct.text(), reference, f.Holdfast.text(), ratio, verdict)
}

// text is the value in three or more digits.
func (v Value) text() string {
	x := float64(v)
	switch {
	case math.IsNaN(x):
		return "–"
	case math.Abs(x) < 99.95:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	s := strconv.FormatFloat(math.Abs(x), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if x < 0 {
		s = "-" + s
	}
	return s
}

func (r *Report) summary(b *strings.Builder) {
	met, missed := 0, 0
	for _, f := range r.Figures {
		switch {
		case f.Met == nil:
		case *f.Met:
			met++
		default:
			missed++
		}
	}
	fmt.Fprintf(b, "\ntargets: %d met, %d missed. Absolute figures are this machine's; the ratios are what counts.\n", met, missed)
}
