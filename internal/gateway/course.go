package gateway

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/ledger"
)

// course is the way of one call over its tiers: where it may go, where it is, and why it left the tiers before.
type course struct {
	legs  []leg
	at    int
	trail []stop
	notes []ledger.Event // decisions of which the history does not know yet
	tries map[string]int // attempts by tier, over the operation's whole life and that of those in whose place it stands; nil with one tier
	went  int            // the tier of the last attempt that is durable, as telemetry knows
	said  string         // what was decided about other tiers, as clients are told
	since int            // the tier at which the operation goes on
	past  map[string]int // … before this pass of a job
	most  int            // that a tier may have; 0: not bounded apart
	asked *original      // first, once it is made
	needs *fallback.Needs
	size  size
	one   [1]leg
	first original
}

// stop is a tier that did not answer.
type stop struct {
	tier   string
	sent   bool   // it was tried: an attempt was made of it
	code   Code   // of a refusal before anything was sent; "" behind an attempt, and for what a contract skips
	word   string // what the failure is called
	status int
	rule   string // that has it skipped
	past   bool   // … by what was before, not by its contract
	reason string // in words that may be shown: no address, no error of Go's
}

// leg is where the call is.
func (k *course) leg() *leg { return &k.legs[k.at] }

// several reports whether there is more than one tier.
func (k *course) several() bool { return len(k.legs) > 1 }

// attempt is how the next attempt is written down.
func (c *call) attempt() intent.Attempt {
	return c.original().attempt(c.course.leg())
}

func (o *original) attempt(l *leg) intent.Attempt {
	return intent.Attempt{Route: l.to.conf.Name + "/" + l.sends + "/" + endpointAt(o.spec.Endpoint, l.to.wire, o.spec.Stream) + "/" + o.mark(l.to), Tier: l.name, Model: l.sends}
}

// free gives back what is counted of the requests of its tiers.
func (k *course) free() {
	if k != nil && k.asked != nil {
		k.asked.free()
	}
}

// goTo makes the leg of index i the one that the call is at.
func (c *call) goTo(i int) {
	c.course.at = i
	c.target = c.course.leg().to
}

// skipped puts on the trail what a decision passed over.
func (k *course) skipped(list []fallback.Skipped) {
	for _, s := range list {
		k.stopped(stop{tier: s.Tier, word: "skipped", rule: s.Rule, reason: s.Reason, past: s.Condition == ""})
	}
}

// stopped puts a tier on the trail, once: what an attempt there brought stays, what refused one gives way to what is known now.
func (k *course) stopped(s stop) {
	k.arrives(s.tier)
	k.trail = append(k.trail, s)
}

// arrives takes a tier off the trail that refused the call before, and has a place for it now.
func (k *course) arrives(tier string) {
	k.trail = slices.DeleteFunc(k.trail, func(s stop) bool { return s.tier == tier && !s.sent })
}

// tried counts the tiers that failed at the call, or refused it; a tier that a contract skips is none.
func (k *course) tried() (n int, sent bool) {
	for i := range k.trail {
		if s := &k.trail[i]; s.sent || s.code != "" {
			n++
			sent = sent || s.sent
		}
	}
	return n, sent
}

// because is why the call is at another tier than the first: which tier it came from, and what that one did. It came from the last of those
// before that was asked; where none was, the first of them was passed over.
func (k *course) because() (from, why string) {
	for i := range k.trail {
		s := &k.trail[i]
		switch {
		case k.index(s.tier) >= k.at:
		case s.rule == "":
			from, why = s.tier, s.word
		case from == "" && s.past:
			from, why = s.tier, "attempts_made"
		case from == "":
			from, why = s.tier, "contract"
		}
	}
	return from, why
}

// header is Holdfast-Trail: each tier that did not answer, with its reason.
func (k *course) header() string {
	parts := make([]string, len(k.trail))
	for i := range k.trail {
		s := &k.trail[i]
		parts[i] = s.tier + "; " + cmp.Or(s.word, string(s.code))
		if s.status > 0 {
			parts[i] += fmt.Sprintf("; status=%d", s.status)
		}
		if s.rule != "" {
			parts[i] += "; rule=" + s.rule
		}
	}
	return strings.Join(parts, ", ")
}

// words are the trail for a person.
func (k *course) words() string {
	parts := make([]string, len(k.trail))
	for i := range k.trail {
		s := &k.trail[i]
		parts[i] = s.tier + ": " + s.reason
		if s.rule != "" && s.word == "skipped" {
			parts[i] += " (" + s.rule + ")"
		}
	}
	return strings.Join(parts, "; ")
}

// tiered says in an answer's header what was decided about other tiers, and which of them did not answer.
func (e *execution) tiered(out http.Header) {
	e.mu.Lock()
	decided, left := e.fallback, e.left
	e.mu.Unlock()
	if decided != "" {
		set(out, "Holdfast-Fallback", decided)
	}
	if left != "" {
		set(out, "Holdfast-Trail", left)
	}
}

// degraded says in the header of an answer why another tier or model than was asked for gave it, and what its tier has to say of that.
func (c *call) degraded(out http.Header) {
	reason, notice := c.exec.standsFor()
	if reason == "" && c.exec.spec.Model != "" && c.exec.servedModel() != plainName(c.exec.spec.Model) {
		reason = namedByProvider
	}
	if reason != "" {
		c.set(out, "Holdfast-Fallback-Reason", reason)
	}
	if notice != "" {
		c.set(out, "Holdfast-Notice", notice)
	}
}

// namedByProvider is why the models differ where nothing of ours has made them: a provider answers with a dated version of what it was
// asked for. It follows from the two names, so that nothing of it is kept.
const namedByProvider = "provider: so it names the model"

// standsFor is what is kept of that with the answer, for whoever gets it again.
func (e *execution) standsFor() (reason, notice string) {
	e.mu.Lock()
	reason = e.because
	e.mu.Unlock()
	l := e.course.leg()
	if reason == "" && l.model != "" && e.spec.Model != "" && l.model != e.spec.Model && e.servedModel() != plainName(e.spec.Model) {
		reason = l.name + ": tiers.model"
	}
	if l.notice != "" {
		notice = headerText(l.notice)
	}
	return reason, notice
}

// headerText writes a text into a header field: visible ASCII and spaces as they are, every other byte of its UTF-8, and %, as
// %XX. encodeURIComponent's counterpart reads it back.
func headerText(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			b.WriteString(string([]byte{'%', hex[c>>4], hex[c&15]}))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// index finds a leg by its tier's name.
func (k *course) index(name string) int {
	for i := range k.legs {
		if k.legs[i].name == name {
			return i
		}
	}
	return k.at
}
