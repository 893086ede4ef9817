package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// post sends a message to a holder that is not there.
func (h *holder) post(t *testing.T) error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://holdfast/mcp/x", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := h.RoundTrip(r)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// A store that somebody else holds, and offers no way to, is waited for a little; then the words say who holds it.
func TestStoreHeldWithoutASocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		h := newHolder(Attachment{Socket: filepath.Join(t.TempDir(), "s"), Logger: slog.New(slog.DiscardHandler), TakeOver: func(context.Context) error {
			tries++
			return fmt.Errorf("%w: in use by process 7; stop it", ledger.ErrLocked)
		}})
		began := time.Now()
		err := h.post(t)
		if !neverLeft(err) || !errors.Is(err, ledger.ErrLocked) || !strings.Contains(err.Error(), "process 7; stop it") {
			t.Errorf("%v", err)
		}
		if waited := time.Since(began); waited < socketWait || waited > 2*socketWait || tries < 2 {
			t.Errorf("gave up after %s and %d tries", waited, tries)
		}
	})
}

// A gateway is started again by whoever looks after it: its store is taken over later than a proxy's, and never for a stream
// that is only listened to.
func TestGatewayIsWaitedFor(t *testing.T) {
	for _, gateway := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			broken := errors.New("the disk is full")
			began, taken := time.Now(), time.Duration(-1)
			h := newHolder(Attachment{Socket: filepath.Join(t.TempDir(), "s"), Logger: slog.New(slog.DiscardHandler), TakeOver: func(context.Context) error {
				taken = time.Since(began)
				return broken
			}})
			h.gateway.Store(gateway)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://holdfast/mcp/x", nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.RoundTrip(r); !errors.Is(err, errNoHolder) || taken >= 0 {
				t.Errorf("a stream: %v after %s", err, taken)
			}
			if err := h.post(t); !errors.Is(err, errNoHolder) || !errors.Is(err, broken) {
				t.Errorf("%v", err)
			}
			if gateway != (taken >= gatewayWait) {
				t.Errorf("gateway %v: taken over after %s", gateway, taken)
			}
		})
	}
}
