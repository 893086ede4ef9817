package holdfast

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/telemetry"
	"github.com/holdfast-ai/holdfast/ledger"
)

// pages are the documents that users read, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			found[name] = readFile(t, name)
		}
	}
	if len(found) < 10 {
		t.Fatalf("only %d documents found", len(found))
	}
	return found
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fences are code blocks, which have no links and no headings.
var fences = regexp.MustCompile("(?ms)^```.*?^```")

var (
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	unlinked = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// anchors are the names under which a page's headings are reached.
func anchors(text string) []string {
	var out []string
	for _, m := range headings.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
		name := unlinked.ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(name, " ", "-"))
	}
	return out
}

func TestDocumentsLinkToWhatIsThere(t *testing.T) {
	for name, text := range pages(t) {
		for _, m := range links.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			} else if anchor != "" && strings.HasSuffix(target, ".md") && !slices.Contains(anchors(readFile(t, target)), anchor) {
				t.Errorf("%s links to %s, which has no such heading", name, m[1])
			}
		}
	}
}

// TestDocumentsAreReached keeps a page from being written and never found.
func TestDocumentsAreReached(t *testing.T) {
	index := readFile(t, "docs/index.md")
	for name := range pages(t) {
		if rel, ok := strings.CutPrefix(name, "docs/"); ok && rel != "index.md" && !strings.Contains(index, "("+rel+")") {
			t.Errorf("docs/index.md does not link to %s", rel)
		}
	}
}

// program is holdfast, built once for the tests that run it.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "holdfast-docs-")
	if err != nil {
		return "", err
	}
	built := filepath.Join(dir, "holdfast")
	if out, err := exec.Command("go", "build", "-o", built, "./cmd/holdfast").CombinedOutput(); err != nil {
		return "", &buildError{string(out), err}
	}
	return built, nil
})

type buildError struct {
	output string
	err    error
}

func (e *buildError) Error() string { return e.err.Error() + "\n" + e.output }

func TestMain(m *testing.M) {
	code := m.Run()
	if built, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(built))
	}
	os.Exit(code)
}

func holdfastProgram(t *testing.T) string {
	t.Helper()
	built, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return built
}

var (
	spans    = regexp.MustCompile("`([^`\n]+)`")
	commands = regexp.MustCompile(`(?m)^[\s(]*(?:go run \./cmd/holdfast|holdfast) ([a-z][^\n|#<>&;]*)`)
	flagName = regexp.MustCompile(`--[a-z][a-z-]*`)
)

// TestDocumentsNameCommandsThatExist looks at each command line in a code block or a code span, with its flags.
func TestDocumentsNameCommandsThatExist(t *testing.T) {
	help := map[string]string{}
	seen := 0
	for name, text := range pages(t) {
		lines := strings.Join(fences.FindAllString(text, -1), "\n")
		for _, m := range spans.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
			lines += "\n" + m[1]
		}
		for _, m := range commands.FindAllStringSubmatch(strings.ReplaceAll(lines, "\\\n", " "), -1) {
			seen++
			checkCommand(t, name, m[1], help)
		}
	}
	if seen < 20 {
		t.Errorf("only %d commands found in the documents", seen)
	}
}

// checkCommand asks the program's own help for the command that line names.
func checkCommand(t *testing.T, page, line string, help map[string]string) {
	t.Helper()
	words := strings.Fields(line)
	var path []string
	for _, w := range words {
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(w) || len(path) == 2 {
			break
		}
		path = append(path, w)
	}
	text := ""
	for ; len(path) > 0; path = path[:len(path)-1] { // the last word may be an argument
		text = commandHelp(t, strings.Join(path, " "), help)
		if text != "" {
			break
		}
	}
	if text == "" {
		t.Errorf("%s: there is no command: holdfast %s", page, line)
		return
	}
	if len(words) > len(path) && strings.Contains(text, "Available Commands:") && regexp.MustCompile(`^[a-z]+$`).MatchString(words[len(path)]) {
		t.Errorf("%s: holdfast %s has no command %q", page, strings.Join(path, " "), words[len(path)])
	}
	for _, flag := range flagName.FindAllString(line, -1) {
		if !regexp.MustCompile(regexp.QuoteMeta(flag) + `\b`).MatchString(text) {
			t.Errorf("%s: holdfast %s has no flag %s", page, strings.Join(path, " "), flag)
		}
	}
}

func commandHelp(t *testing.T, path string, help map[string]string) string {
	t.Helper()
	text, ok := help[path]
	if ok {
		return text
	}
	out, err := exec.Command(holdfastProgram(t), append(strings.Fields(path), "--help")...).CombinedOutput()
	// Help for a name that is no command is that of its parent.
	if err == nil && regexp.MustCompile(`(?m)^Usage:\n  holdfast `+regexp.QuoteMeta(path)+`\b`).Match(out) {
		text = string(out)
	}
	help[path] = text
	return text
}

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
	sample := regexp.MustCompile(`^(holdfast_[a-z_]+?)(_bucket|_sum|_count)?\{(.*)\} `)
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
		if _, faults := policy.Load(name, getenv); len(faults) > 0 {
			t.Errorf("%s: %v", name, faults)
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
