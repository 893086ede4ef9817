package mutants

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// root is the module's folder.
const root = "../.."

// mutants are all faults that the program can be built with, each with the test that must notice it.
var mutants = []struct {
	name, pkg, test string
	breaks          string // the rule
}{
	{"normal-sync", "ledger/sqlite", "TestPowerCuts", "what is acknowledged survives a power cut"},
	{"ack-early", "ledger/sqlite", "TestPowerCuts", "nobody is told before the sync"},
	{"retry-sync", "ledger/sqlite", "TestFaultOneSync", "a failed sync is not repeated on the same file"},
	{"step-clock", "ledger/sqlite", "TestClockSteppedByAnHour", "semantics 11"},
	{"check-then-set", "ledger/sqlite", "TestConformance", "semantics 12: a claim is one step"},
	{"stale-write", "ledger/sqlite", "TestConformance", "semantics 6: every move is a compare-and-set"},
	{"no-dispatched-record", "test/crash", "TestBR086AgentRepeatsItsBatch", "semantics 1: an attempt is on record before its bytes leave"},
	{"lease-frees-dispatched", "test/crash", "TestBR086AgentRepeatsItsBatch", "semantics 6, 7: what was dispatched is never free again"},
	{"release-on-settle", "internal/gateway", "TestReplaySurvivesRestart", "semantics 13, 14: a success holds its key"},
	{"unknown-is-failed", "internal/gateway", "TestExternalUnknownIsHeld", "semantics 2: an unknown effect is held"},
	{"stored-transient-failure", "internal/gateway", "TestBR014TransientFailureReleases", "semantics 14: no canned answer is kept"},
	{"dispatch-for-nobody", "internal/gateway", "TestClientThatLeavesBeforeDispatch", "semantics 25"},
	{"dispatch-without-claim", "internal/gateway", "TestReplaySurvivesRestart", "semantics 12: the claim is in the intent's own write"},
	{"adopt-without-cas", "internal/gateway", "TestAdoptionIsExclusive", "semantics 20: exactly one predecessor, by one request"},
	{"delivery-from-write", "internal/gateway", "TestLostAnswerIsAdopted", "semantics 19: a write that succeeded is no delivery"},
	{"drain-without-quota", "internal/gateway", "TestDrainQuota", "semantics 25"},
	{"resume-other-execution", "internal/gateway", "TestResume", "semantics 26: only from the recording of the same execution"},
	{"boundary-at-first-event", "internal/gateway", "TestLeadInIsHeld", "semantics 22, 23"},
	{"cut-is-complete", "internal/gateway", "TestBR043CutStreams", "semantics 27"},
	{"bridge-without-hold", "test/simulation", "TestMutantShows", "semantics 23: no lead-in is a sign of life"},
	{"adopt-without-cas", "test/simulation", "TestMutantShows", "semantics 20, in any history"},
	{"delivery-from-write", "test/simulation", "TestMutantShows", "semantics 19, in any history"},
	{"drain-without-quota", "test/simulation", "TestMutantShows", "semantics 25, in any history"},
	{"boundary-at-first-event", "test/simulation", "TestMutantShows", "semantics 22, 23, in any history"},
	{"resume-other-execution", "test/simulation", "TestMutantShows", "semantics 26, in any history"},
	{"idempotent-hint-licence", "internal/mcp", "TestBR084HintsLicenseNothing", "design 6: idempotentHint is never a licence"},
	{"key-from-call-id", "internal/mcp", "TestBR082ModelRepeatsItsCall", "interface §4: no id that a client makes anew is in a key"},
	{"window-past-other-write", "internal/mcp", "TestWindowEndsWithAnotherWrite", "semantics 41: A, B, A are three effects"},
	{"tool-unknown-is-failed", "internal/mcp", "TestUnknownIsHeld", "semantics 2, 4"},
	{"resend-after-loss", "internal/mcp", "TestUnknownIsHeld", "a write is never sent again to a server that was lost over it"},
	{"forward-before-claim", "test/crash", "TestMCPProxyIsKilled", "semantics 1: claim and attempt are durable before the call leaves"},
	{"fingerprint-without-path", "idempotency", "TestPathCounts", "semantics 15, 16"},
	{"numbers-as-float64", "internal/canon", "TestNumbersAreExact", "interface §4: all digits of numbers are kept"},
}

