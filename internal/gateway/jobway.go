package gateway

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
)

// Where a job goes is on record: its workflow, provider and path. An address that is put together from them and read again
// could be another provider's under another configuration. What the configuration in force does not have leaves the job
// where it is, until it ages or a person chooses another route; it is sent nowhere else.

// errAbsent marks what a job needs and the configuration in force does not have.
var errAbsent = errors.New("it waits, and is sent nowhere else")

// absentWait is how often it is looked for without a reload, which asks at once.
const absentWait = 30 * time.Second

func absentf(format string, args ...any) *Error {
	err := errorf(CodeNotFound, format, args...)
	err.Err, err.Wait = errAbsent, absentWait
	return err
}

// jobRoute is the stage route of a job.
func (c *call) jobRoute() *Error {
	head := scheduledAs(*c.job.Op.Head(), c.job.Life.Said)
	if mutant.On("job-follows-new-config") {
		c.r.URL.Path = "/" + head.Provider + head.Path
		c.wf = c.g.policy.Workflow(head.Workflow)
		return c.route()
	}
	return c.aim(&head)
}

// aim finds where a job goes by its head and the configuration in force: to the first tier of its workflow, as a call would,
// or to the provider on record.
func (c *call) aim(head *ledger.Intent) *Error {
	if head.Provider == ToolProvider {
		if c.toolPath(head.Path) != nil {
			return absentf("its tool server %s is no longer configured", head.Workflow)
		}
		c.wf = c.tool.wf
		c.setOut("")
		return nil
	}
	if c.wf = c.g.jobWorkflow(head); c.wf == nil {
		return absentf("its workflow %s is no longer configured", head.Workflow)
	}
	if route := overrideIn(head); route != "" && forbids(c.wf) {
		return absentf("it was replayed by %s, and its policy %s now has no other route answer (fallback.allowed_before_first_token: false)", bounded(route), c.wf.Name)
	}
	chosen := overrideIn(head)
	c.path, c.from = head.Path, c.g.providers[head.Provider]
	l := c.g.firstLeg(c.nestRules(), c.from, c.model, chosen)
	if l.to == nil {
		name := head.Provider
		if chosen != "" {
			name, _ = cutRoute(chosen)
		}
		return absentf("its provider %s is no longer configured", name)
	}
	if c.from == nil { // its tiers have their own
		c.from = l.to
	}
	c.setOut(chosen)
	return nil
}

// jobCandidate is a call of a job that may be sent or not, as far as its head says where it goes.
func (g *edition) jobCandidate(head *ledger.Intent) (*call, *Error) {
	c := &call{g: g, job: &queue.Job{Op: g.log.Load(&ledger.Record{Intent: *head})}, model: head.RequestedModel, tenant: head.Tenant,
		r: &http.Request{Method: head.Method, URL: &url.URL{}}}
	return c, c.aim(head)
}

// sameFormat refuses a job that its provider would read as another call, because it speaks another format by now.
func (c *call) sameFormat() *Error {
	head := c.job.Op.Head()
	if !understands(c.from, head) || !c.course.several() && c.from.wire != c.target.wire && !translates(head.Endpoint, c.target.wire) {
		return absentf("its provider %s speaks %s now, and its request is another's", c.target.conf.Name, c.target.wire)
	}
	return nil
}

// approved has the owner of a job asked where the policy in force wants that and no person has spoken for the job yet: it was
// written down before the policy said so. A generation that began by a person's word has it.
func (c *call) approved() *Error {
	if !c.approves() || reviewed(c.job) || mutant.On("job-skips-approval") {
		return nil
	}
	err := c.job.Op.Park(intent.Parking{Lane: intent.LaneReview, Rule: "approval",
		Reason: "it waits for its owner: approval: dispatch was not the policy of " + c.wf.Name + " when it was submitted, and is now"})
	switch {
	case errors.Is(err, ledger.ErrStale):
		return &Error{Code: CodeInFlight, Message: "the job was cancelled or taken over before it was sent", Err: err}
	case err != nil:
		return c.storeAway(err)
	}
	c.done = true
	return nil
}

// Lacks says what a job that is not done cannot be sent without and the configuration in force does not have; "" where it has
// all of it.
func (g *Gateway) Lacks(r *ledger.Record, life intent.Life) string {
	if r.JobID == "" || intent.IsCallback(&r.Intent) || r.LeaseOwner != "" || r.State == ledger.Settled {
		return ""
	}
	head := scheduledAs(r.Intent, life.Said)
	if _, err := g.current.Load().jobCandidate(&head); err != nil {
		return err.Message
	}
	return ""
}

// absence is what jobs were found to lack under one configuration. Each is said once: there may be many of them, and they
// are looked at again and again.
type absence struct {
	mu   sync.Mutex
	said map[string]bool
}

// mostAbsences bounds what is remembered as said.
const mostAbsences = 256

func (a *absence) say(l *slog.Logger, head *ledger.Intent, err *Error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.said[err.Message] || len(a.said) >= mostAbsences {
		return
	}
	if a.said == nil {
		a.said = map[string]bool{}
	}
	a.said[err.Message] = true
	l.Warn("jobs wait for what is not configured now; they are sent nowhere else", "reason", err.Message, "workflow", head.Workflow, "first", head.ID)
}
