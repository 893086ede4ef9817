package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
)

// mainTenant is everybody's tenant where the gateway's own credential goes to the provider (semantics 44).
const mainTenant = "main"

// Guard says who may talk to a listener: hosts against DNS rebinding, credentials against strangers.
type Guard struct {
	hosts  map[string]bool
	keys   map[[32]byte]*policy.AuthKey
	tenant string
	proofs []string // the headers that carry a credential, by their canonical names
}

// NewGuard compiles auth. A client's credential may be in any header that proves who calls at some provider: in one of those that all
// formats have, or in one of heads, which are the providers' own (auth_header).
func NewGuard(a policy.Auth, heads ...string) *Guard {
	g := &Guard{hosts: map[string]bool{"localhost": true}, keys: map[[32]byte]*policy.AuthKey{}, tenant: a.Tenant,
		proofs: slices.Clone(credentialHeaders[:])}
	for _, name := range heads {
		if name = http.CanonicalHeaderKey(name); name != "" && !slices.Contains(g.proofs, name) && !mutant.On("auth-header-is-no-credential") {
			g.proofs = append(g.proofs, name)
		}
	}
	for _, h := range a.Hosts {
		g.hosts[strings.ToLower(h)] = true
	}
	for i := range a.Keys {
		k := &a.Keys[i]
		g.keys[sha256.Sum256([]byte(k.Key.Reveal()))] = k
	}
	return g
}

// Open says that no credential of ours is asked for.
func (g *Guard) Open() bool { return len(g.keys) == 0 }

// HostAllowed refuses names that a web page could have made resolve to us. An address is no such name.
func (g *Guard) HostAllowed(r *http.Request) bool {
	if !g.allowed(r.Host) {
		return false
	}
	origin := first(r.Header["Origin"])
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	return strings.EqualFold(u.Host, r.Host) || g.hosts[strings.ToLower(u.Hostname())] && u.Hostname() != "localhost"
}

func (g *Guard) allowed(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	return g.hosts[host] || net.ParseIP(host) != nil
}

// admit answers 403 where the host or the page that calls is a stranger's.
func (g *Guard) admit(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" || g.HostAllowed(r) {
		return true
	}
	refuseHost(w)
	return false
}

func refuseHost(w http.ResponseWriter) {
	set(w.Header(), "Holdfast-Error", string(CodeForbidden))
	set(w.Header(), "Holdfast-Safe-To-Retry", safeNo)
	set(w.Header(), "X-Should-Retry", "false")
	http.Error(w, "holdfast: this host name or origin is not allowed; add it to auth.hosts", http.StatusForbidden)
}

// Client returns the configured credential that r carries, nil for a stranger's.
func (g *Guard) Client(r *http.Request) *policy.AuthKey {
	for proof := range g.presented(r) {
		if k := g.keys[sha256.Sum256([]byte(proof))]; k != nil {
			return k
		}
	}
	return nil
}

// credentialHeaders carry, in one format or another, what proves who calls. They are replaced or forwarded, never logged or hashed in
// the clear.
var credentialHeaders = [...]string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key"}

// heads are the headers that the configured providers read their keys from, where those are not the format's own.
func heads(cfg *policy.Config) (names []string) {
	for i := range cfg.Providers {
		names = append(names, cfg.Providers[i].AuthHeader)
	}
	return names
}

// Credential is what the request proves its caller by: in headers of any provider's kind, or in Gemini's ?key=. Which of several its
// provider goes by only that one knows (an SDK sends a placeholder beside a header that it was told to add), so that all of them
// together say who calls.
func (g *Guard) Credential(r *http.Request) (proof string) {
	for v := range g.presented(r) {
		switch {
		case proof == "":
			proof = v
		case v != proof && !mutant.On("first-credential-alone"):
			proof += "\x00" + v
		}
	}
	return proof
}

// presented are the credentials that a request carries. Parameters of the gateway's own paths, and of tools, may have the names that
// credentials have at a provider: there they count only where no header has one.
func (g *Guard) presented(r *http.Request) iter.Seq[string] {
	return func(yield func(string) bool) {
		found := false
		for _, name := range g.proofs {
			for _, v := range r.Header[name] {
				if v = bare(v); v == "" {
					continue
				}
				if found = true; !yield(v) {
					return
				}
			}
		}
		if found && (local(r.URL.Path) || strings.HasPrefix(r.URL.Path, toolPrefix)) ||
			!strings.Contains(r.URL.RawQuery, "key=") && !strings.Contains(r.URL.RawQuery, "access_token=") {
			return
		}
		q := r.URL.Query()
		for _, name := range []string{"key", "access_token", "api_key"} {
			if v := q.Get(name); v != "" && !yield(v) {
				return
			}
		}
	}
}

// bare is a credential without its scheme.
func bare(v string) string {
	if scheme, rest, ok := strings.Cut(v, " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(rest)
	}
	return v
}

// strip takes what proves who calls out of a header.
func (g *Guard) strip(h http.Header) {
	for _, name := range g.proofs {
		delete(h, name)
	}
}

// identify finds the tenant (semantics 44).
func (c *call) identify() *Error {
	g := c.g
	if c.job != nil { // whose submitter was identified
		c.tenant, c.owner = c.job.Op.Head().Tenant, c.job.Op.Head().OwnerKey
		return nil
	}
	if c.by != nil { // c.r is of our own making, and carries no credential
		c.submitter(*c.by)
		return nil
	}
	c.tenant = mainTenant
	switch {
	case !g.guard.Open():
		c.client = g.guard.Client(c.r)
		if c.client == nil {
			return errorf(CodeUnauthorized, "this credential is not one of auth.keys")
		}
		c.tenant, c.owner = c.client.Tenant, c.client.Owner
	case c.forwards():
		c.tenant = g.forwardedTenant(g.guard.Credential(c.r))
	}
	if g.guard.tenant != "" {
		c.tenant = g.guard.tenant
	}
	return nil
}

// forwardedTenant separates callers by the credential that is forwarded, without keeping it.
func (g *Gateway) forwardedTenant(credential string) string {
	if credential == "" {
		return "anonymous"
	}
	var buf [256]byte
	sum := sha256.Sum256(append(append(buf[:0], g.salt...), credential...))
	return "c-" + hex.EncodeToString(sum[:12])
}
