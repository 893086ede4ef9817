package holdfast

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/pgtest"
	"github.com/holdfast-ai/holdfast/internal/proc"
)

// blocks are code blocks with the words behind their fence and their text.
var blocks = regexp.MustCompile("(?ms)^```([a-z]+(?: [a-z]+)*)\n(.*?)^```")

// TestDocumentsSayWhatHappens runs each block of a page that is marked `sh run`, in order and in one folder, against a
// simulator and a gateway of the page's own, and looks for the lines of the `text` block behind it in what it prints:
// in that order, with … for anything. A block `yaml config` is the gateway's configuration.
func TestDocumentsSayWhatHappens(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("the examples need curl")
	}
	ran := 0
	for name, text := range pages(t) {
		if !strings.Contains(text, "```sh run\n") {
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runPage(t, text)
		})
	}
	if ran < 5 {
		t.Errorf("only %d pages have examples that run", ran)
	}
}

func runPage(t *testing.T, text string) {
	found := blocks.FindAllStringSubmatch(text, -1)
	bench := newBench(t, found)
	for i, b := range found {
		if b[1] != "sh run" {
			continue
		}
		out, err := bench.shell(b[2])
		if err != nil {
			t.Fatalf("%v\n--- commands\n%s--- printed\n%s", err, b[2], out)
		}
		if i+1 < len(found) && found[i+1][1] == "text" {
			expect(t, b[2], found[i+1][2], out)
		}
	}
}

// expect looks for the lines of want in got, one behind the other.
func expect(t *testing.T, commands, want, got string) {
	t.Helper()
	rest := got
	for line := range strings.SplitSeq(strings.TrimSpace(want), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line == "…" {
			continue
		}
		parts := strings.Split(line, "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(strings.TrimSpace(parts[i]))
		}
		at := regexp.MustCompile(strings.Join(parts, `[^\n]*?`)).FindStringIndex(rest)
		if at == nil {
			t.Errorf("the page shows %q, which was not printed there\n--- commands\n%s--- printed\n%s", line, commands, got)
			return
		}
		rest = rest[at[1]:]
	}
}

// pageStore is the variable by which a page names the Postgres that its gateways work on.
const pageStore = "HOLDFAST_STORE"

// bench is what the reader of a page has before him: a simulator, a gateway in front of it, a shell.
type bench struct {
	dir      string
	env      []string
	replacer *strings.Replacer
}

func newBench(t *testing.T, found [][]string) *bench {
	t.Helper()
	exe, dir := holdfastProgram(t), t.TempDir()
	sim, err := proc.Sim(proc.Command{Exe: exe, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Kill)
	var env []string
	args := []string{"--upstream", "openai=" + sim.URL + "/v1", "--upstream", "anthropic=" + sim.URL, "--upstream", "gemini=" + sim.URL}
	for _, b := range found {
		if b[1] == "yaml config" {
			if err := os.WriteFile(filepath.Join(dir, "holdfast.yaml"), []byte(strings.ReplaceAll(b[2], "127.0.0.1:9797", host(t, sim.URL))), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, "--config", "holdfast.yaml")
			if strings.Contains(b[2], "${"+pageStore+"}") {
				env = append(env, pageStore+"="+pgtest.Start(t).DSN("postgres"))
			}
		}
	}
	gateway, err := proc.Serve(proc.Command{Exe: exe, Dir: dir, Args: args, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := gateway.Stop(10 * time.Second); err != nil {
			t.Errorf("the gateway did not end well: %v", err)
		}
	})
	return &bench{dir: dir,
		env: append(append(os.Environ(), env...), "PATH="+filepath.Dir(exe)+":"+os.Getenv("PATH"), "HOLDFAST_ADMIN="+gateway.Admin),
		replacer: strings.NewReplacer("127.0.0.1:8787", host(t, gateway.URL), "127.0.0.1:8788", host(t, gateway.Admin),
			"127.0.0.1:9797", host(t, sim.URL))}
}

func host(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// shell runs commands with the pages' addresses replaced by those in use, and returns all that they print.
func (b *bench) shell(commands string) (string, error) {
	cmd := exec.Command("bash", "-eu", "-o", "pipefail", "-c", b.replacer.Replace(commands))
	cmd.Dir, cmd.Env = b.dir, b.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}
