package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/holdfast-ai/holdfast/ledger"
)

const mcpSecret = "mcp-secret-4711-abcdef"

const wordsYAML = `
env: test
mcp:
  servers:
    far:
      url: %s
      headers: {Authorization: "Bearer mcp-secret-4711-abcdef", X-Region: "somewhere-north-4711"}
      tools:
        look: {effect: read}
        says: {effect: external, key: "{o}", succeeded: 'result.state == "mcp-secret-4711-abcdef"'}
        says_failed: {effect: external, key: "{o}", failed: 'result.state == "mcp-secret-4711-abcdef"'}
        error: {effect: external, key: "{o}", definite: 'body.message contains "mcp-secret-4711-abcdef"'}
        refuses: {effect: external, key: "{o}", definite: 'body.error.message contains "mcp-secret-4711-abcdef"'}
        vague: {effect: external, key: "{o}"}
        denied: {effect: external, key: "{o}", definite: ["!503", "status >= 500"]}
        denied_rpc: {effect: external, key: "{o}", definite: ["!503", "status >= 500"], failed: 'body.code < 0'}
        unlike: {effect: external, key: "{o}", definite: ["!502", "status >= 500"]}
        twice: {effect: external, key: "{o}", failed: "result.charged == false"}
        twice_good: {effect: external, key: "{o}", succeeded: "result.charged == true"}
        twice_text: {effect: external, key: "{o}", failed: 'fromJSON(result).charged == false'}
        twice_error: {effect: external, key: "{o}", failed: 'body.code == 2'}
        twice_code: {effect: external, key: "{o}"}
        twice_input: {effect: external, key: "{o}"}
        twice_refused: {effect: external, key: "{o}", definite: 'body.charged == false'}
        page: {effect: external, key: "{o}", definite: '(body?.charged ?? false) == false'}
`

// wordy is a server that says back what it is sent, and whose words are as a test wants them.
type wordy struct {
	mu    sync.Mutex
	calls map[string]int
}

const (
	resultOf = `{"jsonrpc":"2.0","id":%s,"result":%s}`
	errorOf  = `{"jsonrpc":"2.0","id":%s,"error":%s}`
)

// answers are the words by tool: a status, a form and what fills it; SECRET is what the request bore.
var answers = map[string]struct {
	status     int
	form, text string
}{
	"look":          {200, resultOf, `{"content":[{"type":"text","text":"SECRET"}],"structuredContent":{"state":"SECRET"}}`},
	"says":          {200, resultOf, `{"content":[{"type":"text","text":"SECRET"}],"structuredContent":{"state":"SECRET","region":"somewhere-north-4711"}}`},
	"says_failed":   {200, resultOf, `{"content":[{"type":"text","text":"SECRET"}],"structuredContent":{"state":"SECRET"}}`},
	"error":         {200, errorOf, `{"code":5,"message":"you sent SECRET"}`},
	"refuses":       {500, "%.0s%s", `{"error":{"message":"you sent SECRET"}}`},
	"vague":         {200, errorOf, `{"code":-32603,"message":"you sent SECRET"}`},
	"denied":        {503, "%.0s%s", "upstream gone"},
	"denied_rpc":    {503, errorOf, `{"code":-32601,"message":"gone"}`},
	"unlike":        {503, errorOf, `{"code":1,"message":"gone"}`},
	"twice":         {200, resultOf, `{"content":[],"structuredContent":{"charged":true,"charged":false}}`},
	"twice_good":    {200, resultOf, `{"content":[],"structuredContent":{"charged":false,"charged":true}}`},
	"twice_text":    {200, resultOf, `{"content":[{"type":"text","text":" {\"charged\":true,\"charged\":false}"}]}`},
	"twice_error":   {200, errorOf, `{"code":1,"code":2,"message":"x"}`},
	"twice_code":    {200, errorOf, `{"code":1,"code":-32601,"message":"x"}`},
	"twice_input":   {200, resultOf, `{"resultType":"input_required","resultType":"complete","content":[]}`},
	"twice_refused": {500, "%.0s%s", `{"charged":true,"charged":false}`},
	"page":          {500, "%.0s%s", `<html>it broke</html>`},
}

