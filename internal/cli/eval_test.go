package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/eval"
)

func ptr[T any](v T) *T { return &v }

func sampleReport() *eval.Report {
	return &eval.Report{File: "set.jsonl", Workflow: "chat", Lines: 2, Repeat: 1, Calls: 4, Made: 3, Stopped: eval.Interrupted,
		Tiers: []eval.Summary{
			{Tier: eval.Tier{Name: "pro", Model: "gpt-5"}, Calls: 2, OK: 2, SchemaChecked: 1, SchemaValid: 0, LatencyMS: eval.Quantiles{N: 2, P50: 900, P95: 1500},
				FirstMS: eval.Quantiles{N: 1, P50: 80, P95: 80}, CostUSD: 0.0005, MeanCostUSD: 0.0005, CostUnknown: 1, MeanChars: 20, MeanOutputTokens: 5},
			{Tier: eval.Tier{Name: "flash"}, Calls: 1, Errors: map[string]int{"cut": 1, "a\x1b[31m": 2}},
		},
		Results: []eval.Result{
			{Line: 1, ID: "first\n| x |", Tier: "pro", Run: 1, OK: true, Status: 200, Answer: "one\ntwo\t\x1b[2J<b>`x`|" + strings.Repeat("long ", 40), Stop: "stop", Attempts: 1,
				Chars: 230, OutputTokens: ptr[int64](50), CostUSD: ptr(0.0005), FirstMS: ptr[int64](80), LatencyMS: 1500},
			{Line: 1, Tier: "flash", Run: 1, Status: 503, Error: "overloaded", Message: "come back\nlater", Attempts: 3, LatencyMS: 12},
			{Line: 2, Tier: "pro", Run: 2, OK: true, Status: 200, ToolCall: true, Stop: "tool_calls", Attempts: 1, SchemaValid: ptr(false), SchemaFault: "no", LatencyMS: 900},
		}}
}

func TestEvalText(t *testing.T) {
	var out bytes.Buffer
	if err := evalText(&out, sampleReport()); err != nil {
		t.Fatal(err)
	}
	want := `set.jsonl:1 first?| x |
TIER   RESULT      SCHEMA  CHARS  TOKENS  COST       FIRST  LATENCY  TRIES  STOP  ANSWER
pro    ok          –       230    50      $0.000500  80ms   1.5s     1      stop  one two ?[2J<b>` + "`x`" + `|long long long long long long long long …
flash  overloaded  –       –      –       –          –      12ms     3      –     come back?later

set.jsonl:2
TIER    RESULT  SCHEMA   CHARS  TOKENS  COST  FIRST  LATENCY  TRIES  STOP        ANSWER
pro #2  ok      INVALID  0      –       –     –      900ms    1      tool_calls  (calls a tool)

set.jsonl, workflow chat: 3 calls of 4
TIER   MODEL  OK        SCHEMA  P50    P95   FIRST P50  COST                   MEAN       CHARS  TOKENS  ERRORS
pro    gpt-5  2/2 100%  0/1 0%  900ms  1.5s  80ms       $0.000500 (1 unknown)  $0.000500  20     5       –
flash  –      0/1 0%    –       –      –     –          –                      –          –      –       a?[31m (2), cut (1)
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestEvalMarkdown(t *testing.T) {
	var out bytes.Buffer
	if err := evalMarkdown(&out, sampleReport()); err != nil {
		t.Fatal(err)
	}
	columns := 0
	for line := range strings.Lines(out.String()) {
		switch n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); {
		case !strings.HasPrefix(line, "|"):
			columns = 0
		case columns == 0:
			columns = n
		case n != columns:
			t.Errorf("a row has other columns than its table: %s", line)
		}
		if strings.ContainsAny(line, "\x1b<") {
			t.Errorf("an answer is more than text: %q", line)
		}
	}
	for _, want := range []string{"## set.jsonl, workflow chat: 3 calls of 4\n", "### set.jsonl:1 first?\\| x \\|\n", strings.Repeat("long ", 39) + "long |\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
}
