package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write what the commands print into the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"holdfast": func() { os.Exit(Main(os.Args[1:])) }})
}

// TestScript runs the scripts against real processes: the command, a gateway and a simulator.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			module, err := filepath.Abs("../..")
			if err != nil {
				return err
			}
			e.Setenv("MODULE", module)
			e.Values["running"] = map[string]*background{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start": start, "stop": stop, "crash": crash, "lose": lose, "await": await, "ports": ports, "post": post, "put": put, "mask": mask, "exits": exits,
			"interrupt": interrupt, "says": says, "ends": ends, "short": short, "unstamped": unstamped, "agrees": agrees,
		},
	})
}

// background is a process that a script started.
type background struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when all it wrote was read

	mu   sync.Mutex
	log  strings.Builder
	more chan struct{} // closed and made anew with each line
}

// start NAME REGEXP COMMAND ARG… runs a process beside the script, waits for a line that fits, and keeps what the
// group of the expression found in $NAME.
func start(ts *testscript.TestScript, _ bool, args []string) {
	name, ready := args[0], regexp.MustCompile(args[1])
	b := &background{cmd: exec.Command(inPath(ts, args[2]), args[3:]...), done: make(chan struct{}), more: make(chan struct{})}
	b.cmd.Dir, b.cmd.Env = ts.Getenv("WORK"), environ(ts)
	r, w, err := os.Pipe()
	ts.Check(err)
	b.cmd.Stdout, b.cmd.Stderr = w, w
	ts.Check(b.cmd.Start())
	ts.Check(w.Close())
	ts.Value("running").(map[string]*background)[name] = b
	ts.Defer(func() { _ = b.cmd.Process.Kill(); <-b.done; _ = b.cmd.Wait() })
	found := make(chan string, 1)
	go b.read(r, ready, found)
	line, ok := <-found
	if !ok {
		ts.Fatalf("%s ended before it was ready:\n%s", name, b.text())
	}
	ts.Setenv(name, line)
}

func (b *background) read(r io.ReadCloser, ready *regexp.Regexp, found chan<- string) {
	defer close(b.done)
	defer close(found)
	defer r.Close()
	told := false
	for lines := bufio.NewScanner(r); lines.Scan(); {
		b.mu.Lock()
		b.log.WriteString(lines.Text() + "\n")
		close(b.more)
		b.more = make(chan struct{})
		b.mu.Unlock()
		if m := ready.FindStringSubmatch(lines.Text()); m != nil && !told {
			told = true
			found <- m[len(m)-1]
		}
	}
}

func (b *background) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.String()
}

// stop NAME asks a process to end and waits for it; what it wrote is then stdout.
func stop(ts *testscript.TestScript, _ bool, args []string) {
	b := ts.Value("running").(map[string]*background)[args[0]]
	ts.Check(b.cmd.Process.Signal(syscall.SIGTERM))
	<-b.done
	ts.Check(b.cmd.Wait())
	fmt.Fprint(ts.Stdout(), b.text())
}

// says NAME REGEXP waits until a process that runs has written a line that fits.
func says(ts *testscript.TestScript, _ bool, args []string) {
	b, wanted := ts.Value("running").(map[string]*background)[args[0]], regexp.MustCompile("(?m)"+args[1])
	for {
		b.mu.Lock()
		found, more := wanted.MatchString(b.log.String()), b.more
		b.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-b.done:
			ts.Fatalf("%s ended without it:\n%s", args[0], b.text())
		}
	}
}

// interrupt NAME N is Ctrl-C, behind which a process must end with status N; what it wrote is then stdout.
func interrupt(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Value("running").(map[string]*background)[args[0]].cmd.Process.Signal(os.Interrupt))
	ends(ts, false, args)
}

// ends NAME N waits for a process that must end by itself with status N; what it wrote is then stdout.
func ends(ts *testscript.TestScript, _ bool, args []string) {
	b := ts.Value("running").(map[string]*background)[args[0]]
	<-b.done
	_ = b.cmd.Wait() // the status says it
	fmt.Fprint(ts.Stdout(), b.text())
	if got := strconv.Itoa(b.cmd.ProcessState.ExitCode()); got != args[1] {
		ts.Fatalf("exit status %s, want %s:\n%s", got, args[1], b.text())
	}
}

// crash NAME ends a process as kill -9 does.
func crash(ts *testscript.TestScript, _ bool, args []string) {
	b := ts.Value("running").(map[string]*background)[args[0]]
	ts.Check(b.cmd.Process.Kill())
	<-b.done
}

// ports FILE waits for nothing: it reads a ready file into $LISTEN and $ADMIN.
func ports(ts *testscript.TestScript, _ bool, args []string) {
	var at struct{ Listen, Admin string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &at))
	ts.Setenv("LISTEN", at.Listen)
	ts.Setenv("ADMIN", at.Admin)
}

