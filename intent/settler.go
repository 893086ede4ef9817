package intent

import (
	"errors"

	"github.com/holdfast-ai/holdfast/ledger"
)

// settler waits, in one goroutine, for the relaxed writes of settled intents: they are on their way to the
// ledger already, and only a store in trouble makes one need more than to be waited for.
type settler struct {
	queue chan *settling
}

type settling struct {
	op     *Op
	change *change
	write  *ledger.Write
	landed <-chan struct{}
	done   func(error)
}

// maxSettling bounds the settled intents whose record is still on its way; beyond it callers wait.
const maxSettling = 1 << 14

func newSettler() *settler { return &settler{queue: make(chan *settling, maxSettling)} }

func (s *settler) add(x *settling) { s.queue <- x }
func (s *settler) close()          { close(s.queue) }

func (s *settler) run() {
	for x := range s.queue {
		<-x.landed
		err := x.op.landed(x.change, x.write)
		if errors.Is(err, ledger.ErrUnavailable) {
			x.op.persist(x.change, x.write, x.done)
			continue
		}
		if x.done != nil {
			x.done(err)
		}
	}
}
