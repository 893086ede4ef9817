package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger"
)

// parked serves what a person does with jobs that only a person moves: review and dead letter.
func (a *API) parked(mux *http.ServeMux) {
	if a.Gateway == nil {
		return
	}
	mux.HandleFunc("POST /holdfast/v1/jobs/{id}/replay", a.replay)
	mux.HandleFunc("POST /holdfast/v1/jobs/{id}/approve", a.approve)
	mux.HandleFunc("POST /holdfast/v1/jobs/{id}/reject", func(w http.ResponseWriter, r *http.Request) { a.drop(w, r, intent.LaneReview) })
	mux.HandleFunc("POST /holdfast/v1/jobs/{id}/discard", func(w http.ResponseWriter, r *http.Request) { a.drop(w, r, intent.LaneDead) })
}

// Replay is the body of POST …/replay: the five fields by their names, all of which are needed.
type Replay struct {
	Owner  string `json:"replay_owner"`
	Reason string `json:"replay_reason"`
	// IdempotencyResult is what was found out about earlier attempts: not_executed, executed, or unknown.
	IdempotencyResult string `json:"idempotency_result"`
	CostReviewed      bool   `json:"cost_reviewed"`
	// RouteOverride is same, PROVIDER or PROVIDER/MODEL.
	RouteOverride string `json:"route_override"`
}

// The words of idempotency_result.
const (
	NotExecuted = "not_executed"
	Executed    = "executed"
	NotKnown    = "unknown"
)

// CheckResult refuses what is none of the words of idempotency_result. Its error goes on behind the field's name.
func CheckResult(word string) error {
	words := []string{NotExecuted, Executed, NotKnown}
	if slices.Contains(words, word) {
		return nil
	}
	return fmt.Errorf("is one of %s, what is known of the earlier attempts, not %.64q", strings.Join(words, ", "), word)
}

// Missing names the fields that are not there.
func (p Replay) Missing() []string {
	var names []string
	for _, f := range []struct {
		name string
		ok   bool
	}{{"replay_owner", strings.TrimSpace(p.Owner) != ""}, {"replay_reason", strings.TrimSpace(p.Reason) != ""},
		{"idempotency_result", p.IdempotencyResult != ""}, {"cost_reviewed", p.CostReviewed}, {"route_override", p.RouteOverride != ""}} {
		if !f.ok {
			names = append(names, f.name)
		}
	}
	return names
}

