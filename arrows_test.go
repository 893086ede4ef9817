package holdfast

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/holdfast-ai/holdfast"

// bans are the arrows that must not be: a package on the left, or one below it, imports nothing on the right
// (ARCHITECTURE.md; the mechanisms know no database, no wire and no page).
var bans = []struct {
	from   string
	to     []string
	reason string
}{
	{"ledger", []string{"intent", "internal/gateway", "internal/policy", "internal/provider"}, "the port knows nobody who stands on it"},
	{"intent", []string{"ledger/sqlite", "ledger/postgres", "internal/gateway", "internal/policy", "internal/provider", "internal/telemetry", "net/http"},
		"the log knows its port only"},
	{"idempotency", []string{"ledger", "intent", "internal/gateway", "internal/policy", "internal/provider", "net/http"},
		"keys are a pure function of the request"},
	{"cache", []string{"ledger", "intent", "internal/gateway", "internal/policy", "internal/provider", "internal/embed", "net/http"},
		"an index over answers knows neither who keeps them nor what wire they came by"},
	{"internal/embed", []string{"ledger", "intent", "internal/gateway", "internal/provider"}, "an embedder turns a text into a vector and keeps nothing"},
	{"signal", []string{"ledger", "intent", "internal/gateway", "internal/policy", "internal/provider"}, "a signal is a pure function of the answer"},
	{"translate", []string{"ledger", "intent", "signal", "internal/gateway", "internal/policy", "internal/provider", "net/http"},
		"a translation is a pure function of the bytes"},
	{"internal/provider", []string{"ledger", "intent", "internal/gateway", "internal/policy"}, "wire formats decide nothing"},
	{"breaker", []string{"ledger", "intent", "signal", "internal/gateway", "internal/policy", "internal/provider", "internal/route", "net/http"},
		"a mechanism knows no database, wire or page, and not what a result means"},
	{"internal/route", []string{"ledger", "intent", "signal", "internal/gateway", "internal/policy", "internal/provider", "net/http"},
		"a route knows of the log no more than its cool-downs, and not what an answer means"},
	{"internal/shared", []string{"ledger", "intent", "internal/gateway", "internal/policy", "internal/provider", "internal/route", "net/http"},
		"what replicas share is counts, whatever they are of"},
	{"internal/sse", []string{"ledger", "intent", "internal/gateway", "internal/policy", "internal/provider"}, "a parser"},
	{"internal/canon", []string{"ledger", "intent", "internal/gateway", "internal/policy", "internal/provider"}, "a parser"},
	{"bulkhead", []string{"ledger", "intent", "signal", "internal/gateway", "internal/policy", "internal/provider", "net/http"}, "a semaphore counts calls of any kind"},
	{"spend", []string{"ledger", "intent", "internal/gateway", "internal/policy", "internal/provider", "net/http"},
		"spend counts money, and knows neither calls nor where they are on record"},
	{"queue", []string{"ledger/sqlite", "ledger/postgres", "internal/gateway", "internal/policy", "internal/provider", "internal/route", "net/http"},
		"a queue knows the log and its port, and not what a job sends"},
	{"retry", []string{"ledger", "intent", "signal", "internal/gateway", "internal/policy", "internal/provider", "net/http"}, "a delay is a pure function of the failures"},
	{"deadline", []string{"ledger", "intent", "signal", "internal/gateway", "internal/policy", "internal/provider", "net/http"}, "a budget is a value"},
	{"fallback", []string{"ledger", "intent", "decision", "signal", "internal/gateway", "internal/policy", "internal/provider", "internal/route", "net/http"},
		"a contract is a pure function of its facts, whatever failed"},
	{"decision", []string{"ledger", "intent", "internal/gateway", "internal/policy", "internal/provider", "internal/route", "net/http"}, "a decision is a pure function of its facts"},
	{"internal/policy", []string{"ledger", "intent", "internal/gateway", "internal/telemetry"}, "a policy is data"},
	{"internal/filewatch", []string{"ledger", "intent", "internal/gateway", "internal/policy"}, "it knows files, not what stands in them"},
	{"internal/callback", []string{"ledger", "intent", "internal/gateway", "internal/policy", "internal/provider"}, "a sender knows an address and a body, and not what they tell"},
	{"internal/fleet", []string{"intent", "internal/gateway", "internal/policy", "internal/provider", "internal/route", "internal/admin"},
		"replicas know the port of their store, and not what they say to each other"},
	{"internal/upstream", []string{"ledger", "intent", "internal/gateway", "internal/policy", "internal/provider"}, "a connection"},
	{"internal/gateway", []string{"ledger/sqlite", "ledger/postgres", "internal/telemetry", "internal/admin", "internal/cli", "internal/sim"},
		"the data plane knows no driver, and telemetry only as an Observer"},
	{"internal/mcp", []string{"ledger/sqlite", "ledger/postgres", "internal/gateway", "internal/provider", "internal/telemetry", "internal/admin", "internal/cli", "internal/sim"},
		"the MCP proxy knows no driver, and telemetry only as an Observer"},
	{"internal/sim", []string{"ledger", "intent", "internal/gateway", "internal/policy", "internal/upstream"},
		"the far side of our tests shares no code with what it tests"},
	{"internal/reconcile", []string{"ledger/sqlite", "ledger/postgres", "internal/gateway", "internal/admin", "internal/cli", "internal/telemetry"},
		"evidence is read by the port, and moves nothing by itself"},
	{"internal/demo", []string{"internal/gateway", "internal/policy", "ledger", "intent"}, "the demo sees what a user sees: processes"},
	{"internal/audit", []string{"internal/gateway", "internal/policy", "ledger", "intent"}, "the audit sees what a client sees"},
	{"internal/proc", []string{"internal/gateway", "internal/policy", "ledger", "intent"}, "processes are run, not linked"},
	{"internal/explain", []string{"ledger/sqlite", "ledger/postgres", "internal/admin", "internal/cli", "internal/sim", "internal/telemetry"}, "an explanation is a pure function of a policy and a question"},
	{"internal/eval", []string{"internal/admin", "internal/cli", "internal/sim", "internal/telemetry"}, "an evaluation asks and counts; what is said of it is the command's"},
	{"internal/admin", []string{"ledger/sqlite", "ledger/postgres", "internal/cli", "internal/sim"}, "the API knows no driver"},
}

