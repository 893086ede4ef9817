package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// scene is one thing that goes wrong.
type scene struct {
	title string
	plot  string // what happens
	moral string // why it matters
	op    Operation
	play  func(*stage, *Operation) error
}

var scenes = []scene{
	{
		title: "The reply is lost",
		plot:  "The client charges a card. The provider does it, and the connection breaks before the reply. The client tries again.",
		moral: "Same Idempotency-Key, same operation: the second request gets the first answer, and the card is charged once.",
		op:    Operation{Name: "lost reply", WantCalls: 1, WantEffects: 1},
		play:  lostReply,
	},
	{
		title: "The provider ends a stream too early",
		plot:  "Half an answer arrives, then the body ends cleanly: to an HTTP client that looks like the whole answer.",
		moral: "The client gets an error that its SDK raises, never half an answer; the retry is a new run, and the log says that the first may be billed.",
		op:    Operation{Name: "cut stream", WantCalls: 2, WantEffects: 2},
		play:  cutStream,
	},
	{
		title: "Twenty of the same at once",
		plot:  "A queue delivers one job twenty times, and twenty workers send it in the same moment.",
		moral: "One goes out, nineteen wait and get its answer, byte for byte.",
		op:    Operation{Name: "20 duplicates", WantCalls: 1, WantEffects: 1},
		play:  duplicates,
	},
	{
		title: "The same key for something else",
		plot:  "A defect in the client: the key of that charge again, with another amount.",
		moral: "It is refused. Neither the old answer nor a second charge would be right.",
		op:    Operation{Name: "key reused", WantCalls: 0, WantEffects: 0},
		play:  reusedKey,
	},
	{
		title: "The provider is down",
		plot:  "Thirty questions go to a provider that answers 503. It returns, and one more is asked.",
		moral: "Retries are a share of the traffic, not a multiple of it; the circuit breaker opens, the rest hear so at once, and one probe finds the way back.",
		op:    Operation{Name: "outage", WantCalls: outageCalls + 1, WantEffects: 1},
		play:  outage,
	},
	{
		title: "The provider is down, and another one answers",
		plot:  "The same outage under a workflow with two tiers, each at a provider of its own.",
		moral: "Each question is answered, and says by whom: Holdfast-Source, and in Holdfast-Trail why not by the first.",
		op:    Operation{Name: "second tier", WantCalls: 2 * tierQuestions, WantEffects: tierQuestions},
		play:  secondTier,
	},
	{
		title: "kill -9 in the middle of a charge",
		plot:  "The provider has charged the card; the gateway is killed before it hears so. It is started again, and the client asks again.",
		moral: "It may have happened, so nothing is sent again and nothing is claimed: it is unknown until evidence or a person says.",
		op:    Operation{Name: "crash", WantCalls: 1, WantEffects: 1},
		play:  crash,
	},
}

func (s *stage) play(c scene) (*Operation, error) {
	s.open(c)
	op := c.op
	if err := c.play(s, &op); err != nil {
		return nil, err
	}
	n, err := s.counts(op.Name)
	if err != nil {
		return nil, err
	}
	op.Calls, op.Effects = n.Calls, n.Effects
	if op.Calls != op.WantCalls {
		op.broken("%d calls reached the provider, %d promised", op.Calls, op.WantCalls)
	}
	if op.Effects != op.WantEffects {
		op.broken("%d effects, %d promised", op.Effects, op.WantEffects)
	}
	s.close(c, &op)
	return &op, nil
}

func (o *Operation) broken(format string, args ...any) {
	o.Broken = append(o.Broken, fmt.Sprintf(format, args...))
}

// told checks what the client was told.
func (o *Operation) told(a *answer, status int, code string, replayed bool) {
	o.Client = a.String()
	if a.status != status || a.code() != code || a.replayed() != replayed {
		o.broken("the client was told %s; promised is %d %s, replayed %t", a, status, code, replayed)
	}
}

func lostReply(s *stage, op *Operation) error {
	const key = "order-1001"
	if err := s.lose(s.throughGateway(), op.Name, key); err != nil {
		return err
	}
	a, err := s.charge(s.ctx, s.throughGateway(), op.Name, key, 42)
	if err != nil {
		return err
	}
	op.told(a, http.StatusOK, "", true)
	return s.loseDirect(op, key)
}

// lose sends a charge and breaks the connection when it has been made and its reply has not left.
func (s *stage) lose(to place, name, key string) error {
	if err := s.script(name, `{"hold":"reply","hold_at":"head"}`); err != nil {
		return err
	}
	ctx, hangUp := context.WithCancel(s.ctx)
	lost := make(chan error, 1)
	go func() {
		_, err := s.charge(ctx, to, name, key, 42)
		lost <- err
	}()
	err := s.wait(name, "effects=1&gate=reply&held=1")
	hangUp()
	if gone := <-lost; err == nil && gone == nil {
		err = errors.New("the reply was not lost")
	}
	if err != nil {
		return err
	}
	return s.release("reply")
}

// loseDirect is the same client straight at the provider: its reply is lost and it tries again.
func (s *stage) loseDirect(op *Operation, key string) error {
	name := "direct " + op.Name
	if err := s.lose(s.direct(), name, key); err != nil {
		return err
	}
	if _, err := s.charge(s.ctx, s.direct(), name, key, 42); err != nil {
		return err
	}
	return s.without(op, "charged %d times")
}

