package telemetry

import (
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// maxSets bounds the series: error types come from providers, and a hostile one could invent new ones for ever.
const maxSets = 4096

// cache keeps attribute sets that have been seen, because making one allocates and the hot path asks for few.
type cache struct {
	mu   sync.RWMutex
	sets map[string]*set
}

// set is an attribute set as the options that counters and histograms take.
type set struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

// get returns the set of name, value pairs.
func (c *cache) get(pairs ...string) *set {
	var key [256]byte
	k := key[:0]
	for _, p := range pairs {
		k = append(append(k, p...), 0)
	}
	c.mu.RLock()
	seen := c.sets[string(k)]
	c.mu.RUnlock()
	if seen != nil {
		return seen
	}
	return c.add(string(k), pairs)
}

func (c *cache) add(key string, pairs []string) *set {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil {
		c.sets = map[string]*set{}
	}
	list := make([]attribute.KeyValue, 0, len(pairs)/2)
	full := len(c.sets) >= maxSets
	for i := 0; i+1 < len(pairs); i += 2 {
		value := strings.ToValidUTF8(pairs[i+1], "�")
		if full && pairs[i] == "error_type" {
			value = "other"
		}
		list = append(list, attribute.String(pairs[i], value))
	}
	option := metric.WithAttributeSet(attribute.NewSet(list...))
	made := &set{add: []metric.AddOption{option}, record: []metric.RecordOption{option}}
	if !full {
		c.sets[key] = made
	}
	return made
}
