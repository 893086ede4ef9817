package gateway

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tidwall/sjson"

	"github.com/holdfast-ai/holdfast/fallback"
	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/upstream"
	"github.com/holdfast-ai/holdfast/ledger"
)

// original is a request as it came. Each tier's request is made from it, so that nothing of one tier's variant is in
// another's. It does not change once it is made, but for what later stages say before the first send.
type original struct {
	g      *edition
	wf     *policy.Workflow
	method string
	path   string // without the provider's prefix
	query  string
	header http.Header
	body   []byte
	spec   provider.Call
	from   *target // that the path names: the one place where the client's credential may go
	proof  string  // the client's credential
	tenant string
	effect ledger.Effect // with key: what makes the outbound key
	key    string
	shots  int // pairs at the front of the conversation that are examples (Holdfast-Examples)
	// made counts, against limits.body_memory, the bytes of what tiers are sent in its place.
	made atomic.Int64
}

// examplesHeader says how many pairs of the front of a conversation, a user's message and the answer to it, are examples.
const examplesHeader = "Holdfast-Examples"

// original is what the call's requests are made of.
func (c *call) original() *original {
	k := c.course
	if k.asked == nil {
		k.asked = &k.first
		o := k.asked
		o.g, o.wf, o.method, o.path, o.query, o.header, o.body, o.spec = c.g, c.wf, c.r.Method, c.path, c.r.URL.RawQuery, c.r.Header, c.body, c.spec
		o.from, o.proof, o.tenant, o.shots = c.from, c.g.guard.Credential(c.r), c.tenant, c.shots
	}
	return k.asked
}

// ready says what a tier cannot be called without, nil where it can; then what it is sent is made.
func (o *original) ready(l *leg) *fallback.Lack {
	if !o.mayProve(l.to) {
		return &fallback.Lack{Rule: "providers." + l.to.conf.Name + ".api_key", Reason: "a client's credential is for the provider that its path names alone, and " +
			l.to.conf.Name + " has no api_key of its own (any word will do for a server that asks for none)"}
	}
	if l.made {
		return l.lack
	}
	if l.lack = o.say(l); l.lack == nil {
		return o.charge(l)
	}
	l.made = true
	return l.lack
}

// bodyMemory is the policy's field by which a tier lacks room for what it would be sent.
const bodyMemory = "limits.body_memory"

// charge counts what a tier is sent beside the request as it came. Where there is no room now, there may be when it is asked again.
func (o *original) charge(l *leg) *fallback.Lack {
	n := l.size()
	if mutant.On("translation-not-counted") {
		n = 0
	}
	if !o.g.mem.Take(n) {
		l.varied, l.crosses = nil, nil
		return &fallback.Lack{Rule: bodyMemory, Reason: "there is no room for what it would be sent: calls in progress use it up"}
	}
	o.made.Add(int64(n))
	l.made = true
	return nil
}

// unmake lets go of what a tier was to be sent.
func (o *original) unmake(l *leg) {
	n := l.size()
	if n == 0 {
		return
	}
	l.varied, l.crosses, l.made = nil, nil, false
	o.made.Add(-int64(n))
	o.g.mem.Give(n)
}

// free gives back what is counted of all that was made.
func (o *original) free() { o.g.mem.Give(int(o.made.Swap(0))) }

// say makes what a tier is sent where that is not the request as it came: its prompt's variant, in its own format. What cannot be
// said there is never left out.
func (o *original) say(l *leg) *fallback.Lack {
	body := o.body
	if l.prompt != nil && o.spec.Known && !o.spec.Read {
		var err error
		p := *l.prompt
		p.OldMaxTokens = l.to.wire == provider.OpenAI && !ofOpenAI(l.to.conf.BaseURL)
		if body, err = provider.Vary(&o.spec, o.body, &p, o.shots); err != nil {
			return &fallback.Lack{Rule: "tiers.prompt", Reason: "its prompt does not fit the request: " + err.Error()}
		}
		if !sameBytes(body, o.body) {
			l.varied = body
		}
		if mutant.On("tier-prompt-shared") {
			o.body = body
		}
	}
	if l.to.wire == o.spec.Wire || l.to.tool {
		return nil
	}
	l.varied = nil // it is told in the tier's own words, or not at all
	var err error
	if l.crosses, err = told(o.spec.Endpoint, l.to.conf, l.sends, body, &o.g.policy.Limits); err != nil {
		return unsaid(err)
	}
	return nil
}

// sameBytes reports whether two slices are one, not whether they say the same.
func sameBytes(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// mayProve says that a provider can be called without the client's credential going where its path did not say.
func (o *original) mayProve(to *target) bool {
	return to.owns || to == o.from || !o.g.guard.Open() || o.proof == "" || mutant.On("credential-to-another-provider")
}

// outbound is the request as it goes to a tier's provider (interface.md §2).
func (o *original) outbound(l *leg) *upstream.Request {
	t := l.to
	h, path, query, body := o.words(l)
	if t.key != "" {
		t.authorize(h)
	}
	for _, x := range t.conf.Headers {
		h.Set(x.Name, x.Value.Reveal())
	}
	// An answer must be read as it passes: no coding that hides its events.
	set(h, "Accept-Encoding", "identity")
	if o.effect == ledger.EffectExternal && o.key != "" {
		set(h, "Idempotency-Key", idempotency.OutboundKey(o.g.secret, o.key))
	}
	return &upstream.Request{Method: o.method, Target: t.upstreamURL(path, query), Header: h, Body: body}
}

// words are what a tier is sent, without the gateway's own credentials: the client's words, or those of the tier's format.
func (o *original) words(l *leg) (h http.Header, path, query string, body []byte) {
	if t := l.crosses; t != nil {
		path, query = t.address()
		return t.header(o.header), path, query, t.Body
	}
	h, query = make(http.Header, len(o.header)+2), o.query
	forwardHeaders(h, o.header)
	if l.to != o.from && !mutant.On("account-to-another-provider") {
		for _, name := range accountHeaders {
			delete(h, name)
		}
	}
	if l.to.owns || !o.g.guard.Open() {
		o.g.guard.strip(h)
		if !l.to.tool { // whose parameters are its own
			query = credentialless(query)
		}
	}
	path, body = o.asServed(l)
	return h, path, query, body
}

// asServed puts the tier's prompt and model in the place of those asked for.
func (o *original) asServed(l *leg) (path string, body []byte) {
	body = o.body
	if l.varied != nil {
		body = l.varied
	}
	if l.model == "" || o.spec.Model == "" || l.model == o.spec.Model {
		return o.path, body
	}
	if l.to.wire == provider.Gemini {
		return strings.Replace(o.path, "/models/"+o.spec.Model+":", "/models/"+url.PathEscape(l.model)+":", 1), body
	}
	changed, err := sjson.SetBytes(body, "model", l.model)
	if err != nil {
		return o.path, body
	}
	return o.path, o.lastModel(changed, l)
}

// lastModel sees to it that model counts where a body names one twice: readers take the first or the last.
func (o *original) lastModel(body []byte, l *leg) []byte {
	r := provider.Request{Method: o.method, Path: o.path, Header: o.header, Body: body, Wire: l.to.wire}
	end := bytes.LastIndexByte(body, '}')
	if end < 0 || provider.Parse(&r).Model == l.model {
		return body
	}
	member, err := sjson.SetBytes([]byte("{}"), "model", l.model)
	if err != nil {
		return body
	}
	return slices.Concat(body[:end], []byte(","), member[1:])
}
