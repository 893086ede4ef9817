// Package cache finds an earlier answer to the same question: an index in memory over answers that the ledger keeps.
//
// A question is its last user text and a partition, a hash over everything else that changes the answer: so nothing that
// somebody else asked, or asked otherwise, is ever compared. Within a partition an answer is found by a template that the
// text matches, with the same values; or by meaning, where the text's [Guard] is the same and its vector near enough.
//
// The guard comes first. No similarity separates "enable" from "disable" or one order's number from another's (BR-061), so
// two texts are the same question only if every word of them is, but for a published few differences; the vector then
// confirms it. Hence a look-up is one access to a map, and a text whose guard nobody asked needs no vector at all.
package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// Kind is by what an entry is found.
type Kind string

// The kinds. They are what Holdfast-Source says behind "cache:".
const (
	Template Kind = "template"
	Semantic Kind = "semantic"
)

// Reason is why no entry answers.
type Reason string

// The reasons.
const (
	Found      Reason = ""
	Empty      Reason = "partition_empty" // nobody asked anything in this partition
	Differs    Reason = "guard_differs"   // no entry of the partition has the guard, or the template's values
	Dissimilar Reason = "below_threshold"
	Expired    Reason = "expired"
	NoVector   Reason = "no_vector" // there is a candidate, and no vector of the question to confirm it
)

// What an entry can be refused for. Match with errors.Is.
var (
	ErrVector  = errors.New("cache: a vector has no direction: it is empty, zero or not finite, or has too many dimensions")
	ErrEntry   = errors.New("cache: no entry of a form that this version knows; drop the row, the answer itself is not touched")
	ErrPattern = errors.New("cache: no template")
)

// Scope is who asks, and who answers. Every field is part of the partition (invariant: tenants never meet).
type Scope struct {
	Env, Tenant, Workflow string
	Class                 string // of the tier that answers: quality and data boundary
	Provider, Model       string // of that tier: what an alias stands for
	Prompt                string // what the tier makes of the request's prompt
}

// Question is what is looked up.
type Question struct {
	Partition [32]byte
	Text      string // the last user text
}

// Ask makes a question of a request: rest is its canonical form with a hole where the last user text stood.
func Ask(s *Scope, rest []byte, text string) Question {
	h := make([]byte, 0, 256+len(rest))
	for _, field := range [...]string{"holdfast cache 2", s.Env, s.Tenant, s.Workflow, s.Class, s.Provider, s.Model, s.Prompt} {
		h = appendField(h, field)
	}
	return Question{Partition: sha256.Sum256(append(h, rest...)), Text: text}
}

// appendField appends a field behind its length, so that no two lists of fields make one form.
func appendField(dst []byte, field string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(field))), field...)
}

// Key is the one place of an entry in an index.
type Key [32]byte

// SemanticKey is where answers to the question stand among those whose vectors are of one space: the name and version of
// an embedder, since vectors of two models have nothing to say to each other. at is when the question is asked.
func (q *Question) SemanticKey(space string, at time.Time) Key {
	g := GuardOf(q.Text, at)
	if mutant.On("cache-guard-off") {
		g = Guard{}
	}
	h := appendField(append(make([]byte, 0, 160), q.Partition[:]...), string(Semantic))
	return sha256.Sum256(append(appendField(h, space), g[:]...))
}

// TemplateKey is where answers to the question stand that matched a template with these values.
func (q *Question) TemplateKey(m *Match) Key {
	h := appendField(append(make([]byte, 0, 256), q.Partition[:]...), string(Template))
	h = appendField(h, m.Template)
	for i := range m.Values {
		h = appendField(appendField(h, m.Names[i]), m.Values[i])
	}
	return sha256.Sum256(h)
}

// Entry is an answer's place in the index. It holds no text of question or answer: the answer is the intent's, and of the
// question there are hashes and a vector.
type Entry struct {
	Intent           string // whose answer it is
	Tenant, Workflow string
	Kind             Kind
	Key              Key
	Partition        [32]byte
	Template         string // name of the template; for Semantic empty
	Vector           Vector // for Semantic
	Made, Expires    time.Time
}
