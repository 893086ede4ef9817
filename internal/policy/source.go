package policy

import (
	"regexp"
	"strconv"
	"strings"
)

// source remembers where each value was written, by path.
type source struct {
	pos map[string]Pos
	raw map[string]string // scalars that held ${…}, as written: shown instead of what they expand to

	files []string // that were read, the first that of the configuration itself
}

// Pos is where the value of a path was written, e.g. workflows.support_chat.tiers[0].model. A path that was not
// written gives the place of the nearest block around it and false.
func (c *Config) Pos(path string) (Pos, bool) {
	p, ok := c.source.pos[path]
	for !ok && path != "" {
		path = parent(path)
		if p, found := c.source.pos[path]; found {
			return p, false
		}
	}
	return p, ok
}

// Written reports whether the path stands in a file, not only in the defaults.
func (c *Config) Written(path string) bool {
	_, ok := c.source.pos[path]
	return ok
}

// Path is the workflow's path in Config.Pos.
func (w *Workflow) Path() string {
	if w.at != "" {
		return w.at
	}
	return join("workflows", w.Name)
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func join(path, key string) string {
	switch {
	case !bareKey.MatchString(key):
		if len(key) > 64 {
			key = strings.ToValidUTF8(key[:64], "") + "…"
		}
		return path + "[" + strconv.Quote(key) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func parent(path string) string {
	if i := strings.LastIndexAny(path, ".["); i > 0 {
		return path[:i]
	}
	return ""
}
