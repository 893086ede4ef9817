package holdfast

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/internal/telemetry"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
)

// row is a line of a table in Markdown, without its bars.
func row(line string) []string {
	cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// table returns the rows between <!-- name --> and the next empty line.
func table(t *testing.T, page, name string) [][]string {
	t.Helper()
	_, rest, found := strings.Cut(readFile(t, page), "<!-- "+name+" -->\n")
	if !found {
		t.Fatalf("%s has no <!-- %s -->", page, name)
	}
	rest, _, _ = strings.Cut(rest, "\n\n")
	lines := strings.Split(strings.TrimSpace(rest), "\n")
	var out [][]string
	for _, line := range lines[2:] {
		out = append(out, row(line))
	}
	return out
}

// TestErrorTableIsTheCode compares docs/errors.md with the table in the gateway.
func TestErrorTableIsTheCode(t *testing.T) {
	code := errorClasses(t)
	for _, cells := range table(t, "docs/errors.md", "errors") {
		for name := range strings.SplitSeq(cells[0], ", ") {
			name = strings.Trim(name, "`")
			want, ok := code[name]
			if !ok {
				t.Errorf("docs/errors.md has %s, the gateway has not", name)
				continue
			}
			delete(code, name)
			if got := [4]string{cells[1], cells[3], cells[4], cells[5]}; got != want {
				t.Errorf("%s: docs say (status, x-should-retry, Retry-After, safe) %q, the gateway %q", name, got, want)
			}
		}
	}
	for name := range code {
		t.Errorf("docs/errors.md lacks %s", name)
	}
}

// errorClasses reads the gateway's table of codes as its source has it: code to status, x-should-retry,
// Retry-After, safe.
func errorClasses(t *testing.T) map[string][4]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "internal/gateway/error.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{} // CodeX to its text
	out := map[string][4]string{}
	waits := map[string]string{"noWait": "–", "shortWait": "1–5 s", "jitterWait": "1–3 s"}
	safe := map[string]string{"safeYes": "yes", "safeNo": "no", "safeAfter": "after-reconcile", `""`: "by effect"}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok && strings.HasPrefix(spec.Names[0].Name, "Code") {
			names[spec.Names[0].Name], _ = strconv.Unquote(lit.Value)
		}
		if spec.Names[0].Name != "classes" {
			return true
		}
		for _, e := range spec.Values[0].(*ast.CompositeLit).Elts {
			pair := e.(*ast.KeyValueExpr)
			f := pair.Value.(*ast.CompositeLit).Elts
			out[names[word(pair.Key)]] = [4]string{word(f[0]), word(f[1]), waits[word(f[2])], safe[word(f[3])]}
		}
		return true
	})
	for _, code := range []string{"rate_limited", "circuit_open"} { // Error.again and Error.Wait decide
		c := out[code]
		c[1], c[2] = "if the wait ≤ 8 s", "what remains"
		out[code] = c
	}
	if len(out) < 10 {
		t.Fatalf("only %d codes read from the gateway's table", len(out))
	}
	return out
}

func word(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.BasicLit:
		return e.Value
	}
	return ""
}

// TestMetricsListIsTheCode makes every instrument speak once and compares names and labels with docs/operations.md.
func TestMetricsListIsTheCode(t *testing.T) {
	m, err := telemetry.New()
	if err != nil {
		t.Fatal(err)
	}
	m.Request(gateway.Request{Workflow: "w", Took: time.Second})
	m.Lookup("w")
	m.Duplicate("w", "settled")
	m.StoreError("w")
	m.Attempt(gateway.Attempt{Workflow: "w", End: ledger.AttemptFailed})
	m.Retry("w", "503")
	m.Bulkhead("w", "t", true)
	m.Fallback("w", "t", "u", "overloaded")
	m.Bulkhead("w", "t", false)
	m.CacheHit("w", "template")
	m.CacheMiss("w", "semantic", "no_vector")
	m.Unkept("w", "no_vector")
	m.Refused("r")
	m.SharedUp(true)
	m.SharedCall("slots", time.Millisecond, false)
	m.SharedLocal("slots")
	m.Routes(func() []route.Info { return []route.Info{{Route: "r", Pressure: route.Pressure{Level: route.Reduced}}} })
	m.Lanes(func() map[string]queue.Lane { return map[string]queue.Lane{intent.LaneBackground: {}} })
	m.Breaker("r", breaker.Change{From: breaker.Closed, To: breaker.Open})
	head := &ledger.Intent{Workflow: "w"}
	m.Change(intent.Change{Head: head, From: ledger.Dispatched, To: ledger.Unknown})
	m.Change(intent.Change{Head: head, From: ledger.Unknown, To: ledger.Confirmed})

	have := exposition(t, m)
	for _, cells := range table(t, "docs/operations.md", "metrics") {
		name := strings.Trim(cells[0], "`")
		labels, ok := have[name]
		if !ok {
			t.Errorf("docs/operations.md has %s, /metrics has not", name)
			continue
		}
		delete(have, name)
		if cells[2] != labels {
			t.Errorf("%s: docs say labels %q, /metrics %q", name, cells[2], labels)
		}
	}
	for name := range have {
		t.Errorf("docs/operations.md lacks %s", name)
	}
}

