package admin

import (
	"context"
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

// jobs serves the jobs API (interface.md §3): on the data port each caller's own jobs, on the admin port all.
func (a *API) jobs(mux *http.ServeMux, tenant scope) {
	if a.Gateway == nil {
		return
	}
	mux.HandleFunc("POST /holdfast/v1/jobs", a.submit)
	mux.HandleFunc("GET /holdfast/v1/jobs", func(w http.ResponseWriter, r *http.Request) { a.listJobs(w, r, tenant(r)) })
	for pattern, serve := range map[string]func(http.ResponseWriter, *http.Request, *ledger.Record){
		"GET /holdfast/v1/jobs/{id}":        func(w http.ResponseWriter, r *http.Request, rec *ledger.Record) { a.write(w, r, rec, "") },
		"GET /holdfast/v1/jobs/{id}/result": a.result,
		"GET /holdfast/v1/jobs/{id}/events": a.events,
		"DELETE /holdfast/v1/jobs/{id}":     a.cancel,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			rec, err := a.Ledger.Get(r.Context(), r.PathValue("id"))
			switch {
			case errors.Is(err, ledger.ErrNotFound), err == nil && (rec.JobID == "" || tenant(r) != "" && rec.Tenant != tenant(r)):
				fail(w, http.StatusNotFound, "not_found", "there is no such job")
			case err != nil:
				a.away(w, err)
			default:
				serve(w, r, rec)
			}
		})
	}
}

// submission is the body of POST /holdfast/v1/jobs.
type submission struct {
	gateway.JobRequest
	// Key tells a key that is empty from one that was left out.
	Key *string `json:"idempotency_key"`
}

// job is what is submitted; an error comes with its code.
func (s *submission) job() (in gateway.JobRequest, code string, err error) {
	in = s.JobRequest
	if s.Key != nil {
		if in.IdempotencyKey = *s.Key; in.IdempotencyKey == "" {
			return in, "invalid_idempotency_key", errors.New("idempotency_key is empty; leave it out, and one is derived from the request")
		}
	}
	if !slices.Contains(Priorities, in.Priority) && in.Priority != "" {
		return in, "invalid_request", fmt.Errorf("priority is one of %s, not %.64q", strings.Join(Priorities, ", "), in.Priority)
	}
	return in, "", nil
}

// Priorities are the words of a job's priority.
var Priorities = []string{"high", "normal", "low"}

// submit answers 202 with the job; the same key again gives the same job.
func (a *API) submit(w http.ResponseWriter, r *http.Request) {
	in, ok := a.submitted(w, r)
	if !ok {
		return
	}
	rec, known, err := a.Gateway().SubmitJob(r, in)
	var answered *gateway.AnsweredError
	switch {
	case errors.As(err, &answered):
		answered.Answer(w)
		return
	case err != nil:
		refuse(w, err)
		return
	}
	w.Header().Set("Location", "/holdfast/v1/jobs/"+rec.ID)
	w.Header().Set("Holdfast-Intent", rec.ID)
	if known {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	answer(w, View(rec))
}

// submitted reads the body of a submission, or refuses it.
func (a *API) submitted(w http.ResponseWriter, r *http.Request) (in gateway.JobRequest, ok bool) {
	var sent submission
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, a.Policy().Limits.MaxRequestBytes))
	d.DisallowUnknownFields()
	err := d.Decode(&sent)
	if err == nil && d.Decode(&struct{}{}) != io.EOF {
		err = errors.New("something follows the object")
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		fail(w, http.StatusRequestEntityTooLarge, "request_too_large", fmt.Sprintf("the body is over limits.max_request_bytes, %d", large.Limit))
		return in, false
	case err != nil:
		fail(w, http.StatusBadRequest, "invalid_request",
			"the body is {path, body, workflow, idempotency_key?, owner_key?, priority?, max_queue_age_ms?, callback_url?, upload?}: "+err.Error())
		return in, false
	}
	in, code, err := sent.job()
	if err != nil {
		fail(w, http.StatusBadRequest, code, err.Error())
	}
	return in, err == nil
}

// refuse answers with an error of the gateway's.
func refuse(w http.ResponseWriter, err error) {
	var e *gateway.Error
	if !errors.As(err, &e) {
		fail(w, http.StatusInternalServerError, "internal_error", "the job was not taken on")
		return
	}
	e.Headers(w.Header())
	fail(w, e.Status(), string(e.Code), e.Message)
}