// post URL FILE [HEADER…] sends a request and prints the answer's status and Idempotency-Replayed.
func post(ts *testscript.TestScript, _ bool, args []string) {
	resp := send(ts, http.MethodPost, args[0], ts.ReadFile(args[1]), args[2:])
	fmt.Fprintf(ts.Stdout(), "%d %s\n", resp.StatusCode, resp.Header.Get("Idempotency-Replayed"))
	ts.Setenv("INTENT", resp.Header.Get("Holdfast-Intent"))
}

// put URL FILE sends a request that must succeed.
func put(ts *testscript.TestScript, _ bool, args []string) {
	if resp := send(ts, http.MethodPut, args[0], ts.ReadFile(args[1]), nil); resp.StatusCode/100 != 2 {
		ts.Fatalf("%s", resp.Status)
	}
}

// lose URL FILE [HEADER…] sends a request whose answer is not waited for.
func lose(ts *testscript.TestScript, _ bool, args []string) {
	req := request(ts, http.MethodPost, args[0], ts.ReadFile(args[1]), args[2:])
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	ts.Defer(func() { <-done })
}

// await URL asks the simulator to answer when something has happened there.
func await(ts *testscript.TestScript, _ bool, args []string) {
	if resp := send(ts, http.MethodGet, args[0], "", nil); resp.StatusCode != http.StatusOK {
		ts.Fatalf("%s: %s", args[0], resp.Status)
	}
}

func request(ts *testscript.TestScript, method, url, body string, headers []string) *http.Request {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	ts.Check(err)
	req.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ":")
		req.Header.Set(name, strings.TrimSpace(value))
	}
	return req
}

func send(ts *testscript.TestScript, method, url, body string, headers []string) *http.Response {
	resp, err := http.DefaultClient.Do(request(ts, method, url, body, headers))
	ts.Check(err)
	_, err = io.Copy(io.Discard, resp.Body)
	ts.Check(errors.Join(err, resp.Body.Close()))
	return resp
}

// revision is a policy's, which follows from every default that there is.
var revision = regexp.MustCompile(`revision [0-9a-f]{16}\b`)

// unstamped prints the last standard output without the policy's revision.
func unstamped(ts *testscript.TestScript, _ bool, args []string) {
	fmt.Fprint(ts.Stdout(), revision.ReplaceAllString(ts.ReadFile(args[0]), "revision REVISION"))
}

// agrees INTENT EXPLANATION holds what was explained of an answer to what the log says of a call that got it.
func agrees(ts *testscript.TestScript, _ bool, args []string) {
	type decided struct {
		Action, Rule, Condition, Reason string
	}
	var logged struct {
		History []struct {
			Kind, End string
			Evidence  struct{ Decision decided }
		}
	}
	var told struct {
		Outcome   string
		Decisions []decided
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &logged))
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &told))
	for _, e := range logged.History {
		if e.Kind != "attempt_end" {
			continue
		}
		if len(told.Decisions) != 1 || told.Decisions[0] != e.Evidence.Decision || told.Outcome != e.End {
			ts.Fatalf("explained: %+v\nlogged: %s, %+v", told, e.End, e.Evidence.Decision)
		}
		return
	}
	ts.Fatalf("no attempt has ended")
}

var masks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "ID"},
	{regexp.MustCompile(`…[0-9a-f]{6}\b`), "…TAIL"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`\+\d+(\.\d+)?(ms|s|m\d\ds)\b`), "+T"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ms|s|m\d\ds)\b`), "T"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDR"},
	{regexp.MustCompile(`/[0-9a-f]{8}, tier`), "/CREDENTIAL, tier"},
	{regexp.MustCompile(`process \d+`), "process N"},
	{revision, "revision REVISION"},
	{regexp.MustCompile(`(\S)  +`), "$1  "},
}

// mask prints the last standard output without what differs from run to run: times, ids, ports, widths.
func mask(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0])
	for _, m := range masks {
		text = m.what.ReplaceAllString(text, m.with)
	}
	fmt.Fprint(ts.Stdout(), text)
}

// exits N COMMAND ARG… runs a command that must end with status N.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// short NAME TO [N] keeps in $TO what of the id in $NAME no id made at another time has, or its first N characters.
func short(ts *testscript.TestScript, _ bool, args []string) {
	id, n := ts.Getenv(args[0]), 32
	if len(args) > 2 {
		var err error
		n, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	ts.Setenv(args[1], id[:n])
}

// inPath finds a command as the script's own exec does.
func inPath(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return filepath.Join(dir, name)
		}
	}
	ts.Fatalf("no %s in PATH", name)
	return ""
}

// environ is that of the script's own commands, without any key of a provider.
func environ(ts *testscript.TestScript) []string {
	env := []string{}
	for _, name := range []string{"PATH", "HOME", "WORK", "TMPDIR"} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	return env
}
