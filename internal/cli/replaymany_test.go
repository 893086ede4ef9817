package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/internal/admin"
)

// replays is an admin API that notes when which job was replayed, and how.
type replays struct {
	at      []time.Duration
	queries []string
	began   time.Time
	stop    context.CancelFunc // called behind the third
}

func (r *replays) RoundTrip(req *http.Request) (*http.Response, error) {
	r.at, r.queries = append(r.at, time.Since(r.began)), append(r.queries, req.URL.RawQuery)
	status, body := http.StatusOK, `{"state":"intent_created","lane":"background_retry","does":"send"}`
	if len(r.at) == 2 {
		status, body = http.StatusConflict, `{"error":{"code":"conflict","message":"it moved"}}`
	}
	if len(r.at) == 3 && r.stop != nil {
		r.stop()
	}
	return &http.Response{StatusCode: status, Header: http.Header{admin.ScopeHeader: {"all"}}, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
}

// Jobs are replayed one after the other at their rate, one that is refused holds up no other, and an interrupted replay
// stops between two of them. A dry run asks of each and moves none, without delay.
func TestReplayRate(t *testing.T) {
	for name, c := range map[string]struct {
		dry, interrupted bool
		asked            int
		last             time.Duration
	}{"at its rate": {asked: 5, last: 8 * time.Second}, "interrupted": {interrupted: true, asked: 3, last: 4 * time.Second},
		"dry": {dry: true, asked: 5}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				far := &replays{began: time.Now()}
				if c.interrupted {
					far.stop = stop
				}
				gap, err := perTime("30/m")
				if err != nil {
					t.Fatal(err)
				}
				var jobs []admin.Intent
				for i := range 5 {
					jobs = append(jobs, admin.Intent{ID: fmt.Sprint("job-", i)})
				}
				m := replayMany{dryRun: c.dry}
				api := &adminAPI{base: &url.URL{Scheme: "http", Host: "admin"}, http: &http.Client{Transport: far}}
				out, err := m.each(ctx, api, jobs, gap, io.Discard)
				if len(far.at) != c.asked || c.interrupted != (err != nil) {
					t.Fatalf("%d of %d were asked for at %v: %v", len(far.at), c.asked, far.at, err)
				}
				if took := far.at[len(far.at)-1]; took < c.last || took > c.last+time.Second {
					t.Errorf("the last at %s, want %s", took, c.last)
				}
				for i, d := range out {
					if refused := i == 1; refused != (d.Refused != "") || !refused && d.Does != admin.Sends || d.DryRun != c.dry {
						t.Errorf("job %d: %+v", i, d)
					}
				}
				for _, q := range far.queries {
					if c.dry != strings.Contains(q, "dry_run=true") {
						t.Errorf("asked with %q", q)
					}
				}
			})
		})
	}
}