func (a *API) listJobs(w http.ResponseWriter, r *http.Request, tenant string) {
	var f ledger.Filter
	q, err := parameters(r, listParameters[1:]) // a key names one operation
	if err == nil {
		f, err = filter(q)
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	if f.Jobs = true; tenant != "" {
		f.Tenant = tenant
	}
	a.page(w, r, &f)
}

// result is the provider's own answer, as it came. What is not there yet, or never will be, is a 409 that says why.
func (a *API) result(w http.ResponseWriter, r *http.Request, rec *ledger.Record) {
	h := w.Header()
	h.Set("Holdfast-Intent", rec.ID)
	switch {
	case rec.State == ledger.Unknown:
		fail(w, http.StatusConflict, "outcome_unknown", "the effect may have happened; its outcome is being looked for, or waits for a person")
		return
	case intent.Parked(rec.Lane) && rec.State != ledger.Settled:
		fail(w, http.StatusForbidden, "owner_review_required", "the job waits for a person in "+rec.Lane)
		return
	case rec.State != ledger.Settled:
		h.Set("Retry-After", "1")
		fail(w, http.StatusConflict, "request_in_flight", "the job is not done yet: "+rec.State.String()+", "+rec.Lane)
		return
	}
	var body *ledger.Body
	if rec.Answer != nil && rec.Answer.HasBody {
		var err error
		if body, err = a.Ledger.Body(r.Context(), rec.ID, ledger.BodyAnswer); err != nil && !errors.Is(err, ledger.ErrNotFound) {
			a.away(w, err)
			return
		}
	}
	if rec.Answer == nil || rec.Answer.HasBody && body == nil {
		h.Set("Holdfast-Recorded", "no")
		fail(w, http.StatusNotFound, "not_found", "the job was settled as "+rec.Outcome.String()+lastError(rec)+", and no answer of it is kept")
		return
	}
	for name, values := range rec.Answer.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	h.Set("Holdfast-Source", rec.Answer.Source)
	if rec.Answer.HTTPStatus >= 400 {
		// What is kept is definite (semantics 14), and asking for it again gives it again.
		h.Set("Holdfast-Safe-To-Retry", "yes")
		h.Set("X-Should-Retry", "false")
	}
	w.WriteHeader(rec.Answer.HTTPStatus)
	if body != nil {
		_, _ = w.Write(body.Data) // a client that left
	}
}

func lastError(rec *ledger.Record) string {
	if rec.LastError == "" {
		return ""
	}
	return " (" + rec.LastError + ")"
}

// cancel ends a job that was not dispatched. What is on its way, or may have happened, is not cancelled.
func (a *API) cancel(w http.ResponseWriter, r *http.Request, rec *ledger.Record) {
	if rec.State == ledger.Settled && rec.Outcome == ledger.OutcomeDiscarded {
		a.write(w, r, rec, "")
		return
	}
	if rec.State != ledger.Created {
		code := "request_in_flight"
		switch rec.State {
		case ledger.Unknown:
			code = "outcome_unknown"
		case ledger.Settled, ledger.Confirmed:
			code = "conflict"
		}
		fail(w, http.StatusConflict, code, "only a job that is not dispatched is cancelled; this one is "+rec.State.String())
		return
	}
	err := a.Log.Load(rec).GiveUp("caller", "cancelled", "DELETE "+r.URL.Path)
	var illegal *intent.IllegalStepError
	switch {
	case errors.Is(err, ledger.ErrStale), errors.As(err, &illegal):
		fail(w, http.StatusConflict, "request_in_flight", "a worker took the job in this moment; ask again")
	case err != nil:
		a.away(w, err)
	default:
		a.Gateway().Look(r.Context(), rec.ID)
		a.again(w, r, rec.ID)
	}
}

// again answers with an operation as it now stands.
func (a *API) again(w http.ResponseWriter, r *http.Request, id string) {
	rec, err := a.Ledger.Get(r.Context(), id)
	if err != nil {
		a.away(w, err)
		return
	}
	a.write(w, r, rec, "")
}

const (
	// eventsEvery is how often a job's history is looked at for whoever follows it.
	eventsEvery = 250 * time.Millisecond
	// eventsAlive is how often a silent stream shows that it lives.
	eventsAlive = 15 * time.Second
)

// JobEvent is one data line of GET …/events.
type JobEvent struct {
	State   string       `json:"state"`
	Outcome string       `json:"outcome"`
	Lane    string       `json:"lane"`
	Attempt int          `json:"attempt"`
	Event   ledger.Event `json:"event"`
}

// events streams a job's history, from its beginning or from behind Last-Event-ID, until it is settled.
func (a *API) events(w http.ResponseWriter, r *http.Request, rec *ledger.Record) {
	rc := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	shown, version, silent := 0, int64(-1), time.Now()
	if _, err := fmt.Sscanf(r.Header.Get("Last-Event-ID"), "%d", &shown); err != nil || shown < 0 {
		shown = 0
	}
	ticker := time.NewTicker(eventsEvery)
	defer ticker.Stop()
	for {
		if rec.Version != version {
			version = rec.Version
			n, err := a.writeEvents(r.Context(), w, rec, shown)
			if err != nil {
				return
			}
			if n > shown {
				shown, silent = n, time.Now()
			}
		}
		if rec.State == ledger.Settled {
			_ = rc.Flush()
			return
		}
		if time.Since(silent) >= eventsAlive {
			silent = time.Now()
			if _, err := io.WriteString(w, ": waiting\n\n"); err != nil {
				return
			}
		}
		if rc.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
		next, err := a.Ledger.Get(r.Context(), rec.ID)
		if errors.Is(err, ledger.ErrNotFound) || r.Context().Err() != nil {
			return
		}
		if err == nil {
			rec = next
		}
	}
}

func (a *API) writeEvents(ctx context.Context, w io.Writer, rec *ledger.Record, shown int) (int, error) {
	history, err := a.Ledger.History(ctx, rec.ID)
	if err != nil {
		return shown, nil // the next look finds it
	}
	for ; shown < len(history); shown++ {
		data, err := json.Marshal(JobEvent{State: rec.State.String(), Outcome: rec.Outcome.String(), Lane: rec.Lane,
			Attempt: rec.Attempt, Event: history[shown]})
		if err != nil {
			return shown, err
		}
		if _, err := fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", shown+1, history[shown].Kind, data); err != nil {
			return shown, err
		}
	}
	return shown, nil
}
