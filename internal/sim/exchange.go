package sim

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"
)

// How a call ended, in the call log.
const (
	endDone    = "done"
	endPeer    = "peer_closed"
	endAborted = "aborted" // the simulator was closed
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) } // a reset connection is what was asked for

// exchange is one call in progress. It belongs to the goroutine of its handler.
type exchange struct {
	s    *Server
	w    http.ResponseWriter
	r    *http.Request
	q    *request
	st   Step
	call *Call
	made map[int64]*answer // by execution, where the answer is stored

	out  outcome
	done bool // finish ran
}

// outcome is what goes into the call log at the end.
type outcome struct {
	status int
	bytes  int64
	events int
	phase  Point
	end    string
}

func (s *Server) serveCall(w http.ResponseWriter, r *http.Request) {
	x := &exchange{s: s, w: w, r: r, q: routeRequest(r)}
	x.out = outcome{end: endDone, phase: AtArrival}
	x.call = s.record.begin(x.q, r, s.cfg.Now())
	x.q.call = x.call.N
	defer x.finish()
	if st, rule, ok := s.script.early(x.q); ok {
		x.st = st
		s.record.update(func() { x.call.Rule, x.call.Fault = rule, st.Fault })
		x.cutAtArrival()
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		x.unreadable(err)
		return
	}
	x.q.parse(body)
	s.record.parsed(x.call, x.q)
	x.out.phase = AtRequest
	st, rule := s.script.choose(x.q)
	if err := st.check(s.corpus); err != nil { // only a script in the request itself can be wrong here
		x.q.invalid, st = err.Error(), Step{}
	}
	if st.early() {
		x.q.invalid, st = "sim: rule "+rule+": "+arrivesFirst+"; name the operation in the header Sim-Op", Step{}
	}
	x.st = s.corpus.expand(st)
	s.record.update(func() { x.call.Rule, x.call.Fault = rule, st.Fault })
	x.run()
}

func (x *exchange) unreadable(err error) {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		x.answerError(http.StatusRequestEntityTooLarge, "", "Request exceeds the maximum allowed number of bytes.")
		return
	}
	x.out.end = endPeer
}

// finish enters the outcome in the call log, always before the caller can see its answer's end: two calls one after the
// other must never look like two at once. It also runs while an abort passes through.
func (x *exchange) finish() {
	if x.done {
		return
	}
	x.done = true
	x.s.record.update(func() {
		x.call.Status, x.call.BytesOut, x.call.EventsOut, x.call.Phase = x.out.status, x.out.bytes, x.out.events, x.out.phase
	})
	x.s.record.end(x.call, x.out.end, x.s.cfg.Now())
}

// run leads the call through its points: request, effect, head, events, end.
func (x *exchange) run() {
	if x.q.invalid != "" {
		x.answerError(http.StatusBadRequest, "", x.q.invalid)
		return
	}
	if x.cutHere(AtRequest) || !x.pauseAt(AtRequest) {
		return
	}
	// The far side works on when its caller leaves: that is how a lost reply becomes a duplicate.
	if !x.sleep(x.st.WorkMS, false) {
		return
	}
	execution, err := x.perform()
	if err != nil {
		status := http.StatusInternalServerError
		if errors.Is(err, errKeyReused) {
			status = http.StatusUnprocessableEntity
		}
		x.answerError(status, "idempotency_error", err.Error())
		return
	}
	x.out.phase = AtEffect
	if !x.pauseAt(AtEffect) || x.cutHere(AtEffect) || !x.sleep(x.st.DelayMS, true) {
		return
	}
	if x.st.Raw != "" {
		x.sendRaw()
		return
	}
	rep, err := x.reply(execution)
	if err != nil {
		x.answerError(http.StatusInternalServerError, "", err.Error())
		return
	}
	x.st.headers(rep.header)
	x.play(rep)
}

