package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signalled is why a command's context ended that was interrupted. The exit status says so, too: 128 and the signal's number, as
// for a program that the signal has ended.
type signalled struct{ sig syscall.Signal }

func (s *signalled) Error() string {
	if s.sig == syscall.SIGTERM {
		return "terminated"
	}
	return "interrupted"
}

// interruptible ends a context by SIGINT or SIGTERM, so that a command can say what it has done by then. A second one ends the
// program at once.
func interruptible(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		defer close(done)
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			sig, _ := s.(syscall.Signal)
			cancel(&signalled{sig})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}
