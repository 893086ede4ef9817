package gateway

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/cache"
	"github.com/holdfast-ai/holdfast/ledger"
)

// mute is a ledger that never answers.
type mute struct {
	ledger.Ledger
	asked int
}

func (m *mute) Cached(ctx context.Context, _ ledger.CachedFilter) ([]ledger.Cached, error) {
	m.asked++
	<-ctx.Done()
	return nil, ctx.Err()
}

// A slow store takes one bound of a look, however many entries that finds.
func TestLookAsksASlowStoreOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mute{}
		g := &Gateway{ledger: store}
		began, left := time.Now(), fetchWait
		for range 6 {
			if _, err := g.fetch(&cache.Entry{Intent: "x", Kind: cache.Semantic}, "", &left); !errors.Is(err, context.DeadlineExceeded) || noAnswer(err) {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != fetchWait || store.asked != 1 {
			t.Errorf("%d reads took %s", store.asked, took)
		}
	})
}
