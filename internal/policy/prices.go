package policy

import "strings"

// PricesAsOf is the month of the providers' public price lists that the built-in table was taken from.
const PricesAsOf = "2025-11"

// listed are list prices in USD per million tokens, input and output, of plain text without discounts: no batches, no
// cached input, no surcharge for long contexts. What a configuration says under models goes before.
var listed = map[string][2]float64{
	"gpt-5": {1.25, 10}, "gpt-5-mini": {0.25, 2}, "gpt-5-nano": {0.05, 0.40}, "gpt-5-pro": {15, 120}, "gpt-5.1": {1.25, 10},
	"gpt-4.1": {2, 8}, "gpt-4.1-mini": {0.40, 1.60}, "gpt-4.1-nano": {0.10, 0.40}, "gpt-4o": {2.50, 10}, "gpt-4o-mini": {0.15, 0.60},
	"o3": {2, 8}, "o3-mini": {1.10, 4.40}, "o4-mini": {1.10, 4.40}, "o1": {15, 60},
	"text-embedding-3-small": {0.02, 0}, "text-embedding-3-large": {0.13, 0},
	"claude-opus-4-5": {5, 25}, "claude-opus-4-1": {15, 75}, "claude-opus-4": {15, 75}, "claude-sonnet-4-5": {3, 15},
	"claude-sonnet-4": {3, 15}, "claude-3-7-sonnet": {3, 15}, "claude-haiku-4-5": {1, 5}, "claude-3-5-haiku": {0.80, 4},
	"gemini-2.5-pro": {1.25, 10}, "gemini-2.5-flash": {0.30, 2.50}, "gemini-2.5-flash-lite": {0.10, 0.40},
	"gemini-2.0-flash": {0.10, 0.40}, "gemini-embedding-001": {0.15, 0},
}

// Price is what a model costs in USD per million tokens: what models says of the name, or of the name without the date of
// its version; what it leaves out is filled from the built-in list of PricesAsOf. It is false where neither knows both.
func (c *Config) Price(model string) (input, output float64, known bool) {
	in, out := c.written(model)
	if in == nil || out == nil {
		p, ok := listedAs(listed, model)
		if !ok {
			return 0, 0, false
		}
		if in == nil {
			in = &p[0]
		}
		if out == nil {
			out = &p[1]
		}
	}
	return *in, *out, true
}

// written is what the longest name under models that fits says.
func (c *Config) written(model string) (in, out *float64) {
	best := -1
	for i := range c.Models {
		m := &c.Models[i]
		if len(m.Name) > best && IsVersion(model, m.Name) {
			best, in, out = len(m.Name), m.InputCost, m.OutputCost
		}
	}
	return in, out
}

func listedAs(list map[string][2]float64, model string) (p [2]float64, ok bool) {
	if p, ok = list[model]; ok {
		return p, true
	}
	for i := len(model) - 1; i > 0; i-- {
		if p, ok = list[model[:i]]; ok && IsVersion(model, model[:i]) {
			return p, true
		}
	}
	return p, false
}

// IsVersion reports whether model is name, or a version of it by date, as in gpt-5-2026-08-07 and
// claude-haiku-4-5-20261001.
func IsVersion(model, name string) bool {
	rest, ok := strings.CutPrefix(model, name)
	if !ok || rest == "" {
		return ok
	}
	digits := 0
	for _, c := range rest {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c != '-' && c != '@':
			return false
		}
	}
	return digits >= 6 && (rest[0] == '-' || rest[0] == '@')
}
