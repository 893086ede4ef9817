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
			result = `{"content":[{"type":"text","text":"charged"}]}`
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
	}
}

// charge runs the proxy, armed to crash where crash says, and calls the tool through it. It returns the answer, empty
// where the proxy died before it.
func charge(t *testing.T, dir, crash string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
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
