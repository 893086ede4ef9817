package policy

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// checker makes the checks that look at more than one field (interface.md §5).
type checker struct {
	c       *Config
	earlier []Fault // of single fields
	faults  []Fault
}

// check makes the cross checks. What single fields have wrong was found earlier.
func (c *Config) check(earlier []Fault) []Fault {
	k := &checker{c: c, earlier: earlier}
	k.listeners()
	k.stores()
	k.fleet()
	k.providers()
	k.embedders()
	k.auth()
	k.bulkheads()
	for i := range c.Workflows {
		k.workflow(&c.Workflows[i])
	}
	k.shadowed()
	k.tools()
	k.mcp()
	k.secrets()
	return append(k.faults, c.notYet()...)
}

func (k *checker) add(s Severity, path, what, remedy string) {
	pos, ok := k.c.Pos(path)
	if !ok && pos.File == "" {
		pos = k.c.source.pos[""]
	}
	k.faults = append(k.faults, Fault{Pos: pos, Path: path, Severity: s, What: what, Remedy: remedy})
}

func (k *checker) fail(path, what, remedy string) { k.add(Error, path, what, remedy) }
func (k *checker) warn(path, what, remedy string) { k.add(Warning, path, what, remedy) }

// wrong says that what was written at path has a fault of its own, and has left no value: it is not missing.
func (k *checker) wrong(path string) bool {
	return slices.ContainsFunc(k.earlier, func(f Fault) bool { return f.Path == path && f.Severity == Error })
}

// listeners holds semantics 44: without credentials of our own, loopback only.
func (k *checker) listeners() {
	c := k.c
	if len(c.Auth.Keys) == 0 {
		for _, l := range []struct{ path, addr string }{{"listen", c.Listen}, {"admin", c.Admin}} {
			if !isLoopback(l.addr) {
				k.fail(l.path, l.addr+" can be reached from other machines, and there are no credentials", "add auth.keys, or listen on 127.0.0.1")
			}
		}
	}
	if _, port, _ := net.SplitHostPort(c.Admin); c.Listen == c.Admin && port != "0" {
		k.fail("admin", "is the same address as listen", "choose another port, e.g. 127.0.0.1:8788")
	}
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

func (k *checker) stores() {
	c := k.c
	for i, s := range c.Store {
		path := item("store", i)
		k.password(path, s)
	}
	if len(c.Store) == 0 {
		k.fail("store", "names no store", "write sqlite:holdfast.db")
	}
	if len(c.Store) > 1 && slices.ContainsFunc(c.Store, func(s DSN) bool { return s.Scheme() == "sqlite" }) {
		k.fail("store", "lists several stores, one of them SQLite", "write one sqlite: file; operations are spread over Postgres databases only")
	}
	for i, s := range c.Store {
		if slices.ContainsFunc(c.Store[:i], func(other DSN) bool { return other.Reveal() == s.Reveal() }) {
			k.fail(item("store", i), "is listed before", "write each database once")
		}
	}
	k.sharedState()
	if c.Limits.MaxRequestBytes > c.Limits.BodyMemory {
		k.warn("limits.max_request_bytes", "is more than limits.body_memory, so that such a request is always shed", "raise limits.body_memory")
	}
}

// fleet warns of a replica that the others cannot reach, and says so only where there may be others.
func (k *checker) fleet() {
	c := k.c
	if c.partial || c.Fleet.Advertise != "" || k.wrong("fleet.advertise") || !c.Shared() {
		return
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if ip, parsed := netip.ParseAddr(host); err == nil && (host == "" || parsed == nil && ip.IsUnspecified()) {
		k.warn("listen", c.Listen+" is no address by which other replicas reach this one: they wait for its running answers instead of passing them on",
			"add fleet: {advertise: \"http://${POD_IP}:8787\"}, this machine's own address")
	}
}

// Shared says that the store is one on which several gateways work.
func (c *Config) Shared() bool { return len(c.Store) > 0 && c.Store[0].Scheme() != "sqlite" }

func (k *checker) password(path string, d DSN) {
	raw, referenced := k.c.source.raw[path]
	if base, ok := strings.CutSuffix(path, "[0]"); !referenced && ok {
		raw, referenced = k.c.source.raw[base]
	}
	m := passwordForm.FindStringSubmatch(d.Reveal())
	if m == nil || referenced && strings.Contains(raw, "${") {
		return
	}
	k.warn(path, "carries a password in plain text", "write it as ${NAME} or ${file:/run/secrets/name}")
}

// reservedPrefixes are first path segments that mean something else (interface.md §2).
var reservedPrefixes = []string{"v1", "v1beta", "v1alpha", "upload", "holdfast", "tools", "mcp", "healthz", "readyz", "metrics"}

func (k *checker) providers() {
	c := k.c
	if len(c.Providers) == 0 {
		k.fail("providers", "lists no provider", "add one, or remove the block for openai, anthropic and gemini")
	}
	for i := range c.Providers {
		p := &c.Providers[i]
		path := join("providers", p.Name)
		if p.Type == "" && !c.Written(path+".type") {
			k.fail(path, "has no type", "write type: openai, anthropic or gemini")
		}
		if slices.Contains(reservedPrefixes, p.Name) {
			k.fail(path, "the name is reserved, because it begins other paths", "choose another name")
		}
		if strings.HasPrefix(p.BaseURL, "http://") && !p.APIKey.IsZero() && !isLoopback(withPort(p.BaseURL)) {
			k.warn(path+".base_url", "sends the key unencrypted", "write https://")
		}
	}
}

// withPort is HOST:PORT of an http address.
func withPort(base string) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(base, "http://"), "/")
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), "80")
	}
	return host
}

func (k *checker) providerName(path, name string) {
	if name == "" || k.c.partial || k.c.Provider(name) != nil {
		return
	}
	names := make([]string, 0, len(k.c.Providers))
	for _, p := range k.c.Providers {
		names = append(names, p.Name)
	}
	k.fail(path, quote(name)+" is not in providers", suggest(name, names))
}

func (k *checker) auth() {
	seen := map[string]int{}
	for i, a := range k.c.Auth.Keys {
		path := item("auth.keys", i)
		for j, name := range a.Workflows {
			if k.c.Workflow(name) == nil && k.c.ToolServer(name) == nil {
				k.fail(item(path+".workflows", j), quote(name)+" is neither in workflows nor in tools", suggest(name, k.workflowNames()))
			}
		}
		if first, dup := seen[a.Key.Reveal()]; dup && !a.Key.IsZero() {
			k.fail(path, fmt.Sprintf("is the same key as auth.keys[%d]", first), "give each client a key of its own")
		}
		seen[a.Key.Reveal()] = i
		if n := len(a.Key.Reveal()); n > 0 && n < 16 {
			k.warn(path, "is a short key, easily guessed", "use at least 16 random characters, e.g. from openssl rand -hex 24")
		}
	}
}

func (k *checker) workflowNames() []string {
	names := make([]string, 0, len(k.c.Workflows))
	for i := range k.c.Workflows {
		names = append(names, k.c.Workflows[i].Name)
	}
	return names
}
