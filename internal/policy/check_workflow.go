package policy

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

func (k *checker) workflow(w *Workflow) {
	path := w.Path()
	switch {
	case w.Name == "key":
		k.fail(path, `the name "key" is reserved: keys given by callers use it`, "choose another name")
	case w.Name == DefaultWorkflow && k.c.Written(path+".match"):
		k.fail(path+".match", "the default workflow takes what no other matches", "remove match, or give the workflow another name")
	}
	k.timeouts(path+".timeouts", w.Timeouts)
	k.idempotency(path+".idempotency", w)
	k.external(path, w)
	k.mechanisms(path, w)
	k.tiers(path, w)
	k.contracts(path, w)
	k.cache(path+".cache", w)
	k.lanes(path, w)
	k.callbacks(path+".callbacks", &w.Callbacks)
	k.conditions(path, w.Succeeded, w.Failed, w.Definite, reconcileWorkflow)
	k.reconcile(path+".reconcile", w.Reconcile, operation{place: reconcileWorkflow, key: w.Idempotency.Key, timeout: w.Timeouts.Attempt,
		effect: w.Effect, unknown: w.UnknownRule(false), path: path})
}

// shadowed warns of workflows behind one without match, which takes every call that names none. Of globs it judges nothing, and
// a further one without match, as the default, is for calls that name it.
func (k *checker) shadowed() {
	last := len(k.c.Workflows) - 1
	everything := func(w Workflow) bool { return len(w.Match.Paths)+len(w.Match.Models)+len(w.Match.Headers) == 0 }
	first := slices.IndexFunc(k.c.Workflows[:last], everything)
	if first < 0 {
		return
	}
	taker := k.c.Workflows[first].Name
	for i := first + 1; i < last; i++ {
		if w := &k.c.Workflows[i]; !everything(*w) {
			k.warn(w.Path()+".match", "fits no call: "+taker+", before it, has no match and takes every call that names no workflow",
				"give "+taker+" a match, such as {headers: {Holdfast-Workflow: "+taker+"}} where calls name it, or put it behind "+w.Name)
		}
	}
}

func (k *checker) timeouts(path string, t Timeouts) {
	nested := func(inner, outer string, a, b time.Duration, strict bool) {
		if a < b || a == b && !strict {
			return
		}
		rule, at := "at most", inner
		if strict {
			rule = "less than"
		}
		if !k.c.Written(path + "." + inner) {
			at = outer
		}
		k.fail(path+"."+at, fmt.Sprintf("%s %s must be %s %s %s", inner, Span(a), rule, outer, Span(b)),
			fmt.Sprintf("lower %s or raise %s", inner, outer))
	}
	nested("first_token", "attempt", t.FirstToken, t.Attempt, false)
	nested("attempt", "total", t.Attempt, t.Total, false)
	nested("total", "request", t.Total, t.Request, true)
	if t.Idle > t.Stream {
		k.fail(path+".idle", fmt.Sprintf("idle %s must be at most stream %s", Span(t.Idle), Span(t.Stream)), "lower idle or raise stream")
	}
}

func (k *checker) idempotency(path string, w *Workflow) {
	id := &w.Idempotency
	k.template(path+".key", id.Key)
	if id.Key != "" && id.Derive == DeriveOff {
		k.warn(path+".key", "is never used, because derive is off", "write derive: always, or remove key")
	}
	if id.Key == "" { // otherwise the template says what the request means
		k.ignored(path+".ignore", id.Ignore)
	}
	usual := Idempotency{Derive: id.Derive, Key: id.Key}
	usual.resolve(w.Effect, func(string) bool { return false })
	written := k.c.Written(path+".ttl") || k.c.Written(path+".window")
	if written && (id.TTL != usual.TTL || id.Window != usual.Window) && id.Derive != DeriveOff && id.TTL < 6*id.Window {
		at := path + ".ttl"
		if !k.c.Written(at) {
			at = path + ".window"
		}
		k.warn(at, fmt.Sprintf("ttl %s is below 6 × window %s, so that a late retry may run again", Span(id.TTL), Span(id.Window)), "write ttl: "+Span(6*id.Window)+" or more")
	}
}

// meaning are the fields in which the three APIs say what is asked, and of whom.
var meaning = []string{"messages", "input", "contents", "prompt", "system", "instructions", "system_instruction", "systemInstruction",
	"model", "tools", "previous_response_id", "conversation"}

func (k *checker) ignored(path string, fields []string) {
	for i, field := range fields {
		if slices.Contains(meaning, field) {
			k.warn(item(path, i), quote(field)+" is what a request asks: two that differ in it become one, and the second gets the first one's answer",
				"ignore only what changes from try to try, e.g. metadata.trace_id")
		}
	}
}

func (k *checker) template(path, template string) {
	if field := generated(template); field != "" {
		k.warn(path, "uses "+field+", which is made anew for each try, so that a retry is never recognised", "use business arguments only")
	} else if why := coarse(template); why != "" {
		k.warn(path, why+", so that two intentions may share a key", "add what identifies the object, e.g. {customer_id} or {order_id}")
	}
}

