package signal

import "strings"

// phrase is a rule over the words of a message, lower case. The first row that matches wins, so that the
// narrower rows come first.
type phrase struct {
	verdict
	when []int    // statuses (see inStatus)
	any  []string // one of these
	and  []string // and one of these, if given
}

// phrases hold what providers say only in words. Sources: the corpus and the providers' error pages.
var phrases = []phrase{
	// Envoy says whether the upstream was reached (its response flags UF, UH against UC).
	{verdict{Connection, "", 0}, []int{5}, []string{"upstream connect error"}, []string{"connection failure", "connection timeout", "connection refused"}},
	{verdict{Connection, "", 0}, []int{5}, []string{"no healthy upstream"}, nil},
	{verdict{Overloaded, "", 0}, []int{5}, []string{"upstream connect error"}, []string{"overflow"}}, // its own circuit breaker
	{verdict{Unknown, "", processed}, []int{5}, []string{"upstream connect error"}, nil},

	// A request over the whole limit never succeeds, whatever the status.
	{verdict{TooLarge, "", 0}, []int{400, 413, 429}, []string{"request too large", "request is too large", "payload size exceeds", "maximum allowed number of bytes", "entity too large"}, nil},

	{verdict{ContextLength, "", 0}, []int{400, 413, 422, 500}, []string{
		"maximum context length", "context window", "prompt is too long", "context length", "context size", "context limit",
		"input is too long", "exceeds the maximum number of tokens", "exceeds the maximum allowed number of tokens", "maximum prompt length", "too many input tokens",
		"max_tokens must be at least 1, got -",                                        // vLLM: what the prompt left over is negative
		"inputs tokens + max_new_tokens must be", "tokens + `max_new_tokens` must be", // TGI
	}, nil},

	{verdict{ContentFilter, "", processed}, []int{400}, []string{"output blocked by content filtering"}, nil},
	{verdict{ContentFilter, "", 0}, []int{400, 403, 422}, []string{
		"content filtering policy", "content management policy", "content policy", "safety system", "was flagged",
		"violating our usage polic", "violates our usage polic", "inappropriate content",
	}, nil},

	// Days. OpenAI's are rolling and come with the wait that clears them; the others' last until midnight.
	{verdict{RateLimited, TokensPerDay, 0}, []int{429}, []string{"tokens per day (tpd)"}, []string{"try again in"}},
	{verdict{RateLimited, RequestsPerDay, 0}, []int{429}, []string{"requests per day (rpd)"}, []string{"try again in"}},
	{verdict{QuotaExhausted, TokensPerDay, 0}, []int{429, 403}, []string{"tokens per day", "(tpd)", "daily token", "tokens_per_day"}, nil},
	{verdict{QuotaExhausted, RequestsPerDay, 0}, []int{429, 403}, []string{"(rpd)", "daily request", "daily limit", "daily quota", "per day", "per-day", "per_day"}, nil},

	{verdict{Permission, "", 0}, []int{400}, []string{"location is not supported", "not available in your country", "not available in your region"}, nil},

	// Money, also in a 400.
	{verdict{QuotaExhausted, Spend, 0}, []int{400, 402, 403, 429}, []string{
		"credit balance", "insufficient credit", "insufficient balance", "insufficient_quota", "insufficient funds", "spend limit", "spending limit", "spending cap",
		"hard limit has been reached", "extra usage is required", "out of credits", "all available credits", "no prepaid credits", "included credits",
		"api usage limits", "key limit exceeded", "monthly limit", "monthly usage limit", "per month", "calls / month", "payment required", "credit limit exceeded",
		"enable billing", "have any credits", "budget has been exceeded", "billing account", "billing to be enabled", "purchase credits", "account is suspended", "余额不足",
	}, nil},
	{verdict{RateLimited, "", background}, []int{429}, []string{"hourly usage limit", "hourly limit", "5-hour limit", "five-hour limit"}, nil},
	{verdict{QuotaExhausted, Spend, 0}, []int{403, 429}, []string{"usage limit reached", "usage limit has been reached", "your usage limit", "weekly limit", "out of call volume quota", "out of bandwidth quota"}, nil},

	{verdict{Permission, "", 0}, []int{400}, []string{"organization has been disabled", "account has been disabled"}, nil},
	{verdict{Auth, "", 0}, []int{400, 403}, []string{
		"api key not valid", "api key expired", "invalid api key", "incorrect api key", "unregistered callers", "api key was reported as leaked",
		"security token included in the request is", "signature we calculated does not match",
	}, nil},

	{verdict{Overloaded, Concurrency, 0}, []int{429, 5}, []string{"maximum pending requests"}, nil},
	{verdict{Overloaded, "", 0}, []int{429, 5}, []string{
		"overloaded", "high demand", "no capacity", "at capacity", "over capacity", "capacity exceeded", "capacity exhausted", "server busy", "server is busy",
		"too busy", "peak load", "loading model", "currently loading",
	}, nil},

	// Only where no status says better: some gateways answer a limit with a 500, or within a 200.
	{verdict{RateLimited, "", 0}, []int{500, 502}, []string{"rate limit", "ratelimit", "rate-limit", "too many requests", "quota exceeded"}, nil},
	{verdict{Timeout, "", processed}, []int{500, 502}, []string{"timed out", "deadline exceeded"}, nil},
}

