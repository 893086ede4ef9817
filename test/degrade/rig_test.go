package degrade

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/proc"
)

// clients is how many calls are on their way at once.
const clients = 24

// rig is a gateway process in front of a far side process.
type rig struct {
	t       *testing.T
	dir     string
	sim     *proc.Process
	gateway *proc.Process
	client  *http.Client
	seed    uint64
}

// newRig starts both; SIM in config is the far side.
func newRig(t *testing.T, config string) *rig {
	t.Helper()
	r := &rig{t: t, seed: seed(t), dir: t.TempDir(), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * clients}, Timeout: 2 * time.Minute}}
	var err error
	if r.sim, err = proc.Sim(proc.Command{Exe: binary}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		if r.gateway != nil {
			r.gateway.Kill()
		}
		r.sim.Kill()
	})
	file := filepath.Join(r.dir, "holdfast.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(config, "SIM", r.sim.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	r.gateway, err = proc.Serve(proc.Command{Exe: binary, Dir: r.dir, Env: []string{"HOLDFAST_MUTANT=" + os.Getenv("HOLDFAST_MUTANT")},
		Args: []string{"--config", file, "--store", r.store(), "--log-level", "info"}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) store() string { return "sqlite:" + filepath.Join(r.dir, "holdfast.db") }

// end stops the gateway in order, and has its store verified.
func (r *rig) end() {
	r.t.Helper()
	if err := r.gateway.Stop(time.Minute); err != nil {
		r.t.Errorf("the gateway did not end well: %v", err)
	}
	r.gateway = nil
	if out, err := exec.Command(binary, "store", "verify", "--store", r.store()).CombinedOutput(); err != nil {
		r.t.Errorf("store verify: %v\n%s", err, out)
	}
}

// script replaces what the far side does.
func (r *rig) script(rules ...string) {
	r.t.Helper()
	body := `{"seed":` + fmt.Sprint(r.seed) + `,"rules":[` + strings.Join(rules, ",\n") + `]}`
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPut, r.sim.URL+"/sim/v1/script", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if said, _ := io.ReadAll(resp.Body); resp.StatusCode/100 != 2 {
		r.t.Fatalf("script: %d %s", resp.StatusCode, said)
	}
}

// stats are the far side's counters.
type stats struct {
	Total counts            `json:"total"`
	Ops   map[string]counts `json:"ops"`
}

type counts struct {
	Calls       int `json:"calls"`
	MaxInFlight int `json:"max_in_flight"`
}

func (r *rig) stats() (s stats) {
	r.t.Helper()
	resp, err := r.client.Get(r.sim.URL + "/sim/v1/stats")
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		r.t.Fatal(err)
	}
	return s
}

// call is one request of a client.
type call struct {
	path, text, system string
	stream             bool
	header             map[string]string
	temperature        string
}

// body is the request in the form of its API.
func (c *call) body() string {
	text, system := quoted(c.text), quoted(c.system)
	stream := ""
	if c.stream {
		stream = `,"stream":true`
	}
	if c.temperature != "" {
		stream += `,"temperature":` + c.temperature
	}
	if c.path == "/v1/responses" {
		return `{"model":"asked","instructions":` + system + `,"input":` + text + stream + `}`
	}
	return `{"model":"asked","messages":[{"role":"system","content":` + system + `},{"role":"user","content":` + text + `}]` + stream + `}`
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // a string
	return string(b)
}

// answer is what a client has of its call.
type answer struct {
	call   *call
	status int
	header http.Header
	body   []byte
	err    error // no whole answer came
}

func (r *rig) send(c *call) *answer {
	req, err := http.NewRequest(http.MethodPost, r.gateway.URL+c.path, strings.NewReader(c.body()))
	if err != nil {
		return &answer{call: c, err: err, header: http.Header{}}
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range c.header {
		req.Header.Set(k, v)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return &answer{call: c, err: err, header: http.Header{}}
	}
	defer resp.Body.Close()
	a := &answer{call: c, status: resp.StatusCode, header: resp.Header}
	a.body, a.err = io.ReadAll(resp.Body)
	return a
}

// sendAll sends all calls, so many at once as there are clients, and answers in their order.
func (r *rig) sendAll(all []*call) []*answer {
	answers := make([]*answer, len(all))
	next := make(chan int)
	var workers sync.WaitGroup
	for range clients {
		workers.Go(func() {
			for i := range next {
				answers[i] = r.send(all[i])
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	workers.Wait()
	return answers
}

func (a *answer) source() string { return a.header.Get("Holdfast-Source") }

// failure is why an answer is none: a word for the table, "" for a whole one.
func (a *answer) failure() string {
	code := a.header.Get("Holdfast-Error")
	switch {
	case a.err != nil:
		return "no whole answer: " + a.err.Error()
	case a.status != http.StatusOK:
		return fmt.Sprintf("%d %s", a.status, code)
	case a.call.stream && bytes.Contains(a.body, []byte(`"error":{`)):
		return "an error in the stream: " + codeIn(a.body)
	case a.call.stream && !a.ended():
		return "a stream without its end"
	}
	return ""
}

// ended says that a stream has its API's own end.
func (a *answer) ended() bool {
	if a.call.path == "/v1/responses" {
		return bytes.Contains(a.body, []byte(`"type":"response.completed"`))
	}
	return bytes.HasSuffix(bytes.TrimSpace(a.body), []byte("data: [DONE]"))
}

func codeIn(stream []byte) string {
	_, rest, _ := bytes.Cut(stream, []byte(`"error":{`))
	var e struct{ Code, Message string }
	if i := bytes.IndexByte(rest, '}'); i >= 0 {
		_ = json.Unmarshal(append([]byte("{"), rest[:i+1]...), &e) // an odd form has no code to tell
	}
	return e.Code
}

// text is what the answer says to its reader, of a plain answer and of a stream alike.
func (a *answer) text() string {
	var all strings.Builder
	documents := [][]byte{a.body}
	if a.call.stream {
		documents = nil
		for line := range bytes.Lines(a.body) {
			if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: {")); ok {
				documents = append(documents, append([]byte("{"), data...))
			}
		}
	}
	for _, d := range documents {
		all.WriteString(textOf(d))
	}
	return all.String()
}

// textOf reads a document, or one event, of chat.completions and of responses.
func textOf(b []byte) string {
	var d struct {
		Type    string
		Delta   any
		Choices []struct {
			Message, Delta struct{ Content string }
		}
		Output []struct{ Content []struct{ Text string } }
	}
	if json.Unmarshal(b, &d) != nil {
		return ""
	}
	if text, ok := d.Delta.(string); ok && d.Type == "response.output_text.delta" {
		return text
	}
	out := ""
	for _, c := range d.Choices {
		out += c.Message.Content + c.Delta.Content
	}
	for _, o := range d.Output {
		for _, c := range o.Content {
			out += c.Text
		}
	}
	return out
}
