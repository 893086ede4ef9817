package policy

import "strings"

// PricesAsOf is the month of the providers' public price lists that the built-in table was taken from: developers.openai.com,
// platform.claude.com and ai.google.dev, as read on 2026-09-07 in public transcriptions (docs/spend.md names them).
const PricesAsOf = "2026-09"

// listed are list prices in USD per million tokens, input and output, of plain text without discounts: no batches, no
// cached input, no promotion that ends by a date, no surcharge for long contexts. What a configuration says under models goes
// before.
var listed = map[string][2]float64{
	"gpt-6-astra": {10, 50}, "gpt-5.6-sol": {4, 20}, "gpt-5.6-terra": {2, 12}, "gpt-5.6-luna": {0.20, 1.20},
	"gpt-5.5": {5, 30}, "gpt-5.5-pro": {30, 180}, "gpt-5.4": {2.50, 15}, "gpt-5.4-mini": {0.75, 4.50}, "gpt-5.4-nano": {0.20, 1.25},
	"gpt-5.4-pro": {30, 180}, "gpt-5.2": {1.75, 14}, "gpt-5.2-pro": {21, 168}, "gpt-5.1": {1.25, 10},
	"gpt-5": {1.25, 10}, "gpt-5-mini": {0.25, 2}, "gpt-5-nano": {0.05, 0.40}, "gpt-5-pro": {15, 120},
	"gpt-4.1": {2, 8}, "gpt-4.1-mini": {0.40, 1.60}, "gpt-4.1-nano": {0.10, 0.40}, "gpt-4o": {2.50, 10}, "gpt-4o-mini": {0.15, 0.60},
	"o3": {2, 8}, "o3-pro": {20, 80}, "o3-mini": {1.10, 4.40}, "o4-mini": {1.10, 4.40}, "o1": {15, 60}, "o1-pro": {150, 600},
	"text-embedding-3-small": {0.02, 0}, "text-embedding-3-large": {0.13, 0},
	"claude-fable-5-1": {10, 50}, "claude-fable-5": {10, 50}, "claude-mythos-5-1": {10, 50}, "claude-mythos-5": {10, 50},
	"claude-opus-5": {5, 25}, "claude-opus-4-8": {5, 25}, "claude-opus-4-7": {5, 25}, "claude-opus-4-6": {5, 25}, "claude-opus-4-5": {5, 25},
	"claude-opus-4-1": {15, 75}, "claude-opus-4": {15, 75}, "claude-sonnet-5": {2, 10}, "claude-sonnet-4-6": {3, 15}, "claude-sonnet-4-5": {3, 15},
	"claude-sonnet-4": {3, 15}, "claude-3-7-sonnet": {3, 15}, "claude-haiku-4-5": {1, 5}, "claude-3-5-haiku": {0.80, 4},
	"gemini-3.8-flash": {1.50, 7.50}, "gemini-3.7-flash": {1.50, 7.50}, "gemini-3.6-flash": {1.50, 7.50}, "gemini-3.5-flash": {1.50, 9},
	"gemini-3.5-flash-lite": {0.30, 2.50}, "gemini-3.1-pro-preview": {2, 12}, "gemini-3.1-flash-lite": {0.25, 1.50},
	"gemini-2.5-pro": {1.25, 10}, "gemini-2.5-flash": {0.30, 2.50}, "gemini-2.5-flash-lite": {0.10, 0.40},
	"gemini-2.0-flash": {0.10, 0.40}, "gemini-embedding-001": {0.15, 0},
}

// windows are the context windows of listed models, in tokens of request and answer together.
var windows = map[string]int64{
	"gpt-5.6-sol": 1_050_000, "gpt-5.6-terra": 1_050_000, "gpt-5.6-luna": 1_050_000, "gpt-5.4": 1_050_000, "gpt-5.4-pro": 1_050_000,
	"gpt-5.4-mini": 400_000, "gpt-5.4-nano": 400_000, "gpt-5.2": 400_000, "gpt-5.2-pro": 400_000,
	"gpt-5": 400_000, "gpt-5-mini": 400_000, "gpt-5-nano": 400_000, "gpt-5-pro": 400_000, "gpt-5.1": 400_000,
	"gpt-6-astra": 1_050_000, "gpt-5.5": 1_050_000,
	"gpt-4.1": 1_047_576, "gpt-4.1-mini": 1_047_576, "gpt-4.1-nano": 1_047_576, "gpt-4o": 128_000, "gpt-4o-mini": 128_000,
	"o3": 200_000, "o3-mini": 200_000, "o4-mini": 200_000, "o1": 200_000,
	"claude-fable-5-1": 1_000_000, "claude-fable-5": 1_000_000, "claude-opus-5": 1_000_000, "claude-opus-4-8": 1_000_000,
	"claude-opus-4-7": 1_000_000, "claude-opus-4-6": 1_000_000, "claude-sonnet-5": 1_000_000, "claude-sonnet-4-6": 1_000_000,
	"claude-opus-4-5": 200_000, "claude-opus-4-1": 200_000, "claude-opus-4": 200_000, "claude-sonnet-4-5": 200_000, "claude-sonnet-4": 200_000,
	"claude-3-7-sonnet": 200_000, "claude-haiku-4-5": 200_000, "claude-3-5-haiku": 200_000,
	"gemini-3.8-flash": 1_048_576, "gemini-3.7-flash": 1_048_576, "gemini-3.6-flash": 1_048_576, "gemini-3.5-flash": 1_048_576,
	"gemini-3.1-pro-preview": 1_048_576,
	"gemini-2.5-pro":         1_048_576, "gemini-2.5-flash": 1_048_576, "gemini-2.5-flash-lite": 1_048_576, "gemini-2.0-flash": 1_048_576,
}

// Price is what a model costs in USD per million tokens: what models says of the name, or of the name without the date of
// its version; what it leaves out is filled from the built-in list of PricesAsOf. It is false where neither knows both.
func (c *Config) Price(model string) (input, output float64, known bool) {
	var in, out *float64
	if m := c.written(model); m != nil {
		in, out = m.InputCost, m.OutputCost
	}
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

// written is what models says of the longest name that fits; nil where none does.
func (c *Config) written(model string) (found *Model) {
	for i := range c.Models {
		m := &c.Models[i]
		if (found == nil || len(m.Name) > len(found.Name)) && IsVersion(model, m.Name) {
			found = m
		}
	}
	return found
}

// Known is what is known of a model beside its price, by the same rules as Price. What it can do is a yes, or nil: that it cannot only
// models says.
func (c *Config) Known(model string) (m Model) {
	if w := c.written(model); w != nil {
		m = *w
	}
	if m.ContextTokens == nil {
		if n, ok := listedAs(windows, model); ok {
			m.ContextTokens = &n
		}
	}
	m.able(model)
	m.Name = model
	return m
}

// ModelPath is the path of a field that models has of a name.
func ModelPath(name, field string) string { return join(join("models", name), field) }

func listedAs[T any](list map[string]T, model string) (p T, ok bool) {
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
