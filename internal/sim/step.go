package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Step is how one call is answered. The zero Step is a proper answer at once. In JSON a Step may also be a string:
// the name of a fault (see preset).
type Step struct {
	// Fault names a ready-made step; the other fields refine it.
	Fault string `json:"fault,omitempty"`

	// Status other than 0 and 200 answers with the provider's error envelope for it. A call that fails so has no
	// effect unless Effect says otherwise.
	Status  int               `json:"status,omitempty"`
	Headers map[string]string `json:"headers,omitempty"` // added to the answer; an empty value removes the header
	Body    *string           `json:"body,omitempty"`    // instead of the answer's own body
	Error   string            `json:"error,omitempty"`   // code or type in the envelope, default by status
	Message string            `json:"message,omitempty"` // message in the envelope
	Stream  string            `json:"stream,omitempty"`  // a recorded stream, by its file name
	Signal  string            `json:"signal,omitempty"`  // a recorded failure, by its id
	Raw     string            `json:"raw,omitempty"`     // these bytes on the socket instead of HTTP, then the end

	Text     string          `json:"text,omitempty"`      // instead of "answer #N to …"; %N is the execution's number
	Size     int             `json:"size,omitempty"`      // the text is padded to this many bytes
	Chunks   int             `json:"chunks,omitempty"`    // pieces of content in a stream, default 5
	Tool     string          `json:"tool,omitempty"`      // answer with a call of this tool
	ToolArgs json.RawMessage `json:"tool_args,omitempty"` // its arguments, default a sample of the tool's schema
	Vector   []float32       `json:"vector,omitempty"`    // of an embeddings call: that of each input, whatever it says
	Finish   string          `json:"finish,omitempty"`    // finish or stop reason, in the provider's own words
	Model    string          `json:"model,omitempty"`     // the model that the answer names

	Effect         *bool `json:"effect,omitempty"`           // whether the call has its effect; default: if it succeeds
	Deliver        int   `json:"deliver,omitempty"`          // the request arrives this many times; default 1
	VisibleAfterMS int   `json:"visible_after_ms,omitempty"` // look-ups find the effect only then

	WorkMS       int `json:"work_ms,omitempty"`       // before the effect; goes on when the caller leaves
	DelayMS      int `json:"delay_ms,omitempty"`      // after the effect, before the head
	FirstMS      int `json:"first_ms,omitempty"`      // before the first content
	EventMS      int `json:"event_ms,omitempty"`      // between two events
	TrickleBytes int `json:"trickle_bytes,omitempty"` // write in pieces of this size
	TrickleMS    int `json:"trickle_ms,omitempty"`    // pause between those pieces

	Hold   string `json:"hold,omitempty"`    // wait until this gate is released
	HoldAt Point  `json:"hold_at,omitempty"` // where: request, effect (default), head, event
	HoldN  int    `json:"hold_n,omitempty"`  // for event: after so many

	ErrorEvent  *int `json:"error_event,omitempty"`  // the stream's own error after so many events (Error, Message)
	RepeatEvent int  `json:"repeat_event,omitempty"` // this event (from 1) is sent twice
	Cut         *Cut `json:"cut,omitempty"`
}

// Cut ends a call early.
type Cut struct {
	At  Point `json:"at"`
	N   int   `json:"n,omitempty"` // arrival: bytes of the request read before; event: events; byte: bytes of the body
	How How   `json:"how"`
	// StallMS bounds a stall, after which the connection is reset; 0 stalls until the caller leaves.
	StallMS int `json:"stall_ms,omitempty"`
}

// Point is a place in the life of a call, in the order given here.
type Point string

const (
	AtArrival Point = "arrival" // the body is not read, or only N bytes of it; the rule cannot match on body or model
	AtRequest Point = "request" // the request was read, nothing was done
	AtEffect  Point = "effect"  // the effect took place, nothing was answered
	AtHead    Point = "head"    // status and headers were sent
	AtEvent   Point = "event"   // N events were sent
	AtByte    Point = "byte"    // N bytes of the body were sent
	AtEnd     Point = "end"     // everything was sent, the last chunk too
)

// How is the manner in which a call is cut.
type How string

const (
	Reset How = "reset" // RST (SO_LINGER 0)
	Fin   How = "fin"   // FIN; a chunked body lacks its last chunk, a sized one its rest
	Torn  How = "torn"  // FIN inside a chunk
	Clean How = "clean" // a proper end of the HTTP body, where the answer's own grammar has none
	Stall How = "stall" // silence, the connection stays open
)

