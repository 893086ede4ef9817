package explain_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/decision"
	"github.com/holdfast-ai/holdfast/internal/explain"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/signal"
)

// ends are how an attempt may end, as a provider or a network has it, by the column of the table.
var ends = map[string]signal.Answer{
	"429 for 2 s": {Status: 429, Header: map[string][]string{"Retry-After": {"2"}}},
	"429 for 1 h": {Status: 429, Header: map[string][]string{"Retry-After": {"3600"}}},
	"quota": {Status: 429, Header: map[string][]string{"Content-Type": {"application/json"}},
		Body: []byte(`{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"You exceeded your current quota"}}`)},
	"503":      {Status: 503},
	"time-out": {Phase: signal.NoResponse, Transport: &signal.Transport{Error: "timeout", RequestBytesSent: signal.SentAll}},
	"refused":  {Phase: signal.NoResponse, Transport: &signal.Transport{Error: "ECONNREFUSED", RequestBytesSent: signal.SentNone}},
	"cut after the first token": {Status: 200, Phase: signal.MidStream, Header: map[string][]string{"Content-Type": {"text/event-stream"}},
		Transport: &signal.Transport{Error: "ECONNRESET", RequestBytesSent: signal.SentAll, ResponseBytes: 900}},
}

const examples = "../../examples/policies/"

// The table of examples/policies/README.md is what the policies do, cell by cell.
func TestExamplePolicies(t *testing.T) {
	readme, err := os.ReadFile(examples + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(readme)) {
		if cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|"); len(cells) == len(ends)+1 {
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	files, err := filepath.Glob(examples + "*.yaml")
	if err != nil || len(files) != 6 || len(rows) != len(files)+2 {
		t.Fatalf("%d policies, a table of %d rows: %v", len(files), len(rows), err)
	}
	for _, row := range rows[2:] {
		name := row[0][strings.Index(row[0], "[")+1 : strings.Index(row[0], "]")]
		cfg, faults := policy.Load(examples+name+".yaml", noEnv)
		if cfg == nil {
			t.Fatal(faults)
		}
		for i, want := range row[1:] {
			end, known := ends[rows[0][i+1]]
			if !known {
				t.Fatalf("no end is called %q", rows[0][i+1])
			}
			if got := follows(t, cfg, end); want != "–" && got != want {
				t.Errorf("%s, %s: the table says %q, the policy does %q", name, rows[0][i+1], want, got)
			}
		}
	}
}

// follows is what a policy's workflow makes of an end, as the table has it.
func follows(t *testing.T, cfg *policy.Config, end signal.Answer) string {
	t.Helper()
	q := explain.Question{Answer: end}
	q.Answer.ReceivedAt = time.Unix(1.8e9, 0)
	q.Workflow = cfg.Workflows[0].Name
	if q.Workflow == "media_generation" {
		q.Path = "/v1/images/generations"
	}
	x, err := explain.Explain(cfg, q)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, d := range x.Decisions {
		word := string(d.Action)
		if d.Condition != "" && d.Action == decision.Fail {
			word += " `" + string(d.Condition) + "`"
		}
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return strings.Join(words, " or ")
}

// All of them in one folder, as the README says to copy them, leave each other's calls alone: media is found by its path, the
// others by their names, and a call that names none goes by the default.
func TestExamplePoliciesTogether(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "policies"), os.DirFS(examples)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "holdfast.yaml")
	if err := os.WriteFile(file, []byte("policies: policies/*.yaml\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, faults := policy.Load(file, noEnv)
	if cfg == nil {
		t.Fatal(faults)
	}
	const chat, images = "/v1/chat/completions", "/v1/images/generations"
	for _, c := range []struct{ path, model, want string }{
		{images, "", "media_generation"}, {"/v1/images/edits", "", "media_generation"}, {"/v1/videos", "", "media_generation"},
		{chat, "gpt-5", "default"}, {"/v1/messages", "claude-opus-4-5", "default"}, {"/v1/responses", "gpt-5", "default"},
		{"/v1/embeddings", "text-embedding-3-small", "default"},
	} {
		if w := cfg.Match(c.path, c.model, nil); w.Name != c.want {
			t.Errorf("%s goes by %s, not by %s", c.path, w.Name, c.want)
		}
	}
	files, _ := filepath.Glob(examples + "*.yaml")
	for _, f := range files {
		name := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(f), ".yaml"), "-", "_")
		if w := cfg.Workflow(name); w == nil {
			t.Errorf("no call can name %s", name)
		} else if got := cfg.Match(chat, "gpt-5", map[string][]string{"Holdfast-Workflow": {name}}); got != w && name != "media_generation" {
			t.Errorf("a chat call that names %s goes by %s", name, got.Name)
		}
	}
}

// A route that would change ends an evaluation; only the policy says so, and only of what it wrote.
func TestExamplePoliciesNeverFallBack(t *testing.T) {
	for _, name := range []string{"evaluations", "media-generation", "regulated-review", "chat-after-first-token"} {
		cfg, faults := policy.Load(examples+name+".yaml", noEnv)
		if cfg == nil {
			t.Fatal(faults)
		}
		if w := cfg.Workflows[0]; w.Fallback.AllowedBeforeFirstToken || len(w.Tiers) > 1 {
			t.Errorf("%s may fall back", name)
		}
	}
	cfg, _ := policy.Load(examples+"media-generation.yaml", noEnv)
	for _, path := range []string{"/v1/images/generations", "/v1/videos", "/v1/videos/v_1/remix"} {
		if w := cfg.Match(path, "", nil); w.Name != "media_generation" || w.UnknownRule(false) != policy.HoldUnknown || w.Approval != "dispatch" {
			t.Errorf("%s goes by %s", path, w.Name)
		}
	}
}
