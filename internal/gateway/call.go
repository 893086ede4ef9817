package gateway

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/idempotency"
	"github.com/holdfast-ai/holdfast/internal/policy"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/redact"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/queue"
)

// call is one client's request on its way through the stages.
type call struct {
	g     *edition
	w     http.ResponseWriter // out
	out   patient
	r     *http.Request
	began time.Time
	done  bool // answered
	again bool // the key is to be looked up once more

	from   *target // that the path names
	target *target // of the tier that the call is at
	course *course
	tool   *toolRoute // of an HTTP tool's call
	path   string     // for the provider, without the prefix
	spec   provider.Call
	model  string // spec.Model as headers and rows show it
	tenant string
	owner  string
	client *policy.AuthKey // nil without auth.keys
	by     *identity       // of a job that is submitted: who asked our own API for it

	callerKey string
	callback  string // callback_url of a job
	wanted    string // Holdfast-Workflow
	priority  string
	estimate  float64 // estimated_cost, where somebody goes by it
	trigger   string
	count     int           // of retries, as the SDK says; 0: it says nothing
	deadline  time.Duration // of the caller; 0: none
	fresh     bool
	shots     int // Holdfast-Examples

	body   []byte
	charge int // bytes of g.mem that the body holds
	wf     *policy.Workflow
	effect ledger.Effect
	hold   bool

	key      string // full form; "" when nothing counts as the same
	claimed  bool   // key is a claim; else an index only
	fp       [32]byte
	exec     *execution
	cur      *cursor    // of the leader, from before the call is sent
	aside    chan aside // the leader's answer, where it cannot wait for the end of the call
	leader   bool
	admitted bool
	replay   bool
	mirror   bool // it has made the mirror that it reads

	values [16]string // of the header fields that set wrote
	used   int

	code   Code // of a refusal, for telemetry
	source string
	status int

	resume    bool // from behind the after-th event
	after     int
	ids       bool           // number the events
	bridging  bool           // the head went out before the answer's
	earlier   *held          // an earlier failure that is given again
	seen      *sighting      // the operation under its derived key (derive: retries)
	turn      int            // … and which of its clients, one after the other, this one is
	recalled  bool           // what earlier processes left under the key was looked up
	parent    string         // the operation that this one takes the place of
	inherited int            // attempts of it, which count here too (semantics 37)
	waiting   *ledger.Record // an operation of an earlier process that this request goes on with
	whole     bool           // the client was given all of its answer
	ending    atomic.Bool    // the client may have the last event, but not the end of the body (Receipts)
	taken     bool           // the client has taken the last event, or all (Receipts)
	departed  atomic.Bool
	unwatch   func() bool

	question *asked // what an earlier answer is found by, once it was looked at
	looked   bool

	job    *queue.Job // whose worker this call is
	unmet  string     // the policy's word for why no tier keeps the contract of a job
	review bool       // it is written down for its owner

	through  *nest // of a call that is passed on
	without  bool  // … and that the store, which is away, knows nothing of
	definite bool  // a passed answer proves that nothing happened (semantics 3)
}

// set writes a header field, whose name is in canonical form, without an allocation of its own.
func (c *call) set(h http.Header, name, value string) {
	if c.used == len(c.values) {
		set(h, name, value)
		return
	}
	c.values[c.used] = value
	h[name] = c.values[c.used : c.used+1 : c.used+1]
	c.used++
}

// release gives back what the call itself holds.
func (c *call) release() {
	if c.admitted {
		c.g.leave()
	}
	if c.unwatch != nil {
		c.unwatch()
	}
	// Who is told that the place to resume from is lost did not get the answer: it may still ask for all of it.
	c.depart(c.arrived() && c.code != CodeStreamLost)
	c.wrote()
	if c.exec != nil {
		c.exec.unref()
	}
	if c.course != nil && (c.exec == nil || c.exec.course != c.course) { // else the execution's, which may go on
		c.course.free()
	}
	c.g.mem.Give(c.charge)
}

// arrived says that the client was given everything, and was there; or that it took the last event, behind which some
// clients hang up.
func (c *call) arrived() bool {
	return c.taken || c.whole && c.r.Context().Err() == nil
}