// exposition returns the instruments that m serves, each with its labels in order.
func exposition(t *testing.T, m *telemetry.Meter) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), "GET", "/metrics", nil))
	out := map[string]string{}
	sample := regexp.MustCompile(`^(holdfast_[a-z_]+?)(_bucket|_sum|_count)?(?:\{(.*)\})? `)
	label := regexp.MustCompile(`([a-z_]+)="`)
	for line := range strings.SplitSeq(w.Body.String(), "\n") {
		f := sample.FindStringSubmatch(line)
		if f == nil || f[2] == "_bucket" {
			continue
		}
		var names []string
		for _, l := range label.FindAllStringSubmatch(f[3], -1) {
			names = append(names, "`"+l[1]+"`")
		}
		out[f[1]] = strings.Join(names, ", ")
	}
	if len(out) < 5 {
		t.Fatalf("only %d instruments:\n%s", len(out), w.Body)
	}
	return out
}

// TestExampleConfigurationsPass holds that what we show people to copy is accepted.
func TestExampleConfigurationsPass(t *testing.T) {
	names, err := filepath.Glob("examples/*/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no example configurations: %v", err)
	}
	getenv := func(string) (string, bool) { return "a-secret-of-the-test", true }
	for _, name := range names {
		_, faults := policy.Load(name, getenv)
		for _, f := range faults {
			// A policy may say what a later version will do: check says so itself.
			if filepath.Base(filepath.Dir(name)) != "policies" || !strings.HasPrefix(f.What, "accepted, not yet acted on") {
				t.Errorf("%s: %v", name, f)
			}
		}
	}
	yaml := regexp.MustCompile("(?ms)^```yaml[^\n]*\n(.*?)^```")
	for page, text := range pages(t) {
		for i, m := range yaml.FindAllStringSubmatch(text, -1) {
			file := filepath.Join(t.TempDir(), "holdfast.yaml")
			if err := os.WriteFile(file, []byte(m[1]), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, faults := policy.Load(file, getenv); policy.Unservable(faults) {
				t.Errorf("%s, YAML block %d: %v", page, i+1, faults)
			}
		}
	}
}

// ruleName is a rule of the engine as histories name it.
var ruleName = regexp.MustCompile(`^"((?:semantics|design) [0-9]+|interface §4)"$`)

// TestTraceNamesEveryRule holds the table in docs/trace.md to the rules that the code puts into histories.
func TestTraceNamesEveryRule(t *testing.T) {
	listed := map[string]bool{}
	for _, cells := range table(t, "docs/trace.md", "rules") {
		listed[strings.Trim(cells[0], "`")] = false
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "test/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				if m := ruleName.FindStringSubmatch(lit.Value); m != nil {
					if _, ok := listed[m[1]]; !ok {
						t.Errorf("%s: %s is not in docs/trace.md", path, m[1])
					}
					listed[m[1]] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for rule, used := range listed {
		if !used {
			t.Errorf("docs/trace.md has %s, the code has not", rule)
		}
	}
}

// TestDocumentsNameTestsThatExist holds each claim that names its proof to that proof's being there.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	have := declaredTests(t)
	stages := readFile(t, "test.sh")
	testName, stage := regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]+)`"), regexp.MustCompile(`\./test\.sh ([a-z]+)`)
	named := 0
	for page, text := range pages(t) {
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			named++
			if !have[m[1]] {
				t.Errorf("%s names %s, which is no test", page, m[1])
			}
		}
		for _, m := range stage.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(stages, "\nstage_"+m[1]+"() {") {
				t.Errorf("%s names the stage %s, which test.sh has not", page, m[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("only %d tests named", named)
	}
}

func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
	have := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git"):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		for _, m := range declared.FindAllStringSubmatch(readFile(t, path), -1) {
			have[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return have
}

// TestRoughEdgesAreTheCode compares the fields that docs/rough-edges.md says nobody acts on yet with the program's list.
func TestRoughEdgesAreTheCode(t *testing.T) {
	code := policy.NotYet()
	for _, cells := range table(t, "docs/rough-edges.md", "notyet") {
		field := strings.Trim(cells[0], "`")
		if code[field] != cells[1] {
			t.Errorf("%s: docs/rough-edges.md says %q, holdfast check %q", field, cells[1], code[field])
		}
		delete(code, field)
	}
	for field, sentence := range code {
		t.Errorf("docs/rough-edges.md lacks | `%s` | %s |", field, sentence)
	}
}