// UnmarshalJSON takes an object or the name of a fault, and refuses fields it does not know.
func (st *Step) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if len(b) > 0 && b[0] == '"' {
		var name string
		if err := json.Unmarshal(b, &name); err != nil {
			return err
		}
		var err error
		*st, err = preset(name)
		return err
	}
	if len(b) > 0 && b[0] >= '0' && b[0] <= '9' {
		var err error
		*st, err = preset(string(b))
		return err
	}
	type plain Step
	var probe struct {
		Fault string `json:"fault"`
	}
	if err := json.Unmarshal(b, &probe); err != nil {
		return err
	}
	base, err := preset(probe.Fault)
	if err != nil {
		return err
	}
	if err := strict(b, (*plain)(&base)); err != nil {
		return err
	}
	*st = base
	return nil
}

// strict refuses fields that do not exist: a misspelt fault must not pass as none.
func strict(b []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// Named returns the ready-made step of that name, for scripts written in Go. It panics on an unknown name, as a
// test with a misspelt fault must not pass.
func Named(name string) Step {
	st, err := preset(name)
	if err != nil {
		panic(err)
	}
	return st
}

// ErrScript is wrapped by every complaint about a script.
var ErrScript = errors.New("sim: bad script")

// badScript wraps what a decoder says, which may be a complaint of ours already.
func badScript(err error) error {
	if errors.Is(err, ErrScript) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrScript, err)
}

// preset is the table of fault names; docs/sim.md lists them.
func preset(name string) (Step, error) {
	base, arg, counted := strings.Cut(name, ":")
	n, err := strconv.Atoi(arg)
	if counted && (err != nil || n < 0) {
		return Step{}, fmt.Errorf("%w: fault %q: write a number after the colon", ErrScript, name)
	}
	st, known := plainPreset(base)
	if counted {
		st, known = countedPreset(base, n)
	}
	if status, err := strconv.Atoi(name); err == nil && status >= 200 && status <= 599 {
		st, known = Step{Status: status}, true
	}
	if !known {
		return Step{}, fmt.Errorf("%w: no fault is named %q; GET %sfaults lists them", ErrScript, name, ControlPrefix)
	}
	st.Fault = name
	return st, nil
}

func plainPreset(name string) (st Step, known bool) {
	cut := func(at Point, how How) (Step, bool) { return Step{Cut: &Cut{At: at, How: how}}, true }
	yes := true
	switch name {
	case "", "ok":
		return Step{}, true
	case "rate_limited":
		return Step{Status: http.StatusTooManyRequests, Headers: map[string]string{"Retry-After": "1"}}, true
	case "overloaded":
		return Step{Status: http.StatusServiceUnavailable, Headers: map[string]string{"Retry-After": "1"}}, true
	case "reset_before_body":
		return cut(AtArrival, Reset)
	case "reset_after_body":
		return cut(AtRequest, Reset)
	case "fin_after_body":
		return cut(AtRequest, Fin)
	case "reply_lost":
		return cut(AtEffect, Reset)
	case "reply_lost_fin":
		return cut(AtEffect, Fin)
	case "reset_after_head":
		return cut(AtHead, Reset)
	case "reset_after_answer":
		return cut(AtEnd, Reset)
	case "hang":
		return cut(AtRequest, Stall)
	case "hang_after_effect":
		return cut(AtEffect, Stall)
	case "hang_after_head":
		return cut(AtHead, Stall)
	case "error_after_effect":
		return Step{Status: http.StatusInternalServerError, Effect: &yes}, true
	case "duplicate":
		return Step{Deliver: 2}, true
	case "garbage":
		return Step{Raw: "\x15\x03\x01\x00\x02\x02\x16 not http\r\n"}, true
	}
	return Step{}, false
}

func countedPreset(name string, n int) (st Step, known bool) {
	switch name {
	case "cut":
		return Step{Cut: &Cut{At: AtEvent, N: n, How: Fin}}, true
	case "reset":
		return Step{Cut: &Cut{At: AtEvent, N: n, How: Reset}}, true
	case "clean":
		return Step{Cut: &Cut{At: AtEvent, N: n, How: Clean}}, true
	case "stall":
		return Step{Cut: &Cut{At: AtEvent, N: n, How: Stall}}, true
	case "cut_byte":
		return Step{Cut: &Cut{At: AtByte, N: n, How: Fin}}, true
	case "reset_byte":
		return Step{Cut: &Cut{At: AtByte, N: n, How: Reset}}, true
	case "error":
		return Step{ErrorEvent: &n}, true
	}
	return Step{}, false
}

