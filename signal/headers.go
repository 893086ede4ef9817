package signal

import (
	"maps"
	"slices"
	"strings"
)

// headers are those that say something, by lower-case name.
type headers map[string]string

// readNames are the beginnings (or parts) of the names that are read.
var readNames = []string{"retry-after", "ratelimit", "rate-limit", "content-", "should-retry", "errortype", "error-type", "error-code"}

// readHeaders keeps what is read later. A header given twice with different values says nothing certain:
// its values are joined, and the parsers refuse lists.
func readHeaders(in map[string][]string) headers {
	out := make(headers, 8)
	for name, values := range in {
		name = strings.ToLower(name)
		if name != "date" && !containsAny(name, readNames) {
			continue
		}
		for _, v := range values {
			if old, ok := out[name]; ok && old != v {
				v = old + ", " + v
			}
			out[name] = v
		}
	}
	return out
}

func (h headers) get(name string) string { return h[name] }

// names are sorted, so that the answer never depends on the order of a map.
func (h headers) names() []string { return slices.Sorted(maps.Keys(h)) }
