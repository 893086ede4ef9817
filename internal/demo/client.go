package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// place is where the client sends: through the gateway, or straight to the provider.
type place struct{ charges, chat string }

func (s *stage) throughGateway() place {
	return place{s.gateway.URL + "/shop/charges", s.gateway.URL + "/v1/chat/completions"}
}

func (s *stage) direct() place {
	return place{s.sim.URL + "/tools/charges", s.sim.URL + "/v1/chat/completions"}
}

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) code() string   { return a.header.Get("Holdfast-Error") }
func (a *answer) replayed() bool { return a.header.Get("Idempotency-Replayed") == "true" }

// String is the answer in words.
func (a *answer) String() string {
	text := fmt.Sprint(a.status)
	if c := a.code(); c != "" {
		text += " " + c
	}
	if a.replayed() {
		text += ", the first answer again"
	}
	return text
}

// charge asks the shop's provider to charge a card.
func (s *stage) charge(ctx context.Context, to place, name, key string, amount int) (*answer, error) {
	return s.post(ctx, to.charges, name, key, map[string]any{"customer": "ann", "amount": amount, "currency": "USD"})
}

// ask asks a model for a streamed answer.
func (s *stage) ask(to place, name, key string) (*answer, error) {
	return s.askModel(to, name, key, "gpt-5")
}

func (s *stage) askModel(to place, name, key, model string) (*answer, error) {
	return s.post(s.ctx, to.chat, name, key, map[string]any{"model": model, "stream": true,
		"messages": []map[string]string{{"role": "user", "content": "Why is the sky blue?"}}})
}

func (s *stage) post(ctx context.Context, to, name, key string, body any) (*answer, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.GetBody = nil // net/http would send a keyed request again by itself, and the scenes count
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Sim-Op", name)
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &answer{status: resp.StatusCode, header: resp.Header}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return a, err
}

// counts are the provider's own counters.
type counts struct {
	Calls   int64 `json:"calls"`
	Effects int64 `json:"effects"`
}

func (s *stage) counts(name string) (n counts, err error) {
	return n, s.control(http.MethodGet, "ops/"+url.PathEscape(name), "", &n)
}

// without counts what the same client did straight at the provider.
func (s *stage) without(op *Operation, format string) error {
	n, err := s.counts("direct " + op.Name)
	op.Without = fmt.Sprintf(format, n.Effects)
	return err
}

// script says what the provider does with the first call of an operation.
func (s *stage) script(name, step string) error {
	return s.control(http.MethodPost, "rules", fmt.Sprintf(`{"match":{"op":%q},"steps":[%s]}`, name, step), nil)
}

func (s *stage) wait(name, query string) error {
	return s.control(http.MethodGet, "wait?timeout_ms=10000&op="+url.QueryEscape(name)+"&"+query, "", nil)
}

func (s *stage) release(gate string) error {
	return s.control(http.MethodPost, "gates/"+gate, "", nil)
}

// control talks to the simulator's control API.
func (s *stage) control(method, path, body string, into any) error {
	req, err := http.NewRequestWithContext(s.ctx, method, s.sim.URL+"/sim/v1/"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the simulator's %s: %s", path, b)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(b, into)
}