// perform runs the request as often as it is delivered and returns the number of the first execution.
func (x *exchange) perform() (int64, error) {
	if !x.q.generates() {
		return 0, nil
	}
	if !x.st.succeeds() {
		if x.st.Status >= 400 {
			return 0, nil
		}
		return x.s.effects.number(), nil
	}
	first := int64(0)
	for range max(1, x.st.Deliver) {
		e, fresh, err := x.s.effects.perform(x.q, x.call.N, ms(x.st.VisibleAfterMS))
		if err != nil {
			return 0, err
		}
		x.s.record.delivered(x.call, e.Execution, fresh, !fresh)
		x.s.keep(x, e.Execution)
		if first == 0 {
			first = e.Execution
		}
	}
	return first, nil
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// sleep waits and reports whether the call goes on; a caller that left ends it only if watch is set.
func (x *exchange) sleep(n int, watch bool) bool {
	if n > 0 {
		t := time.NewTimer(ms(n))
		defer t.Stop()
		left := x.r.Context().Done()
		if !watch {
			left = nil
		}
		select {
		case <-t.C:
		case <-left:
		case <-x.s.ctx.Done():
		}
	}
	return x.alive(watch)
}

// pauseAt waits at the step's gate if it stands at this point.
func (x *exchange) pauseAt(p Point) bool {
	at := x.st.HoldAt
	if at == "" {
		at = AtEffect
	}
	if x.st.Hold == "" || at != p {
		return true
	}
	x.s.record.update(func() { x.call.Phase = p })
	if p == AtRequest { // before the effect, as with WorkMS
		x.s.gates.wait(x.st.Hold, x.s.ctx)
	} else {
		x.s.gates.wait(x.st.Hold, x.r.Context(), x.s.ctx)
	}
	return x.alive(p != AtRequest)
}

// alive reports whether the call goes on, and notes why not.
func (x *exchange) alive(watch bool) bool {
	switch {
	case x.s.ctx.Err() != nil:
		x.out.end = endAborted
	case watch && x.r.Context().Err() != nil:
		x.out.end = endPeer
	default:
		return true
	}
	x.drop(x.out.end, Fin)
	return false
}

// reply makes the answer that the step and the wire ask for.
func (x *exchange) reply(execution int64) (*reply, error) {
	switch st := &x.st; {
	case st.Signal != "" && x.s.corpus.signal(st.Signal).Status != 0:
		return x.s.corpus.signal(st.Signal).reply()
	case st.Stream != "":
		return x.s.corpus.stream(st.Stream).reply()
	case st.Status >= 400:
		return x.errorReply(st.Status, st.Error, st.Message), nil
	}
	rep := x.s.answer(x, execution)
	if x.st.Status != 0 {
		rep.status = x.st.Status
	}
	if x.st.ErrorEvent != nil && rep.events {
		n := min(*x.st.ErrorEvent, len(rep.pieces)-1) // in place of the rest, at least of the end
		rep.pieces = append(rep.pieces[:n:n], x.q.errorEvent(n, x.st.Error, x.st.Message))
	}
	if n := x.st.RepeatEvent; n > 0 && n <= len(rep.pieces) && rep.events {
		rep.pieces = append(rep.pieces[:n:n], rep.pieces[n-1:]...)
	}
	return rep, nil
}

// answer is the proper answer of each endpoint.
func (s *Server) answer(x *exchange, n int64) *reply {
	switch x.q.wire {
	case wireOpenAI:
		return s.openAI(x, n)
	case wireAnthropic:
		return s.anthropic(x, n)
	case wireGemini:
		return s.gemini(x, n)
	}
	return s.tool(x, n)
}

func (x *exchange) answerError(status int, code, message string) {
	x.st.Cut, x.st.ErrorEvent = nil, nil
	x.play(x.errorReply(status, code, message))
}

func (x *exchange) errorReply(status int, code, message string) *reply {
	if message == "" {
		message = fmt.Sprintf("The simulator was told to answer %d.", status)
	}
	rep := plain(status, x.q.errorBody(status, code, message))
	x.q.commonHeaders(rep.header, x.s.cfg.Now())
	return rep
}
