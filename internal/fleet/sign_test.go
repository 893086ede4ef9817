package fleet_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/fleet"
)

// clock is ledger time that a test turns.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func signers(c *clock) (a, b *fleet.Signer) {
	return fleet.NewSigner("a", []byte("the store's own"), c.Now), fleet.NewSigner("b", []byte("the store's own"), c.Now)
}

const target = "http://b.example/holdfast/v1/peer/executions/01J?from=7"

func TestSignedCall(t *testing.T) {
	c := &clock{time.Unix(1e9, 0)}
	a, b := signers(c)
	r := httptest.NewRequest(http.MethodPost, target, nil)
	nonce := a.Sign(r, "b", []byte("body"))
	from, got, err := b.Verify(r, []byte("body"))
	if err != nil || from != "a" || got != nonce {
		t.Fatalf("got %q %q %v", from, got, err)
	}
	answer := http.Header{fleet.ProofHeader: {b.Proof(got)}}
	if !a.Proved(answer, "b", nonce) {
		t.Error("the answer of b is not believed")
	}
	if a.Proved(answer, "c", nonce) || a.Proved(answer, "b", nonce+"x") || a.Proved(http.Header{}, "b", nonce) {
		t.Error("an answer is believed that is not the one of b to this call")
	}
}

// TestForgedCalls changes one thing of a call each.
func TestForgedCalls(t *testing.T) {
	at := time.Unix(1e9, 0)
	part := func(i int, to string) func(*http.Request) {
		return func(r *http.Request) {
			f := strings.Split(r.Header.Get(fleet.SignatureHeader), " ")
			f[i] = to
			r.Header.Set(fleet.SignatureHeader, strings.Join(f, " "))
		}
	}
	for name, forge := range map[string]func(*http.Request){
		"method": func(r *http.Request) { r.Method = http.MethodGet },
		"path":   func(r *http.Request) { r.URL.Path = "/holdfast/v1/peer/executions/01K" },
		"escaping": func(r *http.Request) {
			r.URL.RawPath = "/holdfast/v1/peer/executions%2F01J"
			r.URL.Path = "/holdfast/v1/peer/executions/01J"
		},
		"query":     func(r *http.Request) { r.URL.RawQuery = "from=8" },
		"no query":  func(r *http.Request) { r.URL.RawQuery = "" },
		"unsigned":  func(r *http.Request) { r.Header.Del(fleet.SignatureHeader) },
		"two":       func(r *http.Request) { r.Header.Add(fleet.SignatureHeader, r.Header.Get(fleet.SignatureHeader)) },
		"version":   part(0, "v2"),
		"from":      part(1, "c"),
		"to":        part(2, "c"),
		"time":      part(3, "1000000000001"),
		"no time":   part(3, "soon"),
		"nonce":     part(4, "other"),
		"no mac":    part(5, ""),
		"short mac": part(5, "00"),
	} {
		t.Run(name, func(t *testing.T) {
			a, b := signers(&clock{at})
			r := httptest.NewRequest(http.MethodPost, target, nil)
			a.Sign(r, "b", []byte("body"))
			forge(r)
			if from, _, err := b.Verify(r, []byte("body")); !errors.Is(err, fleet.ErrUnsigned) || from != "" {
				t.Errorf("taken for one of %q: %v", from, err)
			}
		})
	}
	t.Run("body", func(t *testing.T) {
		a, b := signers(&clock{at})
		r := httptest.NewRequest(http.MethodPost, target, nil)
		a.Sign(r, "b", []byte("body"))
		if _, _, err := b.Verify(r, []byte("Body")); !errors.Is(err, fleet.ErrUnsigned) {
			t.Error(err)
		}
	})
	t.Run("another store's", func(t *testing.T) {
		_, b := signers(&clock{at})
		r := httptest.NewRequest(http.MethodPost, target, nil)
		fleet.NewSigner("a", []byte("another store's"), (&clock{at}).Now).Sign(r, "b", nil)
		if _, _, err := b.Verify(r, nil); !errors.Is(err, fleet.ErrUnsigned) {
			t.Error(err)
		}
	})
	t.Run("for another", func(t *testing.T) {
		a, b := signers(&clock{at})
		r := httptest.NewRequest(http.MethodPost, target, nil)
		a.Sign(r, "c", nil)
		if _, _, err := b.Verify(r, nil); !errors.Is(err, fleet.ErrUnsigned) {
			t.Error(err)
		}
	})
}

func TestCallsAreForNowAndOnce(t *testing.T) {
	signed := time.Unix(1e9, 0)
	for _, away := range []time.Duration{-fleet.Skew - time.Millisecond, fleet.Skew + time.Millisecond, -fleet.Skew, fleet.Skew} {
		c := &clock{signed}
		a, b := signers(c)
		r := httptest.NewRequest(http.MethodGet, target, nil)
		a.Sign(r, "b", nil)
		c.now = signed.Add(away)
		if _, _, err := b.Verify(r, nil); (err == nil) != (away.Abs() <= fleet.Skew) {
			t.Errorf("%s away: %v", away, err)
		}
	}

	// One that comes early is remembered until its time is over, whatever else comes meanwhile.
	c := &clock{signed}
	a, b := signers(c)
	r := httptest.NewRequest(http.MethodGet, target, nil)
	a.Sign(r, "b", nil)
	c.now = signed.Add(-fleet.Skew)
	if _, _, err := b.Verify(r, nil); err != nil {
		t.Fatal(err)
	}
	for c.now = c.now.Add(time.Second); !c.now.After(signed.Add(fleet.Skew)); c.now = c.now.Add(time.Second) {
		other := httptest.NewRequest(http.MethodGet, target, nil)
		a.Sign(other, "b", nil)
		if _, _, err := b.Verify(other, nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.Verify(r, nil); !errors.Is(err, fleet.ErrUnsigned) {
			t.Fatalf("taken twice, at %s", c.now.Sub(signed))
		}
	}
}
