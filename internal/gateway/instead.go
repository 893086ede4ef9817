package gateway

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/provider/wire"
	"github.com/holdfast-ai/holdfast/ledger"
)

// Where a call finally fails, an earlier answer or a fixed text may stand in its place, and says so. The failure stays on
// record and its key is released: what was not made for this operation never settles it (semantics 14).

// canned is an answer that was not made for this operation.
type canned struct {
	source      string // of Holdfast-Source
	reason      string // of Holdfast-Fallback-Reason: the code of what failed
	body        []byte
	contentType string
	served      string // model
	hit         *hit   // nil for a fixed text
}

// sourceDefault is Holdfast-Source of a workflow's fixed text.
const sourceDefault = "default"

// excused are the failures that are neither the client's own nor leave open what happened. Who is told that this gateway
// shuts down, or that its store is away, is better served by another one.
var excused = map[Code]bool{CodeShed: true, CodeAdmission: true, CodeBulkheadFull: true, CodeRateLimited: true, CodeCircuitOpen: true,
	CodeSpendExceeded: true, CodeAllTiersFailed: true, CodeDeadline: true, CodeIncomplete: true, CodeContract: true, CodeAnswerTooLarge: true}

// excusedStatus says the same of a provider's own error. A 501 is lasting, and is kept for its key (semantics 14).
func excusedStatus(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500 && status != http.StatusNotImplemented
}

// StandIns lists what a workflow has to stand in the place of an answer to a call, in the order in which it is looked for: templates,
// semantic, default. It is empty where an attempt that ended with a status (0: without one) is shown to the client as it is. It is for
// `holdfast explain`; of the request it knows no more than what kind of call it is. met are the conditions that the failure meets.
func StandIns(w *policy.Workflow, call *provider.Call, status int, met ...string) []string {
	texts := []string{wire.Chat, wire.Responses, wire.Messages, wire.Generate, wire.StreamGenerate}
	if status != 0 && !excusedStatus(status) || !slices.Contains(texts, call.Endpoint) || w.EffectOf(call.Read) != policy.Generation ||
		w.Mode == policy.Observe || w.Approval == policy.ApproveDispatch || closes(w, met) {
		return nil
	}
	var list []string
	for i := range w.Cache.Template {
		list = append(list, "template "+w.Cache.Template[i].Name)
	}
	if w.Cache.Semantic != nil {
		list = append(list, "semantic")
	}
	if w.Cache.Default != "" {
		list = append(list, sourceDefault)
	}
	return list
}

// instead answers a call that is about to be refused; false where there is nothing to answer it with.
func (c *call) instead(refusal *Error) bool {
	if !excused[refusal.Code] || refusal.Open {
		return false
	}
	if !c.lastResort(refusal.Code) {
		return false
	}
	if refusal.Err != nil {
		c.g.logger.Warn("what failed was answered in its place", "code", string(refusal.Code), "intent", refusal.Intent, "workflow", c.workflow(), "error", refusal.Err)
	}
	return true
}

// lastResort looks for what may stand in the place of an answer: template, meaning, fixed text.
func (c *call) lastResort(failed Code) bool {
	conf := c.caching()
	if conf == nil || c.resume || c.done || prefersAsync(c.r.Header) || c.g.draining.Load() || c.r.Context().Err() != nil || c.leftOpen() || c.failsClosed(failed) {
		return false
	}
	a := c.asks()
	if a != nil && !c.fresh {
		// Its vector takes the embedder's own time at most: that of the call may be what is over.
		if h := c.find(c.r.Context(), a, c.tierScopes(false)); h != nil {
			if c.stand(h.canned(string(failed))) {
				return true
			}
		}
	}
	if conf.text == "" {
		return false
	}
	id := rand.Text()
	if c.exec != nil {
		id = cmp.Or(c.exec.opID(), id)
	}
	text, ok := provider.Say(&c.spec, c.body, conf.text, id, time.Now())
	if !ok {
		return false
	}
	c.g.observer.CacheHit(c.wf.Name, sourceDefault)
	return c.stand(&canned{source: sourceDefault, reason: string(failed), body: text.Body, contentType: text.ContentType, served: provider.SaidBy})
}

// leftOpen says that nobody knows what became of the operation: only evidence or a person ends that, and no other answer.
func (c *call) leftOpen() bool {
	if c.exec == nil || c.exec.opID() == "" {
		return false
	}
	return c.exec.op.Status().State == ledger.Unknown
}

// mayStand says that an answer of this type is what a head that went out already has promised.
func (c *call) mayStand(contentType string) bool {
	return !c.bridging || c.fits(http.StatusOK, contentType)
}

// stand gives the client an answer that was not made for its operation. It is false, with nothing written, where that is not
// what a head that went out already has promised.
func (c *call) stand(k *canned) bool {
	if !c.mayStand(k.contentType) {
		return false
	}
	c.standNoted(k)
	out := c.w.Header()
	if c.exec != nil && c.exec.opID() != "" {
		c.operation(out)
	} else if c.model != "" {
		c.set(out, "Holdfast-Requested-Model", c.model)
	}
	if c.earlier != nil {
		c.earlier.told(out)
	}
	c.set(out, "Holdfast-Source", k.source)
	c.set(out, "Holdfast-Served-Model", k.served)
	c.set(out, "Holdfast-Fallback-Reason", k.reason)
	if k.hit != nil {
		c.set(out, "Holdfast-Cache", k.hit.String())
	}
	c.done, c.source, c.status = true, k.source, http.StatusOK
	body := k.body
	if number := c.newCutter(k.contentType); number != nil { // the client wants its events numbered
		if numbered, ok := number.cut(body); ok {
			body = numbered
		}
	}
	if !c.bridging {
		set(out, "Content-Type", k.contentType)
		c.set(out, "Content-Length", strconv.Itoa(len(body)))
		c.w.WriteHeader(http.StatusOK)
	}
	c.out.last, c.out.chunked = true, c.bridging
	_, err := c.w.Write(body)
	c.whole = err == nil
	c.taken = c.whole && c.receipts()
	return true
}

// String is Holdfast-Cache: by what the answer was found, whose it was, and how old it is. The id is of the caller's own tenant.
func (h *hit) String() string {
	return fmt.Sprintf("kind=%s; similarity=%.4f; entry=%s; age=%d", h.entry.Kind, h.similarity, h.entry.Intent, int64(h.age/time.Second))
}

// standNoted says in the operation's history, where there is one, what its client was given.
func (c *call) standNoted(k *canned) {
	said := map[string]string{"source": k.source, "reason": k.reason}
	words := "its client was given the workflow's fixed text in the place of " + k.reason
	if k.hit != nil {
		said["entry"], said["cache"] = k.hit.entry.Intent, k.hit.String()
		words = "its client was given an earlier answer in the place of " + k.reason + ", that of " + k.hit.entry.Intent
	}
	id := c.earlier.intent()
	if e := c.exec; e != nil {
		if id = e.opID(); id != "" {
			evidence, err := json.Marshal(said)
			if err == nil { // strings
				e.op.Note(ledger.Event{Kind: "note", Reason: words, Rule: "semantics 14", Evidence: evidence})
			}
		}
	}
	c.g.logger.Info("answered in the place of a provider", "intent", id, "workflow", c.wf.Name, "source", k.source, "reason", k.reason, "entry", said["entry"])
}
