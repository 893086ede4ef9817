package explain_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/internal/doctable"
	"github.com/holdfast-ai/holdfast/internal/explain"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/signal"
)

var update = flag.Bool("update", false, "write the tables of docs/decisions.md anew")

// command writes the table anew; the page names it.
const command = "go test ./internal/explain -run TestDocs -update"

func noEnv(string) (string, bool) { return "", false }

// corpus are the recorded failures that the signals are tested with.
func corpus(t *testing.T) []explain.Question {
	t.Helper()
	f, err := os.Open("../../signal/testdata/signals.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []explain.Question
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		_, a, err := signal.ParseAnswer(lines.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, explain.Question{Answer: a})
	}
	if err := lines.Err(); err != nil || len(all) < 200 {
		t.Fatalf("%d cases, %v", len(all), err)
	}
	return all
}

func ask(t *testing.T, cfg *policy.Config, q explain.Question) *explain.Explanation {
	t.Helper()
	x, err := explain.Explain(cfg, q)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return x
}

// row is what the default policy does with a provider's failures of one class.
type row struct {
	provider, class, treatment string
	seen                       []string
}

// TestDocs: the table of the documentation is what the code does with the corpus, case by case.
func TestDocs(t *testing.T) {
	doctable.Check(t, "../../docs/decisions.md", "<!-- table: begin ("+command+") -->\n", "<!-- table: end -->\n", table(t), *update, command)
}

func table(t *testing.T) string {
	cfg := policy.Default(noEnv)
	rows := map[[3]string]*row{}
	for _, q := range corpus(t) {
		if q.Answer.Provider == "bedrock" {
			continue // its format is none that the gateway speaks
		}
		generation := ask(t, cfg, q)
		last, external := q, q
		last.Attempt, external.Effect = 3, "external"
		r := row{provider: q.Answer.Provider, class: string(generation.Signal.Class), treatment: strings.Join([]string{
			next(generation), next(ask(t, cfg, external)), coolDown(generation), breakerWords[generation.Breaker], ask(t, cfg, last).Key}, " | ")}
		if q.Answer.Status == 0 {
			r.provider = "any, no response"
		}
		k := [3]string{r.provider, r.class, r.treatment}
		if rows[k] == nil {
			rows[k] = &r
		}
		if s := seenAs(&q.Answer); !slices.Contains(rows[k].seen, s) {
			rows[k].seen = append(rows[k].seen, s)
		}
	}
	return render(rows)
}

var breakerWords = map[string]string{"failure": "failure", "ignored": "–", "success": "success"}

func render(rows map[[3]string]*row) string {
	list := make([]*row, 0, len(rows))
	for _, r := range rows {
		slices.Sort(r.seen)
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.provider, b.provider), cmp.Compare(a.class, b.class), slices.Compare(a.seen, b.seen), cmp.Compare(a.treatment, b.treatment))
	})
	var out strings.Builder
	out.WriteString("| provider | class | seen as | a generation | an external call | the route's cool-down | its breaker | the key after the last attempt |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range list {
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", r.provider, r.class, strings.Join(r.seen, ", "), r.treatment)
	}
	return out.String()
}

func seenAs(a *signal.Answer) string {
	switch {
	case a.Transport != nil && a.Status == 0:
		return string(a.Transport.RequestBytesSent) + " sent"
	case a.Phase == signal.MidStream:
		return strconv.Itoa(a.Status) + " mid stream"
	}
	return strconv.Itoa(a.Status)
}

// next is what follows, in the table's words.
func next(x *explain.Explanation) string {
	d := &x.Decisions[0]
	switch {
	case d.Action == decision.Fail && d.Condition == decision.RetryAfterExceedsDeadline:
		return "fail: the wait is too long"
	case d.Action == decision.Done:
		return "done: passed on"
	case len(x.Decisions) > 1:
		return string(d.Action) + " or " + string(x.Decisions[1].Action)
	}
	return string(d.Action)
}

func coolDown(x *explain.Explanation) string {
	switch {
	case x.CoolDownMS == 0:
		return "–"
	case x.CoolDownMS == 24*3600*1000:
		return "24 h at most"
	}
	return "as asked"
}

// Over the whole corpus, in every circumstance: what is explained obeys the laws, and reads back from JSON.
func TestCorpus(t *testing.T) {
	cfg := policy.Default(noEnv)
	for _, q := range corpus(t) {
		for _, effect := range []string{"", "read", "generation", "external"} {
			q.Effect = effect
			x := ask(t, cfg, q)
			text, err := json.Marshal(q)
			if err != nil {
				t.Fatal(err)
			}
			var back explain.Question
			if err := json.Unmarshal(text, &back); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			a, _ := json.Marshal(x)
			if b, _ := json.Marshal(ask(t, cfg, back)); !bytes.Equal(a, b) {
				t.Errorf("read back from JSON:\n%s\n%s", a, b)
			}
			laws(t, &q, x)
		}
	}
}

func laws(t *testing.T, q *explain.Question, x *explain.Explanation) {
	t.Helper()
	share := 0
	for i := range x.Decisions {
		d := &x.Decisions[i]
		share += d.Share
		sends := d.Action == decision.Retry || d.Action == decision.Wait
		switch {
		case d.Rule == "" || d.Reason == "" || d.Words == "":
			t.Errorf("%+v", d)
		case d.MinDelayMS < 0 || d.MaxDelayMS < d.MinDelayMS:
			t.Errorf("a delay of %d to %d", d.MinDelayMS, d.MaxDelayMS)
		case sends && q.Answer.Phase == signal.MidStream:
			t.Errorf("%+v after visible output", d)
		case sends && x.Outcome == "unknown" && x.OnUnknown == "hold":
			t.Errorf("%+v of what is held", d)
		case x.Outcome == "unknown" && x.OnUnknown == "hold" && x.Key != "held":
			t.Errorf("the key of what is held is %s", x.Key)
		}
	}
	if len(x.Decisions) == 0 || share < 99 || share > 101 {
		t.Errorf("decisions %+v", x.Decisions)
	}
	// What Gemini itself calls complete is the client's to judge.
	complete := []string{"MALFORMED_FUNCTION_CALL", "empty_candidates"}
	if x.Outcome == "success" && x.Signal.Retryable && x.Effect != "read" && !slices.Contains(complete, x.Signal.ProviderErrorType) {
		t.Errorf("%+v passes for a success", *x.Signal)
	}
}