// attend watches the client for as long as it waits for its answer: an execution counts who is there. Of one that may
// have the last event the call decides, which alone knows what was written (release).
func (c *call) attend() {
	c.unwatch = context.AfterFunc(c.r.Context(), func() {
		if !c.ending.Load() {
			c.depart(false)
		}
	})
}

// depart says, once, that the client is gone: with its whole answer, or without.
func (c *call) depart(whole bool) {
	if !c.departed.CompareAndSwap(false, true) {
		return
	}
	if c.seen != nil {
		c.seen.left(c.turn, whole, c.connection())
	}
	if c.exec != nil {
		c.exec.leave()
	}
}

// target is a configured provider, made ready for calls.
type target struct {
	conf *policy.Provider
	wire provider.Wire
	base *url.URL
	key  string
	mark string // of the key, in route keys
	head string // header that carries the key
	tool bool   // an HTTP tool
	owns bool   // the gateway proves by itself who calls; the client's credential stays here
	// hidden are the secrets that it is sent: no answer shows them, nothing keeps them (semantics 45).
	hidden *redact.Words
}

func targets(c *policy.Config) (byName, byWire map[string]*target, err error) {
	byName, byWire = map[string]*target{}, map[string]*target{}
	for i := range c.Providers {
		p := &c.Providers[i]
		base, err := url.Parse(strings.TrimSuffix(p.BaseURL, "/"))
		if err != nil {
			return nil, nil, err
		}
		t := &target{conf: p, wire: provider.Wire(p.Type), base: base, key: p.APIKey.Reveal(), head: p.AuthHeader, owns: !p.APIKey.IsZero(),
			hidden: redact.New(p.Hidden()...)}
		byName[p.Name] = t
		if byWire[p.Type] == nil {
			byWire[p.Type] = t
		}
	}
	return byName, byWire, nil
}

// route finds the provider that a path means (interface.md §2).
func (c *call) route() *Error {
	if c.r.Method == http.MethodConnect {
		return errorf(CodeInvalidRequest, "this is a gateway, not a proxy: CONNECT is not served")
	}
	if dotted(c.r.URL.Path) {
		return errorf(CodeInvalidRequest, "the path holds a . or .. segment; write it without")
	}
	path := c.r.URL.EscapedPath()
	if strings.HasPrefix(path, toolPrefix) {
		return c.toolPath(path)
	}
	if t, rest, ok := c.g.prefixed(path); ok {
		c.from, c.path = t, rest
	} else {
		wire := provider.WireOf(path, c.r.Header)
		c.from, c.path = c.g.wires[string(wire)], path
	}
	if c.target = c.from; c.target == nil {
		return errorf(CodeNotFound, "no provider of this type is configured; add one under providers")
	}
	return nil
}

// dotted says that a path, unescaped, could mean another place than it says: beside the provider's base_url, or
// under another workflow's match.
func dotted(path string) bool {
	if !strings.Contains(path, "/.") {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// prefixed reads a provider's name from the front of a path. /openai/deployments/… is Azure's own path.
func (g *edition) prefixed(path string) (*target, string, bool) {
	name, rest, found := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !found || strings.HasPrefix(path, "/openai/deployments/") {
		return nil, "", false
	}
	t := g.providers[name]
	if t == nil {
		t = g.wires[name]
	}
	if t == nil {
		return nil, "", false
	}
	return t, "/" + rest, true
}

// upstreamURL is where a call goes: base_url is what the provider's own SDK takes as its base, and OpenAI's
// carries the version that its clients' paths carry too.
func (t *target) upstreamURL(path, query string) *url.URL {
	if t.wire == provider.OpenAI && strings.HasSuffix(t.base.Path, "/v1") {
		path = strings.TrimPrefix(path, "/v1")
	}
	u := *t.base
	raw := t.base.EscapedPath() + path
	u.Path, u.RawPath = raw, ""
	if plain, err := url.PathUnescape(raw); err == nil && plain != raw {
		u.Path, u.RawPath = plain, raw
	}
	u.RawQuery = query
	return &u
}

// credentialless returns the query without what proves who calls (semantics 16).
func credentialless(query string) string {
	if query == "" {
		return query
	}
	parts := strings.Split(query, "&")
	kept := parts[:0]
	for _, p := range parts {
		name, _, _ := strings.Cut(p, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if !idempotency.Credential(name) {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "&")
}
