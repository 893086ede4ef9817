package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/route"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// closed is an upstream that cannot be reached: what gets to it was taken for a good request.
type closed struct{ upstream.Client }

func (closed) Do(context.Context, *upstream.Request) (*upstream.Response, error) {
	return nil, &upstream.Error{Sent: upstream.None, Phase: upstream.PhaseDial, Err: context.DeadlineExceeded}
}

// FuzzRequest sends any head to the stages before the call: they never panic, answer bad input with a 4xx, and put
// nothing on record of what they refuse.
func FuzzRequest(f *testing.F) {
	for _, s := range [][6]string{
		{"POST", "/v1/chat/completions", "", "k", "1000", "default"},
		{"POST", "/v1/messages", "beta=true", "", "abc", "external"},
		{"POST", "/v1beta/models/gemini:streamGenerateContent", "alt=sse&key=secret", "key", "0", ""},
		{"GET", "/v1/models", "key=%zz", "", "", ""},
		{"POST", "/openai/deployments/d/chat/completions", "api-version=1", "\x7f", "-5", "nobody"},
		{"CONNECT", "/", "", "", "", ""},
		{"POST", "/openai/%2e%2e/x", "%6bey=a;b", "a b", "9223372036854775808", "off"},
		{"DELETE", "//host/@x", "&&&=&", strings.Repeat("k", 256), "1.5", "watch"},
		{"OPTIONS", "/%00%ff", "a=b=c", "ключ", " 7", "default"},
	} {
		f.Add(s[0], s[1], s[2], s[3], s[4], s[5], []byte(`{"model":"m","messages":[]}`))
	}
	r := newFuzzRig(f)
	f.Fuzz(func(t *testing.T, method, path, query, key, deadline, workflow string, body []byte) {
		u, err := url.ParseRequestURI("/" + strings.TrimPrefix(path, "/"))
		if err != nil || strings.ContainsAny(query, " \x00\r\n\t\x7f#") || !token(method) {
			return // net/http refuses it before we see it
		}
		u.RawQuery = query
		req := &http.Request{Method: method, URL: u, Host: "localhost", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody, RemoteAddr: "127.0.0.1:1"}
		if len(body) > 0 {
			req = httptest.NewRequest("POST", "http://localhost/", strings.NewReader(string(body)))
			req.Method, req.URL, req.Header = method, u, http.Header{"Content-Type": {"application/json"}}
		}
		for name, v := range map[string]string{"Idempotency-Key": key, "Holdfast-Deadline-Ms": deadline, "Holdfast-Workflow": workflow} {
			if v != "" {
				req.Header[name] = []string{v}
			}
		}
		before := r.count(t)
		w := httptest.NewRecorder()
		r.gw.ServeHTTP(w, req)
		code := gateway.Code(w.Header().Get("Holdfast-Error"))
		switch {
		case w.Code < 500:
		case code == gateway.CodeAllTiersFailed, code == gateway.CodeDeadline, code == gateway.CodeOutcomeUnknown, code == gateway.CodeCircuitOpen:
			return // it was a good request, and nobody answers here, until the breaker says so
		default:
			t.Fatalf("%d %s: %s", w.Code, code, w.Body)
		}
		if w.Code >= 400 && code != gateway.CodeKeyReused && r.count(t) != before {
			t.Fatalf("%d %s, and a row of it", w.Code, code)
		}
	})
}

func token(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r < 'A' || r > 'Z' }) < 0
}

type fuzzRig struct {
	gw    *gateway.Gateway
	store ledger.Ledger
}

func newFuzzRig(f *testing.F) *fuzzRig {
	cfg, faults := policy.Parse("fuzz.yaml", []byte(strings.ReplaceAll(workflows, "SIM", "http://127.0.0.1:1")), func(string) (string, bool) { return "", false })
	if cfg == nil {
		f.Fatalf("%v", faults)
	}
	store, log := openStore(f)
	gw, err := gateway.New(f.Context(), gateway.Config{Policy: cfg, Ledger: store, Log: log, Upstream: closed{}, Routes: route.New(route.Config{Cooldowns: store})})
	if err != nil {
		f.Fatal(err)
	}
	return &fuzzRig{gw, store}
}

func (r *fuzzRig) count(t *testing.T) string {
	list, err := r.store.List(context.Background(), ledger.Filter{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		return ""
	}
	return list[0].ID
}

// openStore is a store and its log without a gateway, closed with the test.
func openStore(t testing.TB) (ledger.Ledger, *intent.Log) {
	store, err := sqlite.Open(context.Background(), sqlite.Config{Path: filepath.Join(t.TempDir(), "holdfast.db"), Env: "test"})
	if err != nil {
		t.Fatal(err)
	}
	log := intent.New(intent.Config{Ledger: store, Exclusive: true})
	t.Cleanup(func() {
		log.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store, log
}
