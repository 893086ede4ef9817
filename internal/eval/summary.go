package eval

import (
	"math"
	"slices"
)

// Summary is what a tier has shown. Latencies, lengths and costs are of answers alone, not of failures.
type Summary struct {
	Tier
	Calls  int            `json:"calls"`
	OK     int            `json:"ok"`
	Errors map[string]int `json:"errors,omitempty"` // failures by their code

	SchemaChecked int `json:"schema_checked"` // answers that were judged by a schema
	SchemaValid   int `json:"schema_valid"`

	LatencyMS Quantiles `json:"latency_ms"`
	FirstMS   Quantiles `json:"first_token_ms"`

	CostUSD     float64 `json:"cost_usd"`      // of the answers whose cost is known
	MeanCostUSD float64 `json:"mean_cost_usd"` // … of each
	CostUnknown int     `json:"cost_unknown"`  // answers whose cost is not

	MeanChars        float64 `json:"mean_chars"`
	MeanOutputTokens float64 `json:"mean_output_tokens"`
	Attempts         int     `json:"attempts"` // upstream calls, retries included
}

// Quantiles of so many values, by nearest rank.
type Quantiles struct {
	N   int   `json:"n"`
	P50 int64 `json:"p50"`
	P95 int64 `json:"p95"`
}

func summarize(t *Tier, results []Result) Summary {
	s := Summary{Tier: *t}
	var latency, first []int64
	var chars, tokens, counted int64
	for i := range results {
		v := &results[i]
		if v.Tier != t.Name {
			continue
		}
		s.Calls, s.Attempts = s.Calls+1, s.Attempts+v.Attempts
		if !v.OK {
			if s.Errors == nil {
				s.Errors = map[string]int{}
			}
			s.Errors[v.Error]++
			continue
		}
		s.OK++
		s.add(v)
		latency, chars = append(latency, v.LatencyMS), chars+int64(v.Chars)
		if v.FirstMS != nil {
			first = append(first, *v.FirstMS)
		}
		if v.OutputTokens != nil {
			tokens, counted = tokens+*v.OutputTokens, counted+1
		}
	}
	s.LatencyMS, s.FirstMS = quantiles(latency), quantiles(first)
	s.MeanChars, s.MeanOutputTokens = mean(float64(chars), s.OK), mean(float64(tokens), int(counted))
	s.MeanCostUSD = mean(s.CostUSD, s.OK-s.CostUnknown)
	return s
}

func (s *Summary) add(v *Result) {
	if v.SchemaValid != nil {
		s.SchemaChecked++
		if *v.SchemaValid {
			s.SchemaValid++
		}
	}
	if v.CostUSD == nil {
		s.CostUnknown++
		return
	}
	s.CostUSD += *v.CostUSD
}

func mean(sum float64, n int) float64 {
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

func quantiles(values []int64) Quantiles {
	if len(values) == 0 {
		return Quantiles{}
	}
	slices.Sort(values)
	rank := func(q float64) int64 { return values[int(math.Ceil(q*float64(len(values))))-1] }
	return Quantiles{N: len(values), P50: rank(0.5), P95: rank(0.95)}
}

// Failed are the tiers that answered none of their calls.
func (r *Report) Failed() (names []string) {
	for i := range r.Tiers {
		if t := &r.Tiers[i]; t.Calls > 0 && t.OK == 0 {
			names = append(names, t.Name)
		}
	}
	return names
}
