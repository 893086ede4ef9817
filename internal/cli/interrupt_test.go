package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// far is an admin API without a network: it answers call n, from 1.
type far struct {
	mu     sync.Mutex
	calls  int
	answer func(n int, r *http.Request) (status int, body any, err error)
}

func (f *far) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.calls++
	n := f.calls
	f.mu.Unlock()
	status, body, err := f.answer(n, r)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{admin.ScopeHeader: {"operator"}},
		Body: io.NopCloser(strings.NewReader(string(text))), Request: r}, nil
}

func (f *far) api() *adminAPI {
	return &adminAPI{base: &url.URL{Scheme: "http", Host: "gateway"}, name: "the admin API", http: &http.Client{Transport: f}}
}

func refusing(code, message string) (f admin.Failure) {
	f.Error.Code, f.Error.Message = code, message
	return f
}

func hang(r *http.Request) (int, any, error) {
	<-r.Context().Done()
	return 0, nil, context.Cause(r.Context())
}

var errNobodyThere = errors.New("connection refused")

// Who follows a job follows it over a restart of its gateway, for so long as was said, and is told.
func TestWaitReconnects(t *testing.T) {
	job := func(state, outcome string) admin.Intent {
		return admin.Intent{ID: "j", JobID: "j", State: state, Outcome: outcome, Lane: "background_retry"}
	}
	for name, c := range map[string]struct {
		answer func(n int, r *http.Request) (int, any, error)
		away   time.Duration
		says   string // in the report
		err    string // "": the job succeeded
		noEnd  bool
	}{
		"comes back": {func(n int, _ *http.Request) (int, any, error) {
			switch {
			case n < 10:
				return 0, nil, errNobodyThere
			case n < 20:
				return 503, refusing("draining", "shutting down"), nil
			}
			return 200, job("settled", "success"), nil
		}, time.Minute, "the gateway does not answer (connection refused); asking again for 1m00s\nthe gateway answers again", "", false},
		"stays away": {func(int, *http.Request) (int, any, error) { return 0, nil, errNobodyThere }, 20 * time.Second,
			"asking again for 15s\n", "has been away for 20s", true},
		"a balancer's": {func(n int, _ *http.Request) (int, any, error) {
			if n < 5 {
				return 502, "bad gateway", nil
			}
			return 200, job("settled", "success"), nil
		}, time.Minute, "does not answer (Bad Gateway)", "", false},
		"not at all": {func(int, *http.Request) (int, any, error) { return 0, nil, errNobodyThere }, 0, "", "connection refused", true},
		"another's":  {func(int, *http.Request) (int, any, error) { return 401, refusing("unauthorized", "no"), nil }, time.Minute, "", "credential", true},
		"gone":       {func(int, *http.Request) (int, any, error) { return 404, refusing("not_found", "no"), nil }, time.Minute, "", "no such operation", true},
		"ends badly": {func(int, *http.Request) (int, any, error) { return 200, job("settled", "failed"), nil }, time.Minute, "", "ended otherwise", false},
		"needs a word": {func(int, *http.Request) (int, any, error) { return 200, job("unknown", "unknown"), nil }, time.Minute, "",
			"j waits for evidence or a person: unknown, unknown, background_retry; next: look at the far side, then `holdfast intents resolve j --outcome success", false},
		"its owner's": {func(int, *http.Request) (int, any, error) {
			v := job("intent_created", "pending")
			v.Lane, v.History = intent.LaneReview, []ledger.Event{{Kind: "transition", Reason: "it waits for its owner: approval: dispatch"}, {Kind: "note", Reason: "seen"}}
			return 200, v, nil
		}, time.Minute, "", "; because it waits for its owner: approval: dispatch; next: `holdfast review approve j --by NAME --reason TEXT`", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out, report strings.Builder
				asJSON := false
				f := follower{away: c.away, asJSON: &asJSON}
				err := f.follow(t.Context(), (&far{answer: c.answer}).api(), job("dispatched", "pending"), &out, &report)
				if (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || errors.Is(err, errNoEnd) != c.noEnd) {
					t.Errorf("%v", err)
				}
				if !strings.Contains(report.String(), c.says) {
					t.Errorf("it says %q", report.String())
				}
				if c.noEnd != (out.Len() == 0) {
					t.Errorf("it prints %q", out.String())
				}
			})
		})
	}
}

// A wait that begins while its gateway is started again finds its job all the same.
func TestWaitBeginsWhileAway(t *testing.T) {
	for name, c := range map[string]struct {
		away time.Duration
		err  string
	}{"comes": {time.Minute, ""}, "stays away": {time.Second, "has been away for 1.0s"}, "not at all": {0, "connection refused"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var report strings.Builder
				f := follower{away: c.away}
				v, err := f.find(t.Context(), (&far{answer: func(n int, _ *http.Request) (int, any, error) {
					if n < 20 {
						return 0, nil, errNobodyThere
					}
					return 200, admin.Intent{ID: "j", JobID: "j"}, nil
				}}).api(), "mine", "", &report)
				if c.err == "" && (err != nil || v.ID != "j") || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
					t.Errorf("%+v %v", v, err)
				}
				if says := strings.Contains(report.String(), "asking again"); says != (c.away > 0) {
					t.Errorf("it says %q", report.String())
				}
			})
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithTimeoutCause(t.Context(), 3*time.Second, errTimeUp)
			defer stop()
			f := follower{away: time.Minute}
			_, err := f.find(ctx, (&far{answer: func(int, *http.Request) (int, any, error) { return 0, nil, errNobodyThere }}).api(), "mine", "", io.Discard)
			if !errors.Is(err, errTimeUp) || !strings.Contains(err.Error(), "holdfast jobs wait mine") {
				t.Error(err)
			}
		})
	})
}

