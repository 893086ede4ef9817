package pause_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/internal/pause"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(context.Background(), 3*time.Second)
		defer end()
		began := time.Now()
		if !pause.For(ctx, 2*time.Second) || time.Since(began) != 2*time.Second {
			t.Errorf("waited %s of 2s", time.Since(began))
		}
		if pause.For(ctx, 2*time.Second) || time.Since(began) != 3*time.Second {
			t.Errorf("went on behind the context's end, after %s", time.Since(began))
		}
	})
}
