package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
)

// causes keeps what the gateway inside eval logs of failures: no answer names an address, and whoever wrote base_url has to see which
// one refused. It is a slog.Handler.
type causes struct {
	mu    sync.Mutex
	order []string
	count map[string]int
}

// maxCauses bounds the different ones that are told; an error may quote something of its own each time.
const maxCauses = 8

func (c *causes) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (c *causes) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok && a.Key == "error" {
			c.add(err.Error())
		}
		return true
	})
	return nil
}

func (c *causes) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c *causes) WithGroup(string) slog.Handler      { return c }

func (c *causes) add(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count[text] == 0 {
		if len(c.order) == maxCauses {
			return
		}
		c.order = append(c.order, text)
	}
	c.count[text]++
}

// tell writes each cause once.
func (c *causes) tell(w io.Writer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range c.order {
		if _, err := fmt.Fprintf(w, "behind %s: %s\n", plural(c.count[text], "failure"), clean(text, 300)); err != nil {
			return err
		}
	}
	return nil
}
