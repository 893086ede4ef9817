//go:build unix

package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// notesServer writes each note down before it answers; "hang" gets no answer.
const notesServer = `
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
  *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"notes","version":"1"}}' ;;
  *'"tools/list"'*) result='{"tools":[{"name":"add_note","inputSchema":{"type":"object"}},{"name":"count","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}}]}' ;;
  *'"count"'*) result='{"content":[{"type":"text","text":"'$(wc -l < notes.txt | tr -d ' ')' notes"}]}' ;;
  *'"tools/call"'*)
    echo "$line" >> notes.txt
    case $line in *hang*) continue ;; esac
    result='{"content":[{"type":"text","text":"added"}]}' ;;
  *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
`

// proxyProcess is one holdfast mcp proxy, and the client that started it.
type proxyProcess struct {
	*testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	n   int
}

func startProxy(t *testing.T, dir string) *proxyProcess {
	t.Helper()
	return startProxyOf(t, dir, "--", "sh", "notes.sh")
}

func startProxyOf(t *testing.T, dir string, server ...string) *proxyProcess {
	t.Helper()
	p := &proxyProcess{T: t, cmd: exec.Command("holdfast", slices.Concat([]string{"mcp", "proxy", "--env", "test", "--store", "notes.db"}, server)...)}
	p.cmd.Dir, p.cmd.Stderr = dir, os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.in.Close(); _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	p.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return p
}

func (p *proxyProcess) send(line string) {
	p.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.Fatal(err)
	}
}

func (p *proxyProcess) begin(method, params string) {
	p.Helper()
	p.n++
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, p.n, method, params))
}

// answer is that of the last request.
func (p *proxyProcess) answer() string {
	p.Helper()
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			p.Fatalf("no answer: %v", err)
		}
		if gjson.Get(line, "id").Int() == int64(p.n) {
			return line
		}
	}
}

func (p *proxyProcess) ask(method, params string) string {
	p.Helper()
	p.begin(method, params)
	return p.answer()
}

func noteParams(text string) string { return `{"name":"add_note","arguments":{"text":"` + text + `"}}` }

func (p *proxyProcess) note(text string) string {
	p.Helper()
	return p.ask("tools/call", noteParams(text))
}

// kill ends the process as kill -9 does.
func (p *proxyProcess) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

type takeover struct {
	*testing.T
	dir string
}

func newTakeover(t *testing.T) takeover {
	dir, err := os.MkdirTemp("", "mcp") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "notes.sh"), []byte(notesServer), 0o600); err != nil {
		t.Fatal(err)
	}
	return takeover{t, dir}
}

func (x takeover) says(got string, words ...string) {
	x.Helper()
	for _, w := range words {
		if !strings.Contains(got, w) {
			x.Errorf("%q is not in %s", w, got)
		}
	}
}

func (x takeover) notes(want int) {
	x.Helper()
	b, err := os.ReadFile(filepath.Join(x.dir, "notes.txt"))
	if err != nil || strings.Count(string(b), "\n") != want {
		x.Errorf("want %d notes: %v\n%s", want, err, b)
	}
}

// A proxy that works through another outlives it, however that ends: its next call takes the store over, its session goes
// on, and what it has called is still the same call (semantics 11, 41).
func TestProxyTakesTheStoreOver(t *testing.T) {
	x := newTakeover(t)
	first, second := startProxy(t, x.dir), startProxy(t, x.dir)
	third := startProxy(t, x.dir)
	x.says(first.note("eggs"), `"added"`)
	x.says(second.note("milk"), `"added"`)
	first.kill()
	x.says(second.note("milk"), "REPLAY by holdfast", `"holdfast/replayed":true`)
	x.says(second.ask("tools/list", "{}"), "add_note", "repeat_reason")
	x.says(second.ask("tools/call", `{"name":"count","arguments":{}}`), "2 notes")
	x.says(second.note("bread"), `"added"`)
	x.says(second.note("milk"), `"added"`) // another write lay between
	x.notes(4)

	x.says(third.note("milk"), `"added"`) // a session of its own
	second.in.Close()                     // in good order
	if err := second.cmd.Wait(); err != nil {
		t.Error(err)
	}
	x.says(third.note("milk"), "REPLAY by holdfast")
	x.says(third.note("tea"), `"added"`)
	x.notes(6)
	x.says(startProxy(t, x.dir).note("tea"), `"added"`)
	x.notes(7)
}

// A call that was on its way when the holder was killed is unknown, and stays it for whoever takes the store over.
func TestTakenOverCallIsUnknown(t *testing.T) {
	x := newTakeover(t)
	first, second := startProxy(t, x.dir), startProxy(t, x.dir)
	second.begin("tools/call", noteParams("hang"))
	for { // until the server has it
		if b, err := os.ReadFile(filepath.Join(x.dir, "notes.txt")); err == nil && strings.Contains(string(b), "hang") {
			break
		}
		if first.cmd.ProcessState != nil {
			t.Fatal("the holder ended")
		}
	}
	first.kill()
	x.says(second.answer(), "OUTCOME UNKNOWN", `"holdfast/unknown":true`)
	x.says(second.note("hang"), "OUTCOME UNKNOWN", "holdfast intents resolve", `"holdfast/intent"`)
	x.says(second.note("milk"), `"added"`)
	x.notes(2)
}

// A proxy that could not serve its client from the store leaves it to those that can.
func TestNoTakeoverWithoutTheServer(t *testing.T) {
	x := newTakeover(t)
	config := "mcp: {servers: {notes: {command: [sh, notes.sh]}}}\n"
	if err := os.WriteFile(filepath.Join(x.dir, "servers.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	first := startProxyOf(t, x.dir, "--server", "notes", "--config", "servers.yaml")
	second := startProxyOf(t, x.dir, "--server", "notes")
	x.says(second.note("milk"), `"added"`)
	first.kill()
	x.says(second.note("bread"), `"error"`, "nothing was sent", `has no MCP server \"notes\"`, "--config")
	x.notes(1)
	third := startProxyOf(t, x.dir, "--server", "notes", "--config", "servers.yaml")
	x.says(second.note("milk"), "REPLAY by holdfast")
	x.says(third.note("bread"), `"added"`)
	x.notes(2)
}

// A store that is held by a process without a socket is refused by name.
func TestProxyBesideAHolderWithoutASocket(t *testing.T) {
	x := newTakeover(t)
	store := filepath.Join(x.dir, "notes.db")
	l, err := sqlite.Open(t.Context(), sqlite.Config{Path: store})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, err := exec.Command("holdfast", "mcp", "proxy", "--store", store, "--", "sh", "notes.sh").CombinedOutput()
	if err == nil {
		t.Error("it ran")
	}
	x.says(string(out), "offers no socket", "notes.db.sock", fmt.Sprintf("process %d", os.Getpid()), "--store")
}