// external refuses what could answer for, or repeat, an effect in the world.
func (k *checker) external(path string, w *Workflow) {
	if w.Effect != External {
		return
	}
	const why = "an external workflow must really act, or say that it did not"
	if w.Cache.Default != "" {
		k.fail(path+".cache.default", why, "remove it: a fixed text would look like success")
	}
	if w.Cache.Semantic != nil {
		k.fail(path+".cache.semantic", why, "remove it: an earlier answer would look like this one's")
	}
	if len(w.Cache.Template) > 0 {
		k.fail(path+".cache.template", why, "remove it: an earlier answer would look like this one's")
	}
	if w.Idempotency.OnStoreError == Allow {
		k.fail(path+".idempotency.on_store_error", "allow would act without a record while the store is down", "write local or deny")
	}
	if w.OnUnknown == RetryUnknown {
		k.warn(path+".on_unknown", "retry may repeat an effect that happened", "write hold")
	}
	if w.Durability == Relaxed {
		k.warn(path+".durability", "relaxed may lose the record of an effect in a power cut", "write strict")
	}
}

// Useful ranges of interface.md §5.
const (
	fewestFailures, mostFailures = 5, 30
	manyReplicas                 = 5
	longPrompt                   = 1000
)

func (k *checker) mechanisms(path string, w *Workflow) {
	b := &w.Breaker
	if k.c.Written(path+".breaker") && !k.c.isDefault(segments(path+".breaker")) && slices.ContainsFunc(w.bulkheads(), unbounded) {
		k.warn(path+".breaker", "stands without a bulkhead: a slow provider fills every worker before it opens", "add bulkhead: {max_concurrent: 30}")
	}
	if b.FailureThreshold < fewestFailures || b.FailureThreshold > mostFailures {
		k.warn(path+".breaker.failure_threshold", strconv.Itoa(b.FailureThreshold)+" is outside the useful range", "write 5 to 30: below, noise opens it; above, it opens too late")
	}
	switch {
	case b.Scope == "shared" && k.c.SharedState == nil && !k.c.partial:
		k.fail(path+".breaker.scope", "shared needs shared_state", `add shared_state: {url: "redis://127.0.0.1:6379/0"}, or write local`)
	case b.Scope == "local" && b.Replicas > manyReplicas:
		k.warn(path+".breaker.replicas", fmt.Sprintf("%d replicas each learn of an outage for themselves", b.Replicas), "write scope: shared, with shared_state")
	}
	if w.Retry.Base > w.Retry.Max {
		k.fail(path+".retry.base", fmt.Sprintf("base %s must be at most max %s", Span(w.Retry.Base), Span(w.Retry.Max)), "lower base or raise max")
	}
	if s := w.Spend; s.PerDay > 0 && s.PerRequest > s.PerDay {
		k.warn(path+".spend.per_request", "is more than per_day", "lower it")
	}
}

func (k *checker) tiers(path string, w *Workflow) {
	names, prompts := map[string]int{}, map[string]int{}
	for i := range w.Tiers {
		t := &w.Tiers[i]
		at := item(path+".tiers", i)
		if first, dup := names[t.Name]; dup {
			k.fail(at+".name", fmt.Sprintf("%s is also the name of tiers[%d]", quote(t.Name), first), "give each tier a name of its own")
		}
		names[t.Name] = i
		k.providerName(at+".provider", t.Provider)
		k.tierTimeouts(at+".timeouts", t.Timeouts, w.Timeouts)
		if t.Prompt == nil || len(t.Prompt.System) < longPrompt {
			continue
		}
		if first, dup := prompts[t.Prompt.System]; dup {
			k.warn(at+".prompt.system", fmt.Sprintf("is the same long prompt as in tiers[%d]: what is too long or too slow there is so here", first), "write a shorter one for the lesser tier")
		}
		prompts[t.Prompt.System] = i
	}
}

func (k *checker) tierTimeouts(path string, t *TierTimeouts, w Timeouts) {
	if t == nil {
		return
	}
	attempt := w.Attempt
	if t.Attempt > 0 {
		attempt = t.Attempt
	}
	if t.Attempt > w.Total {
		k.fail(path+".attempt", fmt.Sprintf("attempt %s must be at most the workflow's total %s", Span(t.Attempt), Span(w.Total)), "lower it or raise timeouts.total")
	}
	if t.FirstToken > attempt {
		k.fail(path+".first_token", fmt.Sprintf("first_token %s must be at most attempt %s", Span(t.FirstToken), Span(attempt)), "lower it or raise attempt")
	}
}

func (k *checker) lanes(path string, w *Workflow) {
	at := path + ".lanes.interactive_admission.max_wait_ms"
	if wait := w.Lanes.InteractiveAdmission.MaxWait; k.c.Written(at) && wait >= w.Timeouts.Total {
		k.warn(at, fmt.Sprintf("%s is not less than timeouts.total %s: a call that waits so long has no time left", Span(wait), Span(w.Timeouts.Total)), "write a fraction of total")
	}
}