func cutStream(s *stage, op *Operation) error {
	for _, name := range []string{op.Name, "direct " + op.Name} {
		if err := s.script(name, `"clean:4"`); err != nil {
			return err
		}
	}
	cut, err := s.ask(s.throughGateway(), op.Name, "question-7")
	if err != nil {
		return err
	}
	if !bytes.Contains(cut.body, []byte("upstream_incomplete")) || bytes.Contains(cut.body, []byte("[DONE]")) {
		op.broken("the cut stream did not end in an error: %.200s", cut.body)
	}
	s.see("the client's stream", lastEvents(cut.body, 2)...)
	whole, err := s.ask(s.throughGateway(), op.Name, "question-7")
	if err != nil {
		return err
	}
	op.told(whole, http.StatusOK, "", false)
	if !bytes.Contains(whole.body, []byte("[DONE]")) {
		op.broken("the retry did not get a whole answer")
	}
	op.Client = "an error, then 200 and the whole answer"
	plain, err := s.ask(s.direct(), "direct "+op.Name, "question-7")
	if err != nil {
		return err
	}
	op.Without = "half an answer that ended without an error"
	if bytes.Contains(plain.body, []byte("[DONE]")) {
		op.broken("the provider did not cut the stream")
	}
	return nil
}

// crowd is how many send the same at once.
const crowd = 20

func duplicates(s *stage, op *Operation) error {
	if err := s.script(op.Name, `{"hold":"crowd","hold_at":"effect"}`); err != nil {
		return err
	}
	all := s.atOnce(s.throughGateway(), op.Name)
	if err := s.wait(op.Name, "gate=crowd&held=1"); err != nil {
		return err
	}
	if err := s.release("crowd"); err != nil {
		return err
	}
	answers, err := all()
	if err != nil {
		return err
	}
	originals := 0
	for _, a := range answers {
		if !a.replayed() {
			originals++
		}
		if a.status != http.StatusOK || !bytes.Equal(a.body, answers[0].body) {
			op.broken("not the same answer: %s", a)
		}
	}
	if originals != 1 {
		op.broken("%d answers without the replay marker, 1 promised", originals)
	}
	op.Client = fmt.Sprintf("200 for all, %d of them marked as a replay", crowd-originals)
	if _, err := s.atOnce(s.direct(), "direct "+op.Name)(); err != nil {
		return err
	}
	return s.without(op, "charged %d times")
}

// atOnce sends the same charge many times and returns how to wait for the answers.
func (s *stage) atOnce(to place, name string) func() ([]*answer, error) {
	answers, errs := make([]*answer, crowd), make([]error, crowd)
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() { answers[i], errs[i] = s.charge(s.ctx, to, name, "order-1002", 42) })
	}
	return func() ([]*answer, error) {
		all.Wait()
		for _, err := range errs {
			if err != nil {
				return nil, err
			}
		}
		return answers, nil
	}
}

func reusedKey(s *stage, op *Operation) error {
	a, err := s.charge(s.ctx, s.throughGateway(), op.Name, "order-1002", 4200)
	if err != nil {
		return err
	}
	op.told(a, http.StatusUnprocessableEntity, "idempotency_key_reused", false)
	if _, err := s.charge(s.ctx, s.direct(), "direct "+op.Name, "order-1002", 4200); err != nil {
		return err
	}
	return s.without(op, "charged %d time, 4200 in place of 42")
}

func crash(s *stage, op *Operation) error {
	const key = "order-1003"
	if err := s.script(op.Name, `{"hold":"bank","hold_at":"effect"}`); err != nil {
		return err
	}
	lost := make(chan error, 1)
	go func() {
		_, err := s.charge(s.ctx, s.throughGateway(), op.Name, key, 42)
		lost <- err
	}()
	err := s.wait(op.Name, "effects=1&gate=bank&held=1")
	s.gateway.Kill()
	if gone := <-lost; err == nil && gone == nil {
		err = errors.New("the gateway answered although it was killed")
	}
	if err != nil {
		return err
	}
	if err := s.release("bank"); err != nil {
		return err
	}
	s.client.CloseIdleConnections()
	if err := s.serve(); err != nil {
		return err
	}
	a, err := s.charge(s.ctx, s.throughGateway(), op.Name, key, 42)
	if err != nil {
		return err
	}
	op.told(a, http.StatusConflict, "outcome_unknown", false)
	if err := s.operator(op, a.header.Get("Holdfast-Intent")); err != nil {
		return err
	}
	return s.loseDirect(op, key)
}

// outline leaves out what a trace says of the key: here it is the client's own.
func outline(text string) []string {
	var kept []string
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if !strings.HasPrefix(part, "Where does its key come from?") {
			kept = append(kept, part)
		}
	}
	return strings.Split(strings.Join(kept, "\n\n"), "\n")
}

// operator shows what `holdfast intents list` and `holdfast trace` say of the operation that is left.
func (s *stage) operator(op *Operation, id string) error {
	for _, args := range [][]string{{"intents", "list"}, {"trace", "order-1003"}} {
		out, err := s.command(append(args, "--admin", s.gateway.Admin)...)
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
		}
		s.see("$ holdfast "+strings.Join(args, " "), outline(out)...)
		if !strings.Contains(out, id) && !strings.Contains(out, id[max(0, len(id)-6):]) {
			op.broken("`holdfast %s` does not show intent %s", strings.Join(args, " "), id)
		}
	}
	return nil
}
