package demo

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	questions = 30
	// outageCalls reach the provider before the breaker opens: ten operations that fail, and of their retries what the
	// route's share allows, ten and a fifth of the first attempts (semantics 35).
	outageCalls = 10 + 11
	// sdkAttempts is what the official clients make of one question by themselves.
	sdkAttempts = 3
)

func outage(s *stage, op *Operation) error {
	if err := s.down(op.Name, outageCalls); err != nil {
		return err
	}
	told := map[string]int{}
	for i := range questions {
		a, err := s.ask(s.throughGateway(), op.Name, fmt.Sprint("outage-", i))
		if err != nil {
			return err
		}
		told[a.String()]++
	}
	if told["503"] != 10 || told["503 circuit_open"] != questions-10 {
		op.broken("the clients were told %v", told)
	}
	if err := s.recovers(op); err != nil {
		return err
	}
	op.Client = fmt.Sprintf("10 × 503, %d × circuit_open at once, then 200", questions-10)
	return s.outageDirect(op)
}

// down lets the provider refuse so many calls.
func (s *stage) down(name string, calls int) error {
	return s.control(http.MethodPost, "rules", fmt.Sprintf(`{"match":{"op":%q},"steps":["503"],"times":%d}`, name, calls), nil)
}

// recovers asks until the breaker has let its probe through.
func (s *stage) recovers(op *Operation) error {
	for range 100 {
		a, err := s.ask(s.throughGateway(), op.Name, "outage-again")
		if err != nil {
			return err
		}
		if a.status == http.StatusOK {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
	return errors.New("the gateway did not find out that the provider is back")
}

// outageDirect is the same client straight at the provider, with the retries of its SDK.
func (s *stage) outageDirect(op *Operation) error {
	name := "direct " + op.Name
	if err := s.down(name, questions*sdkAttempts); err != nil {
		return err
	}
	for i := range questions * sdkAttempts {
		if _, err := s.ask(s.direct(), name, fmt.Sprint("outage-", i)); err != nil {
			return err
		}
	}
	n, err := s.counts(name)
	op.Without = fmt.Sprintf("%d calls, and each user waits for three", n.Calls)
	return err
}
