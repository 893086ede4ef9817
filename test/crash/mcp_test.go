package crash

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// toolEffects names the file in which this test's program, run as an MCP server, puts its effects down.
const toolEffects = "HOLDFAST_TEST_TOOL_EFFECTS"

// toolServer is an MCP server with one write tool.
func toolServer(file string) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		result := `{}`
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"tool","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"charge","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			_, _ = fmt.Fprintln(f, "charged")
			_ = f.Close()
			if bytes.Contains(in.Bytes(), []byte(`"late"`)) {
				continue // the answer is lost
			}
			result = `{"content":[{"type":"text","text":"charged"}]}`
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
	}
}

// mcpClient is a client of a proxy that runs on.
type mcpClient struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startProxy(t *testing.T, dir string) *mcpClient {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &mcpClient{t: t, cmd: exec.Command(binary, "mcp", "proxy", "--log-level", "error", "--store", filepath.Join(dir, "holdfast.db"), "--", self)}
	c.cmd.Env = append(os.Environ(), toolEffects+"="+filepath.Join(dir, "effects"))
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait() // it was killed
	})
	c.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	c.answer("1")
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *mcpClient) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *mcpClient) charge(id, args string) {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"charge","arguments":` + args + `}}`)
}

func (c *mcpClient) answer(id string) string {
	c.t.Helper()
	for c.out.Scan() {
		if strings.Contains(c.out.Text(), `"id":`+id) {
			return c.out.Text()
		}
	}
	c.t.Fatalf("the proxy ended without answering %s: %v", id, c.out.Err())
	return ""
}

// TestHolderIsKilled: a second proxy on the same store works through the first; when that one dies in mid-call, the call is
// unknown to the second, and to the next that holds the store.
func TestHolderIsKilled(t *testing.T) {
	dir := t.TempDir()
	effects := func(want int) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, "effects"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if n := bytes.Count(b, []byte("\n")); n != want {
			t.Errorf("%d effects, want %d", n, want)
		}
	}
	holder := startProxy(t, dir)
	holder.charge("2", `{"customer":"a"}`)
	holder.answer("2")
	second := startProxy(t, dir)
	second.charge("2", `{"customer":"b"}`)
	second.answer("2")
	second.charge("3", `{"customer":"b"}`)
	if got := second.answer("3"); !strings.Contains(got, "REPLAY") {
		t.Errorf("a repetition says %s", got)
	}
	effects(2)
	second.charge("4", `{"customer":"c","how":"late"}`)
	for n := 0; n < 2000; n++ {
		if b, _ := os.ReadFile(filepath.Join(dir, "effects")); bytes.Count(b, []byte("\n")) == 3 {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	if err := holder.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := second.answer("4"); !strings.Contains(got, "OUTCOME UNKNOWN") {
		t.Errorf("a call whose holder died says %s", got)
	}
	_ = holder.cmd.Wait() // it was killed
	next := startProxy(t, dir)
	next.charge("2", `{"customer":"c","how":"late"}`)
	if got := next.answer("2"); !strings.Contains(got, "OUTCOME UNKNOWN") {
		t.Errorf("its repetition says %s", got)
	}
	effects(3)
}

// charge runs the proxy, armed to crash where crash says, and calls the tool through it. It returns the answer, empty
// where the proxy died before it.
func charge(t *testing.T, dir, crash string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, binary, "mcp", "proxy", "--log-level", "error", "--store", filepath.Join(dir, "holdfast.db"), "--", self)
	cmd.Env = append(os.Environ(), "HOLDFAST_CRASH="+crash, toolEffects+"="+filepath.Join(dir, "effects"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"charge","arguments":{"customer":"c1"}}}
`) // it may have died by now
	answer := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), `"id":2`) {
			answer = lines.Text()
			_ = in.Close()
		}
	}
	if err := cmd.Wait(); (err != nil) != (crash != "") {
		t.Errorf("with HOLDFAST_CRASH=%s the proxy ended by %v, having said %s", crash, err, said.String())
	}
	return answer
}

// TestMCPProxyIsKilled: wherever the proxy dies around a call, the client that comes back and calls again makes no second
// effect, and is told what is not known.
func TestMCPProxyIsKilled(t *testing.T) {
	for _, crash := range []string{"commit.before:1", "store.commit.write:3", "commit.after:1", "send.before:1", "send.after:1", "store.commit.synced:4"} {
		t.Run(crash, func(t *testing.T) {
			dir := t.TempDir()
			first := charge(t, dir, crash)
			again := charge(t, dir, "")
			b, err := os.ReadFile(filepath.Join(dir, "effects"))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			effects := bytes.Count(b, []byte("\n"))
			unknown := strings.Contains(again, "OUTCOME UNKNOWN")
			if effects > 1 && first == "" {
				t.Errorf("%d effects", effects)
			}
			if !unknown && !strings.Contains(again, "charged") {
				t.Errorf("the second call says %s", again)
			}
			found, err := sqlite.Verify(t.Context(), filepath.Join(dir, "holdfast.db"))
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range found {
				t.Errorf("verify: %s", v)
			}
			t.Logf("%d effects, unknown: %v, the first call was answered: %v", effects, unknown, first != "")
		})
	}
}
