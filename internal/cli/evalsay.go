package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/eval"
)

const (
	maxAnswer = 60 // characters of an answer in a table
	maxWord   = 40 // … of a word of a stranger's
)

// evalColumns are those of a result, the answer last.
var evalColumns = []string{"TIER", "RESULT", "SCHEMA", "CHARS", "TOKENS", "COST", "FIRST", "LATENCY", "TRIES", "STOP", "ANSWER"}

// summaryColumns are those of a tier's summary.
var summaryColumns = []string{"TIER", "MODEL", "OK", "SCHEMA", "P50", "P95", "FIRST P50", "COST", "MEAN", "CHARS", "TOKENS", "ERRORS"}

// evalText writes the results of each line side by side, and a summary.
func evalText(out io.Writer, r *eval.Report) error {
	for _, rows := range byLine(r) {
		if _, err := fmt.Fprintln(out, lineTitle(r, &rows[0])); err != nil {
			return err
		}
		if err := aligned(out, evalColumns, resultRows(rows, maxAnswer)); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(out, evalTitle(r)); err != nil {
		return err
	}
	return aligned(out, summaryColumns, summaryRows(r))
}

func aligned(out io.Writer, columns []string, rows [][]string) error {
	return table(out, func(w io.Writer) {
		for _, row := range append([][]string{columns}, rows...) {
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
	})
}

// evalMarkdown writes the summary first, as a page is read.
func evalMarkdown(out io.Writer, r *eval.Report) error {
	if _, err := fmt.Fprintf(out, "## %s\n\n", markdownCell(evalTitle(r))); err != nil {
		return err
	}
	if err := markdownTable(out, summaryColumns, summaryRows(r)); err != nil {
		return err
	}
	for _, rows := range byLine(r) {
		if _, err := fmt.Fprintf(out, "\n### %s\n\n", markdownCell(lineTitle(r, &rows[0]))); err != nil {
			return err
		}
		if err := markdownTable(out, evalColumns, resultRows(rows, 0)); err != nil {
			return err
		}
	}
	return nil
}

func markdownTable(out io.Writer, columns []string, rows [][]string) error {
	var b strings.Builder
	row := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + markdownCell(c) + " ")
		}
		b.WriteString("|\n")
	}
	var heads []string
	for _, c := range columns {
		heads = append(heads, strings.ToLower(c))
	}
	row(heads)
	b.WriteString(strings.Repeat("|---", len(columns)) + "|\n")
	for _, cells := range rows {
		row(cells)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// markdownSigns are what could make more of an answer than text.
var markdownSigns = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "~", `\~`)

func markdownCell(s string) string { return markdownSigns.Replace(s) }

// byLine are the results of each line.
func byLine(r *eval.Report) (lines [][]eval.Result) {
	for i := range r.Results {
		if i == 0 || r.Results[i].Line != r.Results[i-1].Line {
			lines = append(lines, nil)
		}
		last := len(lines) - 1
		lines[last] = append(lines[last], r.Results[i])
	}
	return lines
}

func lineTitle(r *eval.Report, v *eval.Result) string {
	title := fmt.Sprintf("%s:%d", clean(r.File, 0), v.Line)
	if v.ID != "" {
		title += " " + clean(v.ID, maxWord)
	}
	return title
}

func evalTitle(r *eval.Report) string {
	title := fmt.Sprintf("%s, workflow %s: %s", clean(r.File, 0), r.Workflow, plural(r.Made, "call"))
	if r.Made < r.Calls {
		title += fmt.Sprintf(" of %d", r.Calls)
	}
	return title
}

func resultRows(results []eval.Result, most int) (rows [][]string) {
	for i := range results {
		v := &results[i]
		tier := v.Tier
		if v.Run > 1 {
			tier += " #" + strconv.Itoa(v.Run)
		}
		row := []string{tier, "ok", schemaWord(v), "–", tokensWord(v.OutputTokens), costWord(v.CostUSD), millis(v.FirstMS),
			span(time.Duration(v.LatencyMS) * time.Millisecond), strconv.Itoa(v.Attempts), or(clean(v.Stop, maxWord)), ""}
		if v.OK {
			row[3], row[10] = strconv.Itoa(v.Chars), answerWords(v, most)
		} else {
			row[1], row[10] = clean(v.Error, maxWord), or(clean(v.Message, 5*maxAnswer))
		}
		rows = append(rows, row)
	}
	return rows
}

// answerWords is an answer in one line; what is wrong with it goes before.
func answerWords(v *eval.Result, most int) string {
	text := clean(strings.Join(strings.Fields(v.Answer), " "), most)
	switch {
	case v.ToolCall && text == "":
		return "(calls a tool)"
	case v.SchemaFault != "":
		return "(" + clean(v.SchemaFault, 2*maxAnswer) + ") " + text
	}
	return or(text)
}

func schemaWord(v *eval.Result) string {
	switch {
	case v.SchemaValid == nil:
		return "–"
	case *v.SchemaValid:
		return "valid"
	}
	return "INVALID"
}

func tokensWord(n *int64) string {
	if n == nil {
		return "–"
	}
	return strconv.FormatInt(*n, 10)
}

func costWord(usd *float64) string {
	if usd == nil {
		return "–"
	}
	return cost(*usd)
}

// cost shows what a single call costs, which may be less than a hundredth of a cent.
func cost(usd float64) string {
	if usd > 0 && usd < 0.01 {
		return fmt.Sprintf("$%.6f", usd)
	}
	return fmt.Sprintf("$%.4f", usd)
}

func millis(n *int64) string {
	if n == nil {
		return "–"
	}
	return span(time.Duration(*n) * time.Millisecond)
}

func summaryRows(r *eval.Report) (rows [][]string) {
	for i := range r.Tiers {
		t := &r.Tiers[i]
		row := []string{t.Name, or(t.Model), share(t.OK, t.Calls), share(t.SchemaValid, t.SchemaChecked), quantile(t.LatencyMS, t.LatencyMS.P50),
			quantile(t.LatencyMS, t.LatencyMS.P95), quantile(t.FirstMS, t.FirstMS.P50), "–", "–", "–", "–", or(errorWords(t.Errors))}
		if known := t.OK - t.CostUnknown; known > 0 {
			row[7], row[8] = cost(t.CostUSD), cost(t.MeanCostUSD)
			if t.CostUnknown > 0 {
				row[7] += fmt.Sprintf(" (%d unknown)", t.CostUnknown)
			}
		}
		if t.OK > 0 {
			row[9], row[10] = fmt.Sprintf("%.0f", t.MeanChars), fmt.Sprintf("%.0f", t.MeanOutputTokens)
		}
		rows = append(rows, row)
	}
	return rows
}

// share is a part with its whole, since a per cent of three says little.
func share(n, of int) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%d/%d %d%%", n, of, n*100/of)
}

func quantile(q eval.Quantiles, ms int64) string {
	if q.N == 0 {
		return "–"
	}
	return span(time.Duration(ms) * time.Millisecond)
}

func errorWords(errs map[string]int) string {
	var words []string
	for _, code := range slices.Sorted(maps.Keys(errs)) {
		words = append(words, fmt.Sprintf("%s (%d)", clean(code, maxWord), errs[code]))
	}
	return strings.Join(words, ", ")
}