func (s *wordy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	id, name := gjson.GetBytes(body, "id").Raw, gjson.GetBytes(body, "params.name").Str
	w.Header().Set("Content-Type", "application/json")
	switch gjson.GetBytes(body, "method").Str {
	case "initialize":
		w.Header().Set("Mcp-Session-Id", "s1")
		fmt.Fprintf(w, resultOf, id, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`)
	case "tools/list":
		fmt.Fprintf(w, resultOf, id, `{"tools":[]}`)
	case "tools/call":
		s.mu.Lock()
		s.calls[name]++
		s.mu.Unlock()
		a, secret := answers[name], strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		text := fmt.Sprintf(a.form, id, strings.ReplaceAll(a.text, "SECRET", secret))
		w.Header().Set("Www-Authenticate", "Bearer you_sent="+secret)
		if a.status == 200 && name == "says" { // with a word in front, in a stream
			w.Header().Set("Content-Type", "text/event-stream")
			note, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": "notifications/message", "params": map[string]string{"data": secret}})
			fmt.Fprintf(w, "data: %s\n\ndata: %s\n\n", note, text)
			return
		}
		w.WriteHeader(a.status)
		fmt.Fprint(w, text)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// wordyRig calls tool twice and returns what the clients read, and how often the server was called.
type wordyRig struct {
	*rig
	far    *wordy
	client *line
}

func newWordyRig(t *testing.T) *wordyRig {
	far := &wordy{calls: map[string]int{}}
	srv := httptest.NewServer(far)
	t.Cleanup(srv.Close)
	r := &wordyRig{rig: bareRig(t), far: far}
	r.configure(fmt.Sprintf(wordsYAML, srv.URL))
	r.client = r.stdio()
	return r
}

// ends calls a tool twice: how its first call ended in the log, and how often the server was called.
func (r *wordyRig) ends(tool string) (first, second string, outcome ledger.Outcome, calls int) {
	r.Helper()
	before := len(r.intents())
	first, second = r.client.call(tool, `{"o":"1"}`), r.client.call(tool, `{"o":"1"}`)
	for _, rec := range r.intents() {
		if rec.Endpoint == tool {
			outcome = rec.Outcome
		}
	}
	if len(r.intents()) == before {
		r.Errorf("%s: no intent", tool)
	}
	r.far.mu.Lock()
	defer r.far.mu.Unlock()
	return first, second, outcome, r.far.calls[tool]
}

// TestSecretsOfMCPServersStayHere holds semantics 45 for MCP: what a server is sent comes back to no client and stands in no row, and
// what the server's answers mean is read from what it said.
func TestSecretsOfMCPServersStayHere(t *testing.T) {
	r := newWordyRig(t)
	for _, x := range []struct {
		tool    string
		outcome ledger.Outcome
		calls   int
	}{
		{"says", ledger.OutcomeSuccess, 1}, {"says_failed", ledger.OutcomeFailed, 2}, {"error", ledger.OutcomeFailed, 2},
		{"refuses", ledger.OutcomeFailed, 2}, {"vague", ledger.OutcomeUnknown, 1},
	} {
		first, second, outcome, calls := r.ends(x.tool)
		if outcome != x.outcome || calls != x.calls {
			t.Errorf("%s: %v, %d calls; %s", x.tool, outcome, calls, first)
		}
		if strings.Contains(first+second, mcpSecret) {
			t.Errorf("%s shows a secret: %s, %s", x.tool, first, second)
		}
		if x.tool == "says" && (gjson.Get(first, "result.structuredContent.region").Str != "somewhere-north-4711" ||
			gjson.Get(first, "result.content.0.text").Str != strings.Repeat("*", len(mcpSecret)) || gjson.Get(first, "result.structuredContent").Raw != gjson.Get(second, "result.structuredContent").Raw) {
			t.Errorf("%s, %s", first, second)
		}
	}
	if got := r.client.call("look", `{}`); strings.Contains(got, mcpSecret) || !strings.Contains(got, "****") {
		t.Errorf("a read shows a secret: %s", got)
	}
	note := <-r.client.rest
	if strings.Contains(note, mcpSecret) || !strings.Contains(note, "notifications/message") {
		t.Errorf("a notification shows a secret: %s", note)
	}
	seen, _, err := r.proxy.ReadTool(t.Context(), &ledger.Record{Intent: ledger.Intent{Tenant: "main", Workflow: "far"}}, "look", json.RawMessage("{}"))
	if members, _ := seen.(map[string]any); err != nil || members["state"] != mcpSecret {
		t.Errorf("a reconciler sees %v, %v", seen, err)
	}
	r.clean()
}

// clean holds that the store has no secret.
func (r *rig) clean() {
	r.Helper()
	for _, name := range []string{r.store, r.store + "-wal"} {
		kept, _ := os.ReadFile(name)
		if strings.Contains(string(kept), mcpSecret) {
			r.Errorf("%s holds a secret", name)
		}
	}
}

// TestSecretsOfTheEnvironmentStayHere is the same for a child process.
func TestSecretsOfTheEnvironmentStayHere(t *testing.T) {
	r := bareRig(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r.configure(fmt.Sprintf(stdioYAML, fmt.Sprintf("command: [%q]\n      env: {FAKE_EFFECTS: %q, GITHUB_TOKEN: %q, REGION: somewhere-north-4711}", exe, r.effects, mcpSecret)))
	c := r.stdio()
	for range 2 {
		got := c.call("keyed", `{"n":1,"fault":"environment"}`)
		r.mentions(got, "GITHUB_TOKEN="+strings.Repeat("*", len(mcpSecret)), "REGION=somewhere-north-4711")
	}
	r.happened(1)
	r.clean()
}

// TestDeniedIsNeverDefinite holds that "!503" is stronger than whatever else says that nothing happened, as it is for HTTP tools.
func TestDeniedIsNeverDefinite(t *testing.T) {
	r := newWordyRig(t)
	for tool, want := range map[string]struct {
		outcome ledger.Outcome
		calls   int
	}{"denied": {ledger.OutcomeUnknown, 1}, "denied_rpc": {ledger.OutcomeUnknown, 1}, "unlike": {ledger.OutcomeFailed, 2}} {
		if first, _, outcome, calls := r.ends(tool); outcome != want.outcome || calls != want.calls {
			t.Errorf("%s: %v, %d calls; %s", tool, outcome, calls, first)
		}
	}
}

// TestTwofoldAnswerProvesNothing holds that no word is taken from an answer that says two things of one member, or has no members at all.
func TestTwofoldAnswerProvesNothing(t *testing.T) {
	r := newWordyRig(t)
	for tool := range answers {
		if !strings.HasPrefix(tool, "twice") && tool != "page" {
			continue
		}
		if first, _, outcome, calls := r.ends(tool); outcome != ledger.OutcomeUnknown || calls != 1 {
			t.Errorf("%s: %v, %d calls; %s", tool, outcome, calls, first)
		}
	}
}