// replay sends a job out of the dead letter back to its lane, as a new generation of the same intent.
func (a *API) replay(w http.ResponseWriter, r *http.Request) {
	var in Replay
	if !decode(w, r, &in, "{replay_owner, replay_reason, idempotency_result, cost_reviewed, route_override}") {
		return
	}
	if missing := in.Missing(); missing != nil {
		fail(w, http.StatusBadRequest, "invalid_request", "a replay needs all five fields; missing: "+strings.Join(missing, ", ")+
			" (cost_reviewed is true once somebody has looked at what it costs)")
		return
	}
	if err := CheckResult(in.IdempotencyResult); err != nil {
		fail(w, http.StatusBadRequest, "invalid_request", "idempotency_result "+err.Error())
		return
	}
	rec, ok := a.job(w, r)
	if !ok {
		return
	}
	if err := a.Gateway().CheckOverride(&rec.Intent, in.RouteOverride); err != nil {
		fail(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	said, err := json.Marshal(in)
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	a.revive(w, r, rec, intent.LaneDead, in.IdempotencyResult, in.RouteOverride,
		intent.Revival{By: in.Owner, Reason: in.Reason, Rule: "deadletter replay", Evidence: said})
}

// Word is a person's word on a parked job.
type Word struct {
	By     string `json:"by"`
	Reason string `json:"reason"`
	// IdempotencyResult, of an approval, is needed where the outcome of an earlier attempt is unknown.
	IdempotencyResult string `json:"idempotency_result,omitempty"`
}

func (a *API) word(w http.ResponseWriter, r *http.Request) (in Word, ok bool) {
	if !decode(w, r, &in, "{by, reason}") {
		return in, false
	}
	if strings.TrimSpace(in.By) == "" || strings.TrimSpace(in.Reason) == "" {
		fail(w, http.StatusBadRequest, "invalid_request", "by and reason say who decided and why: the log keeps them")
		return in, false
	}
	return in, true
}

// approve sends a job out of review back to its lane.
func (a *API) approve(w http.ResponseWriter, r *http.Request) {
	in, ok := a.word(w, r)
	if !ok {
		return
	}
	if in.IdempotencyResult != "" {
		if err := CheckResult(in.IdempotencyResult); err != nil {
			fail(w, http.StatusBadRequest, "invalid_request", "idempotency_result "+err.Error())
			return
		}
	}
	rec, ok := a.waiting(w, r)
	if !ok {
		return
	}
	said, err := json.Marshal(in)
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	a.revive(w, r, rec, intent.LaneReview, in.IdempotencyResult, gateway.SameRoute, intent.Revival{By: in.By, Reason: in.Reason, Rule: "review approve", Evidence: said})
}

// The words of what a replay does.
const (
	Sends    = "send"   // a new generation is sent
	Settles  = "settle" // it is settled as a success, and nothing is sent
	Answered = "answer" // it is settled already, and its own result is the answer
)

// refusedReplay says why a job is not moved.
type refusedReplay struct {
	code, message string
}

// planned says what becomes of a parked job by what is known of its earlier attempts.
func planned(rec *ledger.Record, lane, result string) (does string, refused *refusedReplay) {
	switch {
	case rec.State == ledger.Settled && rec.Outcome != ledger.OutcomeSuccess && rec.Answer == nil:
		return "", endedForGood(rec)
	case rec.State == ledger.Settled:
		return Answered, nil
	case rec.Lane != lane:
		return "", &refusedReplay{"conflict", "the job is not in " + lane + ": it is " + rec.State.String() + " in " + rec.Lane}
	case result == Executed && rec.State == ledger.Unknown:
		return Settles, nil
	case result == Executed:
		return "", &refusedReplay{"conflict", "every attempt of this job failed for certain: there is nothing that could have been executed; discard it, or say not_executed"}
	case rec.State == ledger.Unknown && !vouched(rec, result):
		return "", &refusedReplay{"outcome_unknown", "an earlier attempt may have had its effect: look at the far side, and say with idempotency_result " +
			"not_executed or executed what is there"}
	}
	return Sends, nil
}

// endedForGood refuses to send again what a person, its caller or its age has ended, of which there is no answer to give either.
func endedForGood(rec *ledger.Record) *refusedReplay {
	said := "it has ended for good (settled, " + rec.Outcome.String() + "): nothing is sent, and there is no answer to give"
	if rec.JobID != "" {
		said += "; its key is free, and submitting it again makes a new job"
	}
	return &refusedReplay{"conflict", said}
}

// vouched reports whether nothing can be sent twice that has an effect: a generation that may have been billed may be asked
// for again by whoever has looked at the cost.
func vouched(rec *ledger.Record, result string) bool {
	return result == NotExecuted || result == NotKnown && !rec.Hold
}

// DryRun answers a replay that only asks (?dry_run=true).
type DryRun struct {
	ID string `json:"id"`
	// Does is send, settle or answer.
	Does     string `json:"does"`
	DryRun   bool   `json:"dry_run"`
	Attempts int    `json:"attempts"`        // that were made
	Billed   int    `json:"possibly_billed"` // of them, those that may have been
}

// revive moves a parked job. What is settled is not moved: its own result is the answer, and the word that asked for it is
// kept.
func (a *API) revive(w http.ResponseWriter, r *http.Request, rec *ledger.Record, lane, result, override string, v intent.Revival) {
	q := r.URL.Query() // whose names strict has checked
	asks, err := flagOf(q, "dry_run")
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	does, refused := planned(rec, lane, result)
	if does == Sends && rec.JobID != "" {
		if err := a.Gateway().Movable(&rec.Intent, override); err != nil {
			refused = &refusedReplay{"conflict", err.Error()}
		}
	}
	if refused != nil {
		fail(w, http.StatusConflict, refused.code, refused.message)
		return
	}
	if asks {
		answer(w, DryRun{ID: rec.ID, Does: does, DryRun: true, Attempts: rec.Attempt, Billed: rec.BilledMaybe})
		return
	}
	op := a.Log.Load(rec)
	switch does {
	case Answered:
		op.Note(ledger.Event{Kind: "note", Actor: v.By, Reason: v.Rule + ": it was settled already; nothing was sent", Rule: v.Rule, Evidence: v.Evidence})
		w.Header().Set("Idempotency-Replayed", "true")
		a.again(w, r, rec.ID)
		return
	case Settles:
		a.moved(w, r, rec.ID, op.Resolve(ledger.OutcomeSuccess, v.By, v.Reason, v.Evidence, a.Ledger.Now().Add(a.termsOf(rec).ttl)))
		return
	}
	v.NotExecuted = vouched(rec, result)
	if rec.JobID == "" { // its client's next call has it sent
		v.ExpiresAt = a.Ledger.Now().Add(a.termsOf(rec).ttl)
	} else if age := a.Gateway().QueueAge(&rec.Intent); age > 0 {
		v.ExpiresAt = a.Ledger.Now().Add(age)
	}
	if a.moved(w, r, rec.ID, op.Revive(v)) && rec.JobID != "" {
		a.Gateway().Look(r.Context(), rec.ID)
	}
}

// drop ends a parked job for good.
func (a *API) drop(w http.ResponseWriter, r *http.Request, lane string) {
	in, ok := a.word(w, r)
	if !ok {
		return
	}
	rec, ok := a.waiting(w, r)
	if !ok {
		return
	}
	if rec.Lane != lane || rec.State == ledger.Settled {
		fail(w, http.StatusConflict, "conflict", "the job is not in "+lane+": it is "+rec.State.String()+" in "+rec.Lane)
		return
	}
	op := a.Log.Load(rec)
	if rec.State == ledger.Unknown {
		a.moved(w, r, rec.ID, op.Resolve(ledger.OutcomeFailed, in.By, in.Reason, nil, time.Time{}))
		return
	}
	if rec.JobID == "" {
		a.moved(w, r, rec.ID, op.Refuse(in.By, in.Reason, lane, a.Ledger.Now().Add(a.termsOf(rec).ttl)))
		return
	}
	a.moved(w, r, rec.ID, op.GiveUp(in.By, in.Reason, lane))
}

// moved answers for a move that a person asked for.
func (a *API) moved(w http.ResponseWriter, r *http.Request, id string, err error) bool {
	var illegal *intent.IllegalStepError
	switch {
	case errors.Is(err, ledger.ErrStale), errors.As(err, &illegal):
		fail(w, http.StatusConflict, "conflict", "the job moved in this moment; look at it again")
	case err != nil:
		a.away(w, err)
	default:
		a.again(w, r, id)
		return true
	}
	return false
}

func (a *API) job(w http.ResponseWriter, r *http.Request) (*ledger.Record, bool) {
	return a.found(w, r, func(rec *ledger.Record) bool { return rec.JobID != "" })
}

// waiting finds a job, or a call that waits for its owner.
func (a *API) waiting(w http.ResponseWriter, r *http.Request) (*ledger.Record, bool) {
	return a.found(w, r, func(rec *ledger.Record) bool { return rec.JobID != "" || intent.Parked(rec.Lane) })
}

func (a *API) found(w http.ResponseWriter, r *http.Request, fits func(*ledger.Record) bool) (*ledger.Record, bool) {
	rec, err := a.Ledger.Get(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, ledger.ErrNotFound), err == nil && !fits(rec):
		fail(w, http.StatusNotFound, "not_found", "there is no such job")
	case err != nil:
		a.away(w, err)
	default:
		return rec, true
	}
	return nil, false
}

// decode reads a small JSON body strictly.
func decode(w http.ResponseWriter, r *http.Request, into any, form string) bool {
	d := json.NewDecoder(io.LimitReader(r.Body, 64<<10))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more follows the object")
		}
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request", "the body is "+form+": "+err.Error())
		return false
	}
	return true
}