// standardOnly import the standard library and their like alone, so that any program can take them in.
var standardOnly = []string{"ledger", "intent", "idempotency", "cache", "signal", "internal/canon", "internal/redact", "internal/sse", "internal/mutant", "internal/budget", "internal/callback", "internal/fleet", "internal/pause", "internal/upstream", "breaker", "spend", "bulkhead", "queue", "retry", "deadline", "decision", "fallback", "translate", "internal/route"}

type pkg struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, module+"/"+dir)
	return ok && (rest == "" || rest[0] == '/')
}

func TestArrows(t *testing.T) {
	all := packages(t)
	if len(all) < 15 {
		t.Fatalf("only %d packages listed", len(all))
	}
	for _, ban := range bans {
		found := false
		for _, p := range all {
			if !within(p.ImportPath, ban.from) || driver(p.ImportPath) && ban.from == "ledger" {
				continue
			}
			found = true
			for _, to := range ban.to {
				for _, imported := range p.Imports {
					if imported == to || within(imported, to) {
						t.Errorf("%s imports %s: %s", p.ImportPath, imported, ban.reason)
					}
				}
			}
		}
		if !found {
			t.Errorf("no package %s: the ban holds nothing", ban.from)
		}
	}
}

// driver packages stand beside the port and may use what they drive.
func driver(path string) bool {
	return within(path, "ledger/sqlite") || within(path, "ledger/postgres") || within(path, "ledger/spread") || within(path, "ledger/internal") || within(path, "ledger/ledgertest")
}

func TestCoreImportsStandardLibraryOnly(t *testing.T) {
	all := packages(t)
	for _, dir := range standardOnly {
		found := false
		for _, p := range all {
			if p.ImportPath != module+"/"+dir {
				continue
			}
			found = true
			for _, imported := range p.Imports {
				first, _, _ := strings.Cut(imported, "/")
				if strings.Contains(first, ".") && !strings.HasPrefix(imported, module+"/") {
					t.Errorf("%s imports %s", p.ImportPath, imported)
				}
			}
		}
		if !found {
			t.Errorf("no package %s", dir)
		}
	}
}
