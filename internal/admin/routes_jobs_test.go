package admin

import (
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// A reset ends the wait of the jobs of its routes: of the one that the route told its time, of those that waited with it, and
// of new ones (semantics 34).
func TestResetReleasesJobs(t *testing.T) {
	r, far, h := working(t)
	r.steps(far, "first", `{"status":429,"headers":{"Retry-After":"500"}}`)
	ids := []string{r.job(h, "default", "first")}
	r.until(ids[0], func(rec *ledger.Record) bool {
		return rec.Attempt == 1 && rec.ReadyAt.After(time.Now().Add(time.Minute))
	})
	for _, op := range []string{"second", "third"} {
		ids = append(ids, r.job(h, "default", op))
	}
	for range 2 { // the other pattern lifts nothing
		if w := send(h, "POST", "/holdfast/v1/routes/reset", `{"route":"anthropic/*","reason":"test"}`); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	for _, id := range ids {
		if rec, err := r.api.Ledger.Get(t.Context(), id); err != nil || rec.State == ledger.Settled {
			t.Errorf("%v %v", rec, err)
		}
	}
	if w := send(h, "POST", "/holdfast/v1/routes/reset", `{"route":"openai/*","reason":"test"}`); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for _, id := range append(ids, r.job(h, "default", "fourth")) {
		r.until(id, func(rec *ledger.Record) bool { return rec.Outcome == ledger.OutcomeSuccess })
	}
}
