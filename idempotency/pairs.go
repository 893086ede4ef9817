package idempotency

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
)

// PairResult tells whether two requests are one operation.
type PairResult struct {
	ID   string `json:"id"`
	A    string `json:"a"` // the keys; empty for a request that is refused
	B    string `json:"b"`
	Same bool   `json:"same"`
	// Conflict: both have the caller's key and are not the same request. The second is refused
	// (422 idempotency_key_reused), never answered with the first one's answer.
	Conflict bool   `json:"conflict,omitempty"`
	Refused  string `json:"refused,omitempty"` // why a request is
}

// side is one request of a pair as the index has it.
type side struct {
	File     string            `json:"file"`
	Endpoint string            `json:"endpoint"`
	Headers  map[string]values `json:"headers"`
}

// values is a header's value, or a list of them.
type values []string

func (v *values) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*v = values{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(v))
}

// Pairs computes the keys of every pair in an index file: {"pairs": [{"id", "a": {"file", "endpoint", "headers"}, "b"}]}, with
// files beside the index. Each credential that a request carries is a tenant of its own, as on a gateway that
// forwards its clients' credentials. A pair that cannot be read stops nothing: the error at the end, an
// errors.Join, names each with its number from 1.
func (k *Keyer) Pairs(index string, emit func(PairResult) error) error {
	data, err := os.ReadFile(index)
	if err != nil {
		return fmt.Errorf("idempotency: pairs: %w", err)
	}
	var doc struct{ Pairs []json.RawMessage }
	if err := json.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("idempotency: pairs: %s: %w", index, err)
	}
	var bad []error
	for i, p := range doc.Pairs {
		res, err := k.pair(filepath.Dir(index), p)
		if err != nil {
			bad = append(bad, fmt.Errorf("idempotency: %s: pair %d: %w", index, i+1, err))
			continue
		}
		if err := emit(res); err != nil {
			return err
		}
	}
	return errors.Join(bad...)
}

func (k *Keyer) pair(dir string, text []byte) (PairResult, error) {
	var p struct {
		ID   string `json:"id"`
		A, B side
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return PairResult{}, err
	}
	a, err := p.A.request(dir)
	if err != nil {
		return PairResult{}, fmt.Errorf("%s: %w", p.ID, err)
	}
	b, err := p.B.request(dir)
	if err != nil {
		return PairResult{}, fmt.Errorf("%s: %w", p.ID, err)
	}
	res := k.Compare(a, b)
	res.ID = p.ID
	return res, nil
}

// Compare tells whether b, coming after a, is the same operation.
func (k *Keyer) Compare(a, b *Request) PairResult {
	var res PairResult
	var errA, errB error
	var explicitA, explicitB bool
	fpA, fpB := k.Fingerprint(a), k.Fingerprint(b)
	res.A, explicitA, errA = k.key(a, fpA)
	res.B, explicitB, errB = k.key(b, fpB)
	if err := errors.Join(errA, errB); err != nil {
		res.Refused = err.Error()
		return res
	}
	res.Same = res.A == res.B
	if res.Same && explicitA && explicitB && fpA != fpB {
		res.Same, res.Conflict = false, true
	}
	return res
}

// key is the caller's key if there is one, else the derived one.
func (k *Keyer) key(r *Request, fp [32]byte) (key string, explicit bool, err error) {
	caller, ok, err := CallerKey(r.Header)
	if err != nil {
		return "", ok, err
	}
	if ok {
		return ExplicitKey(r.Env, r.Tenant, caller), true, nil
	}
	key, err = k.DerivedKey(r, fp)
	return key, false, err
}

func (s *side) request(dir string) (*Request, error) {
	body, err := os.ReadFile(filepath.Join(dir, s.File))
	if err != nil {
		return nil, err
	}
	r := &Request{Env: "default", Workflow: "default", Header: map[string][]string{}, Body: body}
	method, target, ok := strings.Cut(s.Endpoint, " ")
	if !ok { // an MCP method: tools/call
		method, target = "", s.Endpoint
	}
	r.Method = method
	r.Path, r.Query, _ = strings.Cut(target, "?")
	for name, list := range s.Headers {
		name = textproto.CanonicalMIMEHeaderKey(name)
		for _, v := range list {
			r.Header[name] = append(r.Header[name], strings.Trim(v, " \t")) // as HTTP does (RFC 9110, 5.5)
		}
	}
	r.Owner = first(r.Header["Holdfast-Owner"])
	if w := first(r.Header["Holdfast-Workflow"]); w != "" {
		r.Workflow = w
	}
	r.Tenant = tenant(r.Header)
	return r, nil
}

// tenant is a name for the credential that a request carries, wherever it carries it.
func tenant(header map[string][]string) string {
	for _, name := range [...]string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		if v := first(header[name]); v != "" {
			if hasPrefixFold(v, "bearer ") {
				v = strings.TrimSpace(v[len("bearer "):])
			}
			sum := sha256.Sum256([]byte("holdfast pairs\n" + v))
			return "c-" + hex.EncodeToString(sum[:8])
		}
	}
	return "main"
}
