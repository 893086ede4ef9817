package holdfast

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// What an earlier process has left in the log counts from the start, and leaves the count when it is done; what is watched is
// there before it first happens, of a workflow that a changed configuration brings too.
func TestMetricsCountTheLogOverARestart(t *testing.T) {
	const yaml = `providers: {openai: {type: openai, base_url: "http://127.0.0.1:1/v1", api_key: k}}
limits: {commit_wait: 1m}
workflows:
  asked: {match: {paths: ["/by-name-only"]}, approval: dispatch}
`
	s := newServed(t, false)
	s.write(yaml)
	start := func() *served {
		e, err := New(Config{File: s.file, Store: "sqlite:" + filepath.Join(filepath.Dir(s.file), "jobs.db"), Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Env: "test"})
		if err == nil {
			err = e.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return &served{Engine: e, t: t, file: s.file}
	}
	post := func(e *served, path, body string) {
		t.Helper()
		resp, err := http.Post("http://"+e.AdminAddr()+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			t.Fatal(path, resp.Status)
		}
	}
	intents := func(e *served, waiting, settled int) {
		t.Helper()
		text := e.get("/metrics")
		for _, line := range []string{fmt.Sprintf(`holdfast_intents{state="intent_created"} %d`, waiting), fmt.Sprintf(`holdfast_intents{state="settled"} %d`, settled),
			`holdfast_unknown_entered_total{workflow="asked"} 0`, `holdfast_idempotency_store_errors_total{workflow="default"} 0`,
			`holdfast_bulkhead_rejected_total{tier="openai",workflow="asked"} 0`} {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("there is no %s in\n%s", line, text)
			}
		}
	}
	stop := func(e *served) {
		t.Helper()
		if err := e.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	e := start()
	for _, key := range []string{"a", "b"} {
		post(e, "/holdfast/v1/jobs", fmt.Sprintf(`{"path":"/v1/chat/completions","workflow":"asked","idempotency_key":%q,"body":{"model":"m","messages":[]}}`, key))
	}
	intents(e, 2, 0)
	stop(e)
	e = start()
	intents(e, 2, 0)
	id := strings.SplitN(strings.SplitN(e.get("/holdfast/v1/intents?lane=owner_review"), `"id":"`, 2)[1], `"`, 2)[0]
	post(e, "/holdfast/v1/jobs/"+id+"/reject", `{"by":"alice","reason":"no"}`)
	intents(e, 1, 1)
	e.write(yaml + "  late: {match: {paths: [/late]}}\n")
	if err := e.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := e.get("/metrics"); !strings.Contains(text, `holdfast_unknown_entered_total{workflow="late"} 0`) {
		t.Error(text)
	}
	stop(e)
}
