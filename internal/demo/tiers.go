package demo

import (
	"bytes"
	"fmt"
	"net/http"
)

const (
	// tierQuestions are fewer than failures open a breaker: each call of the first tier is seen to fail.
	tierQuestions = 5
	tierModel     = "gpt-4o"
)

// secondTier asks while the first tier's provider refuses.
func secondTier(s *stage, op *Operation) error {
	if err := s.refuses(op.Name, tierQuestions); err != nil {
		return err
	}
	var last *answer
	for i := range tierQuestions {
		a, err := s.askModel(s.throughGateway(), op.Name, fmt.Sprint("support-", i), tierModel)
		if err != nil {
			return err
		}
		if last = a; a.status != http.StatusOK || a.header.Get("Holdfast-Source") != "second" || !bytes.Contains(a.body, []byte("[DONE]")) {
			op.broken("the client was told %s, by %q", a, a.header.Get("Holdfast-Source"))
		}
	}
	s.see("the last answer's header", "Holdfast-Source: "+last.header.Get("Holdfast-Source"), "Holdfast-Trail: "+last.header.Get("Holdfast-Trail"))
	op.Client = fmt.Sprintf("%d × 200, by the second tier", tierQuestions)
	return s.secondTierDirect(op)
}

// refuses has the provider refuse calls of the first tier's model.
func (s *stage) refuses(name string, calls int) error {
	return s.control(http.MethodPost, "rules", fmt.Sprintf(`{"match":{"op":%q,"model":%q},"steps":["503"],"times":%d}`, name, tierModel, calls), nil)
}

// secondTierDirect is the same client straight at the provider that is down.
func (s *stage) secondTierDirect(op *Operation) error {
	name, failed := "direct "+op.Name, 0
	if err := s.refuses(name, tierQuestions); err != nil {
		return err
	}
	for i := range tierQuestions {
		a, err := s.askModel(s.direct(), name, fmt.Sprint("support-", i), tierModel)
		if err != nil {
			return err
		}
		if a.status >= http.StatusInternalServerError {
			failed++
		}
	}
	op.Without = fmt.Sprintf("%d × 503", failed)
	return nil
}
