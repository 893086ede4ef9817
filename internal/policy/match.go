package policy

import (
	"net/http"
	"net/textproto"
	"strings"
)

// glob is a compiled glob: literal parts between stars. ? in a part is any one byte of the text.
type glob struct {
	parts []string
	exact bool // no star
	plain bool // no ? either
}

func compileGlob(s string) glob {
	return glob{parts: strings.Split(s, "*"), exact: !strings.Contains(s, "*"), plain: !strings.Contains(s, "?")}
}

// match is linear in the text for each part: leftmost fits are enough between stars.
func (g *glob) match(s string) bool {
	first := g.parts[0]
	if g.exact {
		return len(s) == len(first) && g.at(s, first)
	}
	if len(s) < len(first) || !g.at(s, first) {
		return false
	}
	s = s[len(first):]
	last := g.parts[len(g.parts)-1]
	for _, part := range g.parts[1 : len(g.parts)-1] {
		i := g.index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return len(s) >= len(last) && g.at(s[len(s)-len(last):], last)
}

func (g *glob) at(s, part string) bool {
	if g.plain {
		return strings.HasPrefix(s, part)
	}
	for i := range len(part) {
		if part[i] != '?' && part[i] != s[i] {
			return false
		}
	}
	return true
}

func (g *glob) index(s, part string) int {
	if g.plain {
		return strings.Index(s, part)
	}
	for i := 0; i+len(part) <= len(s); i++ {
		if g.at(s[i:], part) {
			return i
		}
	}
	return -1
}

type globs []glob

// match is true for no globs at all.
func (gs globs) match(s string) bool {
	for i := range gs {
		if gs[i].match(s) {
			return true
		}
	}
	return len(gs) == 0
}

type headerGlob struct {
	name string // canonical
	glob glob
}

// matcher is the compiled form of a Match.
type matcher struct {
	paths, models globs
	headers       []headerGlob
}

func compileMatch(m Match) matcher {
	var out matcher
	for _, p := range m.Paths {
		out.paths = append(out.paths, compileGlob(p))
	}
	for _, p := range m.Models {
		out.models = append(out.models, compileGlob(p))
	}
	for _, h := range m.Headers {
		out.headers = append(out.headers, headerGlob{textproto.CanonicalMIMEHeaderKey(h.Name), compileGlob(h.Value)})
	}
	return out
}

func (m *matcher) match(path, model string, header http.Header) bool {
	if !m.paths.match(path) || !m.models.match(model) {
		return false
	}
	for i := range m.headers {
		if !m.headers[i].match(header) {
			return false
		}
	}
	return true
}

func (h *headerGlob) match(header http.Header) bool {
	for _, value := range header[h.name] {
		if h.glob.match(value) {
			return true
		}
	}
	return false
}

// Match returns the first workflow whose match fits, else the default one. It does not allocate.
// Path is the provider's path without a provider prefix; model is the one asked for, empty when there is none.
func (c *Config) Match(path, model string, header http.Header) *Workflow {
	last := len(c.Workflows) - 1
	for i := range c.Workflows[:last] {
		if c.Workflows[i].matcher.match(path, model, header) {
			return &c.Workflows[i]
		}
	}
	return &c.Workflows[last]
}

// Workflow returns the workflow of that name, nil if there is none.
func (c *Config) Workflow(name string) *Workflow {
	if i, ok := c.index[name]; ok {
		return &c.Workflows[i]
	}
	return nil
}

// Provider returns the provider of that name; openai, anthropic and gemini also mean the first of that type. Nil if
// there is none.
func (c *Config) Provider(name string) *Provider {
	for i := range c.Providers {
		if c.Providers[i].Name == name {
			return &c.Providers[i]
		}
	}
	for i := range c.Providers {
		if c.Providers[i].Type == name {
			return &c.Providers[i]
		}
	}
	return nil
}

// EffectOf is the effect of a call: as written, else by path. read is provider.Call.Read.
func (w *Workflow) EffectOf(read bool) Effect {
	switch {
	case w.Effect != ByPath:
		return w.Effect
	case read:
		return Read
	}
	return Generation
}

// UnknownRule is what an unknown outcome leads to. acts says that the request makes the provider act, which is held
// unless the workflow says otherwise (semantics 2).
func (w *Workflow) UnknownRule(acts bool) OnUnknown {
	switch {
	case w.OnUnknown != "":
		return w.OnUnknown
	case w.Effect == External || acts:
		return HoldUnknown
	}
	return RetryUnknown
}
