package gateway_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

const (
	toolSecret  = "shop-secret/4711-abcdef"
	modelSecret = "sk-model-secret-4711-abcdef"
)

const secretConfig = `
env: test
providers:
  openai: {type: openai, base_url: "FAR/v1", api_key: "sk-model-secret-4711-abcdef"}
workflows:
  default: {retry: {max_attempts: 1}}
tools:
  shop:
    base_url: FAR/shop
    headers: {X-Shop-Token: "shop-secret/4711-abcdef", X-Region: "somewhere-north"}
    routes:
      - {match: "POST /read", effect: read}
      - {match: "POST /watched", key: "{cart}", mode: observe}
      - {match: "POST /late", key: "{cart}", timeout: 200ms}
      - {match: "POST /*", key: "{cart}", timeout: 2s, reconcile: {get: "/find?ref={key}", happened: "body.found == true", every: 50ms, quiet: 4s}}
  plain: {base_url: FAR/shop, routes: [{match: "POST /*", key: "{cart}"}]}
`

// echo is a far side that says back every secret that it is sent, in each form that it can.
func echo(w http.ResponseWriter, r *http.Request, late <-chan struct{}) {
	secret := r.Header.Get("X-Shop-Token") + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if secret == "" {
		secret = "nothing"
	}
	w.Header().Set("X-Echo", "you sent "+secret)
	w.Header().Set("X-Request-Id", secret)
	w.Header().Set("Content-Type", "application/json")
	status := 200
	switch path := r.URL.Path; {
	case strings.Contains(path, "refused"):
		status = 422
	case strings.Contains(path, "unknown"):
		status = 500
	case strings.Contains(path, "late"):
		<-late
	case strings.Contains(path, "stream"), strings.HasSuffix(path, "/chat/completions"):
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s", secret[:5])
		_ = http.NewResponseController(w).Flush()
		fmt.Fprintf(w, "%s\"}}]}\n\n", secret[5:])
		fmt.Fprint(w, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		return
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"found":true,"region":"somewhere-north","error":{"type":"%s","message":"%s"},"escaped":"%s","short":"shop"}`, secret, secret,
		strings.ReplaceAll(secret, "/", `\/`))
}

// TestSecretsStayHere holds semantics 45: a secret that a far side is sent comes back to no client, and is kept and logged nowhere.
func TestSecretsStayHere(t *testing.T) {
	late := make(chan struct{})
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { echo(w, r, late) }))
	defer far.Close()
	logs := &journal{}
	r := newRig(t, func(c *rigConfig) {
		c.yaml, c.logs = strings.ReplaceAll(secretConfig, "FAR", far.URL), logs
	})
	r.patrol()
	clean := func(what string, a *answered) {
		t.Helper()
		all := fmt.Sprint(a.header) + string(a.body)
		for _, secret := range []string{toolSecret, modelSecret, strings.ReplaceAll(toolSecret, "/", `\/`)} {
			if strings.Contains(all, secret) {
				t.Errorf("%s shows a secret: %s", what, all)
			}
		}
	}
	for _, path := range []string{"done", "refused", "unknown", "stream", "read", "watched", "late"} {
		q := request{path: "/tools/shop/" + path, body: `{"cart":"` + path + `"}`}
		first := r.do(q)
		clean(path, first)
		if path == "done" && (!strings.Contains(string(first.body), "somewhere-north") || !strings.Contains(string(first.body), "*****")) {
			t.Errorf("what is no secret is blotted out, or nothing is: %s", first.body)
		}
		if path == "late" {
			close(late)
		}
		if path == "late" || path == "unknown" {
			r.settled(first.header.Get("Holdfast-Intent"))
			again := r.must(q, 200)
			clean(path+" found", again)
		}
		again := r.do(q)
		clean(path+" again", again)
		if path == "done" && !bytes.Equal(first.body, again.body) {
			t.Errorf("a replay is not what the first one had: %s, %s", first.body, again.body)
		}
	}
	for range 2 {
		a := r.do(streamed("echo").key("k1"))
		if clean("a stream", a); a.status != 200 || !strings.Contains(string(a.body), "[DONE]") {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if a := r.do(request{path: "/tools/plain/done", body: `{"cart":"p"}`}); !strings.Contains(string(a.body), `"nothing"`) {
		t.Errorf("without a secret an answer is changed: %s", a.body)
	}
	r.close()
	kept, err := os.ReadFile(r.path)
	if err != nil {
		t.Fatal(err)
	}
	wal, _ := os.ReadFile(r.path + "-wal")
	for what, text := range map[string]string{"the store": string(kept) + string(wal), "the log": logs.text()} {
		for _, secret := range []string{toolSecret, modelSecret, toolSecret[5:]} {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds a secret", what)
			}
		}
	}
}