// sticky is Google's refusal without a quota, a dimension or a wait: reported to last until midnight.
const sticky = "check your plan and billing details"

func byPhrase(msg string, status int, f *fault) (verdict, bool) {
	if msg == "" {
		return verdict{}, false
	}
	for i := range phrases {
		p := &phrases[i]
		if inStatus(p.when, status) && containsAny(msg, p.any) && (p.and == nil || containsAny(msg, p.and)) {
			return p.verdict, true
		}
	}
	if status == 429 && strings.Contains(msg, sticky) && len(f.quotaIDs) == 0 && len(f.waits) == 0 {
		if _, stated := textWait(msg); !stated {
			return verdict{class: QuotaExhausted}, true
		}
	}
	return verdict{}, false
}

// limitWords find the dimension in a message.
var limitWords = []struct {
	limit Limit
	any   []string
}{
	{Concurrency, []string{"concurren", "too many connections", "simultaneous", "parallel requests", "in-flight"}},
	{InputTokens, []string{"input tokens", "prompt tokens", "input-token", "input token", "input_token"}},
	{OutputTokens, []string{"output tokens", "completion tokens", "output token", "output_token"}},
	{Tokens, []string{"tokens per min", "(tpm)", "token rate limit", "tokens rate limit", "too many tokens", "token limit", "request tokens", "tokens_per_minute", "tokens/min"}},
	{Requests, []string{
		"requests per min", "(rpm)", "call rate limit", "request rate", "requests rate", "too many requests", "limit reached for requests",
		"requests per second", "requests_per_minute", "_requests,", "calls / minute", "requests/min", "error code: 1015",
	}},
}

// withLimit adds the dimension that was hit: from Google's quota ids, the type, the exhausted header, the words.
func withLimit(v verdict, f *fault, msg string) verdict {
	switch v.class {
	case TooLarge: // larger than a limit, where the type names it
		v.limit = typedLimit(f)
		return v
	case RateLimited, QuotaExhausted:
	default:
		return v
	}
	if l := quotaLimit(f.quotaIDs); l != "" {
		v.limit = l
		if l == RequestsPerDay || l == TokensPerDay {
			v.class = QuotaExhausted
		}
		return v
	}
	if v.limit == "" && v.class == RateLimited {
		v.limit = spokenLimit(f, msg)
	}
	if f.exhausted == v.limit && (v.limit == RequestsPerDay || v.limit == TokensPerDay) {
		v.class = QuotaExhausted
	}
	return v
}

// typedLimit: OpenAI's error type names the limit.
func typedLimit(f *fault) Limit {
	switch f.typ {
	case "tokens":
		return Tokens
	case "requests":
		return Requests
	}
	return ""
}

func spokenLimit(f *fault, msg string) Limit {
	if l := typedLimit(f); l != "" {
		return l
	}
	if f.textCut {
		return ""
	}
	if f.exhausted != "" {
		return f.exhausted
	}
	msg = withoutStatusName(msg)
	for _, w := range limitWords {
		if containsAny(msg, w.any) {
			return w.limit
		}
	}
	if normal(f.code) == "slowdown" {
		return Requests
	}
	return ""
}

// withoutStatusName drops lines that only name the status: they say nothing about the limit.
func withoutStatusName(msg string) string {
	if !strings.Contains(msg, "too many requests") {
		return msg
	}
	var kept []string
	for line := range strings.Lines(msg) {
		if strings.TrimPrefix(strings.Trim(line, " .!\n"), "429 ") != "too many requests" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// quotaLimit reads the tightest of Google's quota ids: "GenerateRequestsPerDayPerProjectPerModel-FreeTier".
func quotaLimit(ids []string) Limit {
	var found Limit
	for _, id := range ids {
		l := strings.ToLower(id)
		day := strings.Contains(l, "perday") || strings.Contains(l, "per_day")
		token := strings.Contains(l, "token")
		switch {
		case day && token:
			return TokensPerDay
		case day:
			return RequestsPerDay
		case strings.Contains(l, "inputtoken") || strings.Contains(l, "input_token"):
			found = InputTokens
		case strings.Contains(l, "outputtoken") || strings.Contains(l, "output_token"):
			found = OutputTokens
		case token:
			found = Tokens
		case strings.Contains(l, "concurrent"):
			found = Concurrency
		case found == "" && strings.Contains(l, "request"):
			found = Requests
		}
	}
	return found
}
