package gateway

import (
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// Observer is told what happens, for telemetry. Its methods must not block.
type Observer interface {
	Request(Request)
	Lookup(workflow string)
	// Duplicate is a request that repeats one that is settled, in_flight or unknown.
	Duplicate(workflow, of string)
	StoreError(workflow string)
	Attempt(Attempt)
}

// Request is one request that was answered.
type Request struct {
	Workflow string
	Effect   ledger.Effect
	Source   string // tier, replay, none
	Code     Code   // of the gateway's own error
	Status   int
	Took     time.Duration
}

// Attempt is one upstream call that ended.
type Attempt struct {
	Workflow string
	Tier     string
	End      ledger.AttemptEnd
	Error    string
	Took     time.Duration
}

type silent struct{}

func (silent) Request(Request)          {}
func (silent) Lookup(string)            {}
func (silent) Duplicate(string, string) {}
func (silent) StoreError(string)        {}
func (silent) Attempt(Attempt)          {}

func (c *call) observe() {
	source := c.source
	if source == "" {
		source = "none"
	}
	c.g.observer.Request(Request{Workflow: c.workflow(), Effect: c.effect, Source: source, Code: c.code, Status: c.status,
		Took: time.Since(c.began)})
}

// lookAgain gives up the execution that stood down.
func (c *call) lookAgain() {
	c.exec.leave()
	c.exec, c.leader, c.replay, c.again = nil, false, false, false
}
