package idempotency

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"

	"github.com/holdfast-ai/holdfast/internal/canon"
)

// Config is what a policy says about keys.
type Config struct {
	// Ignore names body fields that do not count, as a or a.b.c; arrays on the way are passed through. In a multipart
	// body it names parts.
	Ignore []string
	// SchemaVersion stands for the response schema, which then does not count itself.
	SchemaVersion string
	// Key is a template of business arguments, "{customer}:{order.id}", that replaces body, query and headers
	// in derived keys. Empty: everything counts.
	Key string
	// Depth bounds the nesting of a body; a deeper one is hashed by its bytes. Default 128.
	Depth int
}

// A Keyer makes fingerprints and keys for one workflow. It is safe for concurrent use.
type Keyer struct {
	schemaVersion string
	depth         int
	template      *Template
	rules         map[API]*canon.Rule
	ignored       map[string]bool // names of multipart parts
	pool          sync.Pool       // *scratch
}

// scratch is what one computation needs; it is kept for the next one.
type scratch struct {
	out   []byte // the canonical form
	body  canon.Encoder
	json  []byte // a body of which a template takes fields
	query []byte
	pairs []pair
	list  []string
}

// keep bounds the buffers that stay for the next request, so that one huge body does not hold its memory for ever.
const keep = 1 << 20

// New checks the configuration; the error lists each fault.
func New(c Config) (*Keyer, error) {
	k := &Keyer{schemaVersion: c.SchemaVersion, depth: c.Depth, rules: map[API]*canon.Rule{}, ignored: map[string]bool{}}
	var faults []string
	var ignore [][]string
	for _, p := range c.Ignore {
		steps, err := parsePath(p)
		if err != nil {
			faults = append(faults, fmt.Sprintf("ignore %q: %v", p, err))
			continue
		}
		ignore = append(ignore, steps)
		if len(steps) == 1 {
			k.ignored[p] = true
		}
	}
	if c.Key != "" {
		t, err := ParseTemplate(c.Key)
		if err != nil {
			faults = append(faults, fmt.Sprintf("key: %v", err))
		}
		k.template = t
	}
	if faults != nil {
		return nil, fmt.Errorf("idempotency: %s", strings.Join(faults, "; "))
	}
	for _, api := range []API{Other, Chat, Responses, Messages, Generate, Converse, Ollama, Tool, Message} {
		k.rules[api] = rules(api, ignore, c.SchemaVersion != "")
	}
	return k, nil
}

// parsePath splits a.b.c.
func parsePath(p string) ([]string, error) {
	steps := strings.Split(p, ".")
	for _, s := range steps {
		if s == "" {
			return nil, fmt.Errorf("an empty name; write a or a.b.c")
		}
		if i := strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"\[]{}`, r) }); i >= 0 {
			return nil, fmt.Errorf("%q in %q; names are visible ASCII without quotes, backslashes, brackets and braces", s[i:i+1], s)
		}
	}
	return steps, nil
}

// Fingerprint is the SHA-256 of the request's canonical form. It is the same for every workflow with the same Config, and
// under an explicit key it must match (semantics 15).
func (k *Keyer) Fingerprint(r *Request) [32]byte {
	s := k.get()
	s.out, _ = k.canonical(s, s.out[:0], r)
	sum := sha256.Sum256(s.out)
	k.put(s)
	return sum
}

// Canonical appends what [Keyer.Fingerprint] hashes. docs/keys.md describes the form.
func (k *Keyer) Canonical(dst []byte, r *Request) []byte {
	out, _ := k.Explain(dst, r)
	return out
}

// Explain is Canonical, and says why a body that could be JSON is hashed by its bytes; nil if it is not.
func (k *Keyer) Explain(dst []byte, r *Request) (out []byte, why error) {
	s := k.get()
	defer k.put(s)
	return k.canonical(s, dst, r)
}

// DerivedKey is the key of a request without one of its own: idem:{env}:{tenant}:{workflow}:{32 hex digits}, of its
// fingerprint or, under a key template, of the business arguments. The error is [ErrNoField] or [ErrNotJSON]: such
// a request has no derived key and must be refused or sent without protection.
func (k *Keyer) DerivedKey(r *Request, fp [32]byte) (string, error) {
	var buf [192]byte
	key, err := k.AppendDerivedKey(buf[:0], r, fp)
	return string(key), err
}

// AppendDerivedKey is [Keyer.DerivedKey] without an allocation.
func (k *Keyer) AppendDerivedKey(dst []byte, r *Request, fp [32]byte) ([]byte, error) {
	if k.template != nil {
		s := k.get()
		defer k.put(s)
		var err error
		if s.out, err = k.business(s, s.out[:0], r); err != nil {
			return dst, err
		}
		fp = sha256.Sum256(s.out)
	}
	return appendClaim(dst, r.Env, r.Tenant, r.Workflow, fp), nil
}

// Business appends what a derived key hashes under a key template.
func (k *Keyer) Business(dst []byte, r *Request) ([]byte, error) {
	if k.template == nil {
		return k.Canonical(dst, r), nil
	}
	s := k.get()
	defer k.put(s)
	return k.business(s, dst, r)
}

func (k *Keyer) get() *scratch {
	if s, ok := k.pool.Get().(*scratch); ok {
		return s
	}
	return &scratch{body: canon.Encoder{Depth: k.depth}}
}

func (k *Keyer) put(s *scratch) {
	if cap(s.out) > keep || cap(s.json) > keep || s.body.Size() > keep {
		return
	}
	k.pool.Put(s)
}