func faultNames() []string {
	return []string{"ok", "200 … 599", "rate_limited", "overloaded", "reset_before_body", "reset_after_body", "fin_after_body",
		"reply_lost", "reply_lost_fin", "reset_after_head", "reset_after_answer", "hang", "hang_after_effect",
		"hang_after_head", "error_after_effect", "duplicate", "garbage",
		"cut:N", "reset:N", "clean:N", "stall:N", "cut_byte:N", "reset_byte:N", "error:N"}
}

// check refuses what could not be played, so that a misspelt script fails when it is put and not in the test's middle.
func (st *Step) check(c *corpus) error {
	switch {
	case st.Status != 0 && (st.Status < 200 || st.Status > 599):
		return fmt.Errorf("%w: status %d; write 200 to 599", ErrScript, st.Status)
	case st.Stream != "" && c.stream(st.Stream) == nil:
		return fmt.Errorf("%w: no stream is named %q; GET %sstreams lists them", ErrScript, st.Stream, ControlPrefix)
	case st.Signal != "" && c.signal(st.Signal) == nil:
		return fmt.Errorf("%w: no signal has the id %q; GET %ssignals lists them", ErrScript, st.Signal, ControlPrefix)
	case st.Size < 0 || st.Size > maxBody || st.Chunks < 0 || st.Deliver < 0 || st.Deliver > 100:
		return fmt.Errorf("%w: size, chunks or deliver is out of bounds (64 MiB, not negative, 100)", ErrScript)
	case min(st.VisibleAfterMS, st.WorkMS, st.DelayMS, st.FirstMS, st.EventMS, st.TrickleBytes, st.TrickleMS, st.HoldN, st.RepeatEvent) < 0,
		st.ErrorEvent != nil && *st.ErrorEvent < 0:
		return fmt.Errorf("%w: a time, a size or a count is negative", ErrScript)
	case st.Tool == "" && len(st.ToolArgs) > 0:
		return fmt.Errorf("%w: tool_args without tool", ErrScript)
	}
	if st.Signal != "" {
		if err := c.signal(st.Signal).playable(); err != nil {
			return err
		}
	}
	if st.Hold != "" {
		switch st.HoldAt {
		case "", AtRequest, AtEffect, AtHead, AtEvent:
		default:
			return fmt.Errorf("%w: hold_at %q; write request, effect, head or event", ErrScript, st.HoldAt)
		}
	}
	return st.Cut.check()
}

func (c *Cut) check() error {
	if c == nil {
		return nil
	}
	if c.N < 0 || c.StallMS < 0 {
		return fmt.Errorf("%w: cut.n %d and cut.stall_ms %d must not be negative", ErrScript, c.N, c.StallMS)
	}
	switch c.How {
	case Reset, Fin, Torn, Clean, Stall:
	default:
		return fmt.Errorf("%w: cut.how %q; write reset, fin, torn, clean or stall", ErrScript, c.How)
	}
	switch c.At {
	case AtArrival, AtRequest, AtEffect, AtHead, AtEvent, AtByte, AtEnd:
	default:
		return fmt.Errorf("%w: cut.at %q; write arrival, request, effect, head, event, byte or end", ErrScript, c.At)
	}
	if before := c.At == AtArrival || c.At == AtRequest || c.At == AtEffect; before && (c.How == Clean || c.How == Torn) {
		return fmt.Errorf("%w: a cut at %q sends no body, so it cannot be %q", ErrScript, c.At, c.How)
	}
	return nil
}

// over fills sizes and times that the step leaves open from the default step.
func (st Step) over(def Step) Step {
	fill := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	fill(&st.Size, def.Size)
	fill(&st.Chunks, def.Chunks)
	fill(&st.WorkMS, def.WorkMS)
	fill(&st.DelayMS, def.DelayMS)
	fill(&st.FirstMS, def.FirstMS)
	fill(&st.EventMS, def.EventMS)
	return st
}

// succeeds reports whether the call has its effect unless the step says so itself.
func (st *Step) succeeds() bool {
	if st.Effect != nil {
		return *st.Effect
	}
	early := st.Cut != nil && (st.Cut.At == AtArrival || st.Cut.At == AtRequest)
	return st.Status < 400 && st.Signal == "" && !early
}
