package crash

import (
	"bytes"
	"fmt"
	"github.com/holdfast-ai/holdfast/test/farside"

	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// read opens the store beside the gateway that runs on it.
func (r *rig) read() *farside.Book {
	r.t.Helper()
	l, err := sqlite.OpenReadOnly(r.t.Context(), r.store())
	if err != nil {
		r.t.Fatalf("read the store: %v", err)
	}
	defer l.Close()
	return r.Read(l)
}

// oracle checks every operation so far against the store that the gateway beside us has recovered.
func (r *rig) oracle(ops []*farside.Op) *farside.Book {
	r.t.Helper()
	// The far side first: what it does while we read may be in the store only later, never the other way round.
	effects, calls := r.Effects(), r.Calls()
	b := r.read()
	for _, o := range ops {
		r.Judge(o, b, effects[o.Name], calls[o.Name].Calls)
	}
	found, err := sqlite.Verify(r.t.Context(), r.store())
	if err != nil {
		r.t.Fatalf("verify: %v", err)
	}
	for _, v := range found {
		r.t.Errorf("store verify: %s", v)
	}
	return b
}

// replay asks again for what clients were told, before anybody else does: a success comes back byte for byte,
// an unknown stays one, and nothing is sent.
func (r *rig) replay(ops []*farside.Op, b *farside.Book) {
	r.t.Helper()
	for _, o := range ops {
		if o.Key == "" || o.Ended == "" || o.Ended == "failed" {
			continue
		}
		before := r.CallsOf(o.Name)
		for _, s := range b.ByOp[o.Name] {
			kept := s.State == ledger.Settled && s.Outcome == ledger.OutcomeSuccess
			if !kept && s.State != ledger.Unknown {
				continue
			}
			a, err := r.Send(r.gateway.URL, "/v1/chat/completions", o.Body,
				map[string]string{"Holdfast-Workflow": o.Workflow, "Idempotency-Key": o.Key})
			switch {
			case err != nil:
				r.mustDie(fmt.Sprintf("op %s (%s): asked again: %v", o.Name, o.Kind.Name, err))
				return
			case kept && (a.Status != 200 || !a.Replayed() || !bytes.Equal(a.Body, s.Body)):
				r.t.Errorf("op %s (%s): replay differs: %v\non record: %s", o.Name, o.Kind.Name, a, s.Body)
			case !kept && (a.Code() != "outcome_unknown" || a.Intent() != s.ID):
				r.t.Errorf("op %s (%s): is unknown as %s, asked again: %v", o.Name, o.Kind.Name, s.ID, a)
			}
			if r.CallsOf(o.Name) != before {
				r.t.Errorf("op %s (%s): asking again sent it again", o.Name, o.Kind.Name)
			}
		}
	}
}