// Who is interrupted says so, what was done by then, and how to go on.
func TestInterruptions(t *testing.T) {
	interrupted := func(t *testing.T, err error, says ...string) {
		t.Helper()
		var cut *signalled
		if !errors.As(err, &cut) || cut.sig != syscall.SIGINT {
			t.Fatalf("%v", err)
		}
		for _, s := range append(says, "interrupted: ") {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%q does not say %q", err, s)
			}
		}
		if strings.Contains(err.Error(), "cannot be reached") || strings.Contains(err.Error(), "serve") {
			t.Errorf("%q blames the gateway", err)
		}
	}
	t.Run("wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cut := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Minute, func() { cut(&signalled{syscall.SIGINT}) })
			asJSON := false
			f := follower{asJSON: &asJSON}
			api := (&far{answer: func(n int, r *http.Request) (int, any, error) {
				if n == 3 {
					return hang(r)
				}
				return 200, admin.Intent{ID: "j", JobID: "j", State: "dispatched", Outcome: "pending"}, nil
			}}).api()
			err := f.follow(ctx, api, admin.Intent{ID: "j", State: "intent_created", Outcome: "pending"}, io.Discard, io.Discard)
			interrupted(t, err, "j is not done: dispatched, pending; it goes on", "holdfast jobs wait j")
		})
	})
	t.Run("lines", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cut := context.WithCancelCause(t.Context())
			in, w := io.Pipe()
			defer w.Close()
			go func() {
				for i := range 5 { // the pipe then says nothing more, as a terminal
					_, _ = fmt.Fprintf(w, "{\"body\":{\"n\":%d}}\n", i)
				}
			}()
			time.AfterFunc(time.Minute, func() { cut(&signalled{syscall.SIGINT}) })
			m := submitMany{usual: gateway.JobRequest{Path: "/v1/chat/completions"}, connections: 2}
			err := m.submit(ctx, (&far{answer: func(n int, r *http.Request) (int, any, error) {
				switch n {
				case 2:
					return 400, refusing("invalid_request", "no"), nil
				case 5:
					return hang(r)
				}
				return 202, admin.Intent{ID: "j"}, nil
			}}).api(), in)
			interrupted(t, err, "3 submitted, 0 of them before, 1 refused; 1 were on their way, and may be submitted too", "the same command goes on, and submits nothing twice")
		})
	})
	t.Run("replay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cut := context.WithCancelCause(t.Context())
			m := replayMany{}
			jobs := []admin.Intent{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}
			api := (&far{answer: func(n int, r *http.Request) (int, any, error) {
				switch n {
				case 2:
					return 409, refusing("conflict", "no"), nil
				case 3:
					return hang(r)
				}
				return 200, admin.Intent{State: "intent_created"}, nil
			}}).api()
			time.AfterFunc(time.Minute, func() { cut(&signalled{syscall.SIGINT}) })
			out, err := m.each(ctx, api, jobs, time.Second, io.Discard)
			interrupted(t, err, "of 4 jobs 1 were moved, 1 refused, and c may have been", "the same command goes on")
			if len(out) != 2 {
				t.Errorf("%+v", out)
			}
		})
	})
	t.Run("a move", func(t *testing.T) {
		ctx, cut := context.WithCancelCause(t.Context())
		cut(&signalled{syscall.SIGINT})
		err := (&far{answer: func(_ int, r *http.Request) (int, any, error) { return hang(r) }}).api().call(ctx, http.MethodPost, "/x", nil, nil, nil)
		interrupted(t, err, "may be done all the same")
	})
}

// An upload waits for a gateway that is started again, and every line of it keeps its key.
func TestUploadOutlivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := submitMany{usual: gateway.JobRequest{Path: "/v1/chat/completions"}, connections: 1}
		var sent []gateway.JobRequest
		f := &far{answer: func(n int, r *http.Request) (int, any, error) {
			if n > 1 && n < 5 {
				return 0, nil, errNobodyThere
			}
			var in gateway.JobRequest
			err := json.NewDecoder(r.Body).Decode(&in)
			sent = append(sent, in)
			return 202, admin.Intent{ID: "j"}, err
		}}
		lines := "{\"body\":{\"n\":1}}\n{\"body\":{\"n\":2},\"idempotency_key\":\"mine\"}\n{\"body\":{},\"idempotency_key\":\"\"}\n{\"body\":{\"n\":1},\"upload\":true}\n"
		if err := m.submit(t.Context(), f.api(), strings.NewReader(lines)); err != nil {
			t.Fatal(err)
		}
		if len(sent) != 3 || !sent[0].Upload || !sent[1].Upload || sent[1].IdempotencyKey != "mine" || sent[2].IdempotencyKey != sent[0].IdempotencyKey || m.refused != 1 {
			t.Errorf("%+v, %d refused", sent, m.refused)
		}
	})
}

// A line that is refused is told what is wrong in the words of this command.
func TestLinesRefused(t *testing.T) {
	m := submitMany{usual: gateway.JobRequest{Path: "/v1/chat/completions"}}
	for line, want := range map[string]string{
		`{"body":{},"prio":"high"}`:           `: it has no field "prio"`,
		`{"body":{},"max_queue_age_ms":"1h"}`: ": its max_queue_age_ms cannot be a string",
		`{"body":{},"idempotency_key":7}`:     ": its idempotency_key cannot be a number",
		`[1]`:                                 ": it is an array",
		`{"body":{}} {}`:                      ": something follows the object",
		`{"body":`:                            ": unexpected EOF",
		`{"body":{},"idempotency_key":""}`:    "its idempotency_key is empty",
		`{"path":"/v1/chat/completions"}`:     "it has no body",
	} {
		_, err := m.parse([]byte(line))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "json:") {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}
