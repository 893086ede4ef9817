package postgres

import (
	"errors"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
)

// TestOpenTogether: replicas that start at once on an empty database make one schema.
func TestOpenTogether(t *testing.T) {
	url := emptyStore(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			l, err := Open(t.Context(), Config{URL: url, Env: "prod"})
			if err != nil {
				t.Error(err)
				return
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, err := Open(t.Context(), Config{URL: url, Env: "test"}); !errors.Is(err, ledger.ErrForeignEnv) {
		t.Errorf("the store of another env: %v, want ErrForeignEnv", err)
	}
}
