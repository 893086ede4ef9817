package gateway

import (
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/ledger"
)

// writes remembers, for calls of tools without a key template, whose window another write has ended: A, B, A are three
// effects (semantics 41). Only a write whose answer arrived is ended so: one that is unknown, on its way or undelivered
// may be asked for again by its own retry, whatever was written meanwhile. What this process does not remember is taken
// for a repetition, within its window.
type writes struct {
	mu      sync.Mutex
	writers map[writer]map[[32]byte]*written
	swept   time.Time
}

// writer is whose writes end each other's windows: the nearest that HTTP has to a session.
type writer struct{ tenant, owner, server, host string }

// written is one kind of write of a writer, by its fingerprint.
type written struct {
	after   string // the write that ended its window before this one; "": none
	arrived bool   // it was executed, and its answer was delivered
	ended   string // the write that ended its window since
	at      time.Time
}

const (
	writtenFor = 10 * time.Minute // semantics 41
	maxWriters = 4096
	maxWritten = 256 // of one writer
)

// after names the write behind which a write is a new one; "" where none is known. It is the same for each retry.
func (ws *writes) after(who writer, fp [32]byte) string {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.writers[who][fp]
	switch {
	case w == nil:
		return ""
	case w.ended != "":
		*w = written{after: w.ended, at: time.Now()}
	}
	return w.after
}

// add records a write that was executed, or the delivery of one that had been.
func (ws *writes) add(who writer, fp [32]byte, id string, executed, arrived bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	now := time.Now()
	ws.forget(now)
	mine := ws.writers[who]
	if mine == nil {
		if len(ws.writers) >= maxWriters {
			return
		}
		mine = map[[32]byte]*written{}
		ws.writers[who] = mine
	}
	w := mine[fp]
	if w == nil {
		if len(mine) >= maxWritten {
			return
		}
		w = &written{}
		mine[fp] = w
	}
	w.arrived, w.at = w.arrived || arrived, now
	if !executed {
		return
	}
	for other, o := range mine {
		if other != fp && o.arrived && o.ended == "" {
			o.ended = id
		}
	}
}

// forget drops what is older than any window.
func (ws *writes) forget(now time.Time) {
	if ws.writers == nil {
		ws.writers = map[writer]map[[32]byte]*written{}
	}
	if now.Sub(ws.swept) < time.Minute {
		return
	}
	ws.swept = now
	for who, mine := range ws.writers {
		for fp, w := range mine {
			if now.Sub(w.at) > writtenFor {
				delete(mine, fp)
			}
		}
		if len(mine) == 0 {
			delete(ws.writers, who)
		}
	}
}

// writesInOrder says that the call is one that another write ends the window of.
func (c *call) writesInOrder() bool {
	return c.tool != nil && c.tool.keyless && c.callerKey == "" && c.effect == ledger.EffectExternal &&
		c.wf.Idempotency.Derive == policy.DeriveAlways && !mutant.On("replay-past-other-write")
}

func (c *call) writer() writer {
	host, _, err := net.SplitHostPort(c.r.RemoteAddr)
	if err != nil {
		host = c.r.RemoteAddr
	}
	return writer{c.tenant, c.owner, c.wf.Name, host}
}

// wrote says what became of a call of a tool, for the windows of others.
func (c *call) wrote() {
	if c.tool == nil || c.wf == nil || c.effect != ledger.EffectExternal || c.status < 200 || c.status >= http.StatusMultipleChoices {
		return
	}
	executed := c.leader && !c.replay && c.exec != nil
	id := ""
	if executed {
		id = c.exec.opID()
	}
	arrived := c.arrived() && c.writesInOrder()
	if executed || arrived {
		c.g.writes.add(c.writer(), c.fp, id, executed, arrived)
	}
}