// TestMutants runs each named test twice: it passes in the program as it is, and fails in the broken one.
func TestMutants(t *testing.T) {
	bins := newBinaries(t.TempDir())
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			bin, err := bins.of(m.pkg)
			if err != nil {
				t.Fatal(err)
			}
			if err := bins.sound(bin, m.pkg, m.test); err != nil {
				t.Fatalf("%s fails without a mutant: %v", m.test, err)
			}
			switch out, err := run(bin, m.pkg, m.test, m.name); {
			case err == nil:
				t.Errorf("survived: %s in %s does not notice it (%s)", m.test, m.pkg, m.breaks)
			case !bytes.Contains(out, []byte("--- FAIL: "+m.test)) && !bytes.Contains(out, []byte("panic: ")):
				t.Errorf("%s did not run to its verdict: %v\n%s", m.test, err, out)
			}
		})
	}
}

// TestEveryMutantIsKilled holds the table to the program: a fault that no test is named for proves nothing.
func TestEveryMutantIsKilled(t *testing.T) {
	listed := map[string]bool{}
	for _, m := range mutants {
		listed[m.name] = true
	}
	found, err := faults()
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range found {
		if !listed[name] {
			t.Errorf("%s: the mutant %q has no test in the table", at, name)
		}
	}
	for name := range listed {
		if _, ok := found[name]; !ok {
			t.Errorf("the mutant %q is in the table and not in the program", name)
		}
	}
	if len(found) < 8 {
		t.Errorf("only %d mutants", len(found))
	}
}

// faults finds every mutant.On("…") of the program.
func faults() (map[string]token.Position, error) {
	found := map[string]token.Position{}
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "node_modules" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if name, ok := switched(n); ok {
				found[name] = files.Position(n.Pos())
			}
			return true
		})
		return nil
	})
	return found, err
}

// switched reads the name in mutant.On("name").
func switched(n ast.Node) (string, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return "", false
	}
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || fun.Sel.Name != "On" {
		return "", false
	}
	if pkg, ok := fun.X.(*ast.Ident); !ok || pkg.Name != "mutant" {
		return "", false
	}
	lit, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return "", false
	}
	name, err := strconv.Unquote(lit.Value)
	return name, err == nil
}

// binaries are the packages' test programs with the faults built in, each compiled once.
type binaries struct {
	dir   string
	mu    sync.Mutex
	built map[string]func() (string, error)
	tried map[string]func() error
}

func newBinaries(dir string) *binaries {
	return &binaries{dir: dir, built: map[string]func() (string, error){}, tried: map[string]func() error{}}
}

func (b *binaries) of(pkg string) (string, error) {
	b.mu.Lock()
	build := b.built[pkg]
	if build == nil {
		build = sync.OnceValues(func() (string, error) {
			out := filepath.Join(b.dir, strings.ReplaceAll(pkg, "/", "-")+".test")
			cmd := exec.Command("go", "test", "-tags", "mutant", "-c", "-o", out, "./"+pkg)
			cmd.Dir = root
			if text, err := cmd.CombinedOutput(); err != nil {
				return "", fmt.Errorf("build the tests of %s: %w\n%s", pkg, err, text)
			}
			return out, nil
		})
		b.built[pkg] = build
	}
	b.mu.Unlock()
	return build()
}

// sound runs a test without a mutant, once for all mutants that it is named for.
func (b *binaries) sound(bin, pkg, test string) error {
	b.mu.Lock()
	try := b.tried[pkg+" "+test]
	if try == nil {
		try = sync.OnceValue(func() error {
			out, err := run(bin, pkg, test, "")
			if err != nil {
				return fmt.Errorf("%w\n%s", err, out)
			}
			if !bytes.Contains(out, []byte("--- PASS: "+test)) {
				return fmt.Errorf("there is no such test\n%s", out)
			}
			return nil
		})
		b.tried[pkg+" "+test] = try
	}
	b.mu.Unlock()
	return try()
}

// limit bounds one run; a mutant that makes its test wait for ever is noticed by that.
const limit = 2 * time.Minute

func run(bin, pkg, test, name string) ([]byte, error) {
	ctx, stop := context.WithTimeout(context.Background(), limit+10*time.Second)
	defer stop()
	cmd := exec.CommandContext(ctx, bin, "-test.run=^"+test+"$", "-test.v", "-test.timeout="+limit.String())
	cmd.Dir = filepath.Join(root, pkg)
	cmd.Env = append(os.Environ(), mutant.Env+"="+name, "HOLDFAST_FULL=") // a tenth of a programme is enough to notice
	return cmd.CombinedOutput()
}
