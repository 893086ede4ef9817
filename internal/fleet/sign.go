package fleet

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// SecretName is the secret of the store that signs the calls of its engines to one another (ledger.Secret).
const SecretName = "peer"

// Skew is how far the time of a call may be from ledger time. Both sides read the same clock, or nearly.
const Skew = 30 * time.Second

// Headers of a signed call and of its answer.
const (
	SignatureHeader = "Holdfast-Peer"       // v1 FROM TO TIME NONCE MAC DIGEST
	ProofHeader     = "Holdfast-Peer-Proof" // on the answer: who gives it has the key, and is whom the call was for
)

// ErrUnsigned says that a call is not one of a peer's: not signed, wrongly signed, too old, for another engine, or seen before.
// A wrapping error says which.
var ErrUnsigned = errors.New("fleet: not a call of a replica of this store")

// maxNonces bounds what is remembered of calls within twice Skew. Only calls with a right signature are: a fleet that makes
// more than four thousand calls a second to one replica is refused the rest, and what was seen is never forgotten early.
const maxNonces = 1 << 18

// Signer signs calls between engines on one store, and tells a peer's from all others. It is safe for concurrent use.
type Signer struct {
	self string
	key  []byte
	now  func() time.Time
	seen nonces
}

// NewSigner returns the signer of the engine self, with the store's own secret (SecretName) and ledger time.
func NewSigner(self string, secret []byte, now func() time.Time) *Signer {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("holdfast peer v1"))
	return &Signer{self: self, key: mac.Sum(nil), now: now}
}

// Sign signs r, with its whole body, as a call to the engine to. It returns what Proved takes of the answer. Nothing of what is
// signed may change afterwards: method, path, query, body.
func (s *Signer) Sign(r *http.Request, to string, body []byte) (nonce string) {
	nonce = rand.Text()
	at := strconv.FormatInt(s.now().UnixMilli(), 10)
	sum := digest(body)
	mac := s.mac("call", r.Method, r.URL.EscapedPath(), r.URL.RawQuery, s.self, to, at, nonce, sum)
	r.Header.Set(SignatureHeader, strings.Join([]string{"v1", s.self, to, at, nonce, mac, sum}, " "))
	return nonce
}

// Verify says whose call r is, and what Proof takes for the answer to it. Errors: ErrUnsigned.
func (s *Signer) Verify(r *http.Request, body []byte) (from, nonce string, err error) {
	from, nonce, sum, err := s.head(r)
	if err == nil && sum != digest(body) {
		return "", "", fmt.Errorf("%w: another body", ErrUnsigned)
	}
	return from, nonce, err
}

// head is Verify without the body, whose digest it returns: of whoever has not the secret no body is read.
func (s *Signer) head(r *http.Request) (from, nonce, sum string, err error) {
	fields := strings.Split(r.Header.Get(SignatureHeader), " ")
	if len(fields) != 7 || fields[0] != "v1" || len(r.Header.Values(SignatureHeader)) != 1 {
		return "", "", "", fmt.Errorf("%w: no signature", ErrUnsigned)
	}
	from, to, at, nonce := fields[1], fields[2], fields[3], fields[4]
	want := s.mac("call", r.Method, r.URL.EscapedPath(), r.URL.RawQuery, from, to, at, nonce, fields[6])
	if !hmac.Equal([]byte(want), []byte(fields[5])) && !mutant.On("peer-signature-unread") {
		return "", "", "", fmt.Errorf("%w: wrong signature", ErrUnsigned)
	}
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return "", "", "", fmt.Errorf("%w: no time", ErrUnsigned)
	}
	now := s.now()
	switch age := now.Sub(time.UnixMilli(ms)); {
	case age > Skew || age < -Skew:
		return "", "", "", fmt.Errorf("%w: its time is %s away from this store's", ErrUnsigned, age.Round(time.Millisecond))
	case to != s.self:
		return "", "", "", fmt.Errorf("%w: it is for another one", ErrUnsigned)
	case !s.seen.first(nonce, now) && !mutant.On("peer-call-twice"):
		return "", "", "", fmt.Errorf("%w: it was seen before, or there are too many", ErrUnsigned)
	}
	return from, nonce, fields[6], nil
}

// Proof is what the answer to a call carries in ProofHeader.
func (s *Signer) Proof(nonce string) string { return s.mac("answer", s.self, nonce) }

// Proved reports whether an answer to a call was given by the engine that it was for.
func (s *Signer) Proved(answer http.Header, to, nonce string) bool {
	return hmac.Equal([]byte(s.mac("answer", to, nonce)), []byte(answer.Get(ProofHeader)))
}

// mac is over the parts, each with its length in front, so that none can say what belongs to the next.
func (s *Signer) mac(parts ...string) string {
	mac := hmac.New(sha256.New, s.key)
	for _, p := range parts {
		fmt.Fprintf(mac, "%d:%s\n", len(p), p)
	}
	return hex.EncodeToString(mac.Sum(nil))
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// nonces remembers each for twice Skew at least, which is how long a call's time can be right.
type nonces struct {
	mu          sync.Mutex
	turned      time.Time
	young, aged map[string]struct{}
}

// first reports whether nonce comes for the first time, and remembers it.
func (n *nonces) first(nonce string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.young == nil || now.Sub(n.turned) >= 2*Skew {
		n.aged, n.young, n.turned = n.young, map[string]struct{}{}, now
	}
	_, young := n.young[nonce]
	_, aged := n.aged[nonce]
	if young || aged || len(n.young) >= maxNonces {
		return false
	}
	n.young[nonce] = struct{}{}
	return true
}
