package signal_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-ai/holdfast/signal"
)

func openAI(message, typ, code string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%q}}`, message, typ, code)
}

func anthropic(typ, message string) string {
	return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, typ, message)
}

// Wordings and forms beyond the corpus, by group of rules.
func TestOtherWordings(t *testing.T) {
	const amzn = "x-amzn-errortype"
	for _, c := range []struct {
		name   string
		status int
		body   string
		header []string
		class  signal.Class
		limit  signal.Limit
		typ    string
		lane   signal.Lane
	}{
		{"rolling day", 429, openAI("Rate limit reached for gpt-4o on requests per day (RPD): Limit 200, Used 200. Please try again in 7m12s.", "requests", "rate_limit_exceeded"), nil, signal.RateLimited, signal.RequestsPerDay, "rate_limit_exceeded", signal.BackgroundRetry},
		{"larger than the limit", 429, openAI("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 30601.", "tokens", "rate_limit_exceeded"), nil, signal.TooLarge, signal.Tokens, "rate_limit_exceeded", signal.Fail},
		{"hard limit as 400", 400, openAI("Billing hard limit has been reached", "invalid_request_error", "billing_hard_limit_reached"), nil, signal.QuotaExhausted, signal.Spend, "billing_hard_limit_reached", signal.OwnerReview},
		{"flagged prompt", 400, openAI("Invalid prompt: your prompt was flagged as potentially violating our usage policy.", "invalid_request_error", "invalid_prompt"), nil, signal.ContentFilter, "", "invalid_prompt", signal.Fail},
		{"region", 403, openAI("Country, region, or territory not supported", "request_forbidden", "unsupported_country_region_territory"), nil, signal.Permission, "", "unsupported_country_region_territory", signal.OwnerReview},
		{"own spend limit", 400, anthropic("invalid_request_error", "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."), nil, signal.QuotaExhausted, signal.Spend, "invalid_request_error", signal.OwnerReview},
		{"context limit", 400, anthropic("invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 21333 > 204798"), nil, signal.ContextLength, "", "invalid_request_error", signal.Fail},
		{"too many tokens to ask for", 400, anthropic("invalid_request_error", "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens"), nil, signal.InvalidRequest, "", "invalid_request_error", signal.Fail},
		{"output tokens", 429, anthropic("rate_limit_error", "This request would exceed the rate limit of 8,000 output tokens per minute."), nil, signal.RateLimited, signal.OutputTokens, "rate_limit_error", signal.RetryInPlace},
		{"vertex quota", 429, `{"error":{"code":429,"message":"Quota exceeded for aiplatform.googleapis.com/generate_content_requests_per_minute_per_project","status":"RESOURCE_EXHAUSTED"}}`, nil, signal.RateLimited, signal.Requests, "RESOURCE_EXHAUSTED", signal.RetryInPlace},
		{"gemini location", 400, `{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}`, nil, signal.Permission, "", "FAILED_PRECONDITION", signal.OwnerReview},
		{"gemini safety", 200, `{"candidates":[{"finishReason":"SAFETY"}]}`, nil, signal.ContentFilter, "", "SAFETY", signal.Fail},
		{"bedrock body type", 429, `{"__type":"com.amazon.coral.availability#ThrottlingException","message":"Rate exceeded"}`, nil, signal.RateLimited, "", "ThrottlingException", signal.RetryInPlace},
		{"bedrock expired", 403, `{"message":"The security token included in the request is expired"}`, []string{amzn, "ExpiredTokenException"}, signal.Auth, "", "ExpiredTokenException", signal.OwnerReview},
		{"bedrock stream", 424, `{"message":"x"}`, []string{amzn, "ModelStreamErrorException:http://x"}, signal.ServerError, "", "ModelStreamErrorException", signal.RetryInPlace},
		{"azure api management", 403, `{"statusCode":403,"message":"Out of call volume quota. Quota will be replenished in 11:23:45."}`, nil, signal.QuotaExhausted, signal.Spend, "403", signal.OwnerReview},
		{"openrouter minute", 429, `{"error":{"message":"Rate limit exceeded: free-models-per-min.","code":429,"metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1795982430000"}}}}`, nil, signal.RateLimited, "", "429", signal.RetryInPlace},
		{"openrouter choice", 200, `{"choices":[{"finish_reason":"error","error":{"code":502,"message":"x"},"message":{"content":""}}]}`, nil, signal.ServerError, "", "502", signal.RetryInPlace},
		{"mistral code", 429, `{"object":"error","message":"Rate limit exceeded","type":"rate_limited","code":"1300","raw_status_code":429}`, nil, signal.RateLimited, "", "1300", signal.RetryInPlace},
		{"groq size", 413, openAI("Request too large for model on tokens per minute (TPM): Limit 6000, Requested 8000", "tokens", "rate_limit_exceeded"), nil, signal.TooLarge, signal.Tokens, "rate_limit_exceeded", signal.Fail},
		{"groq flex", 498, `{"error":{"message":"Flex tier capacity exceeded","code":"capacity_exceeded"}}`, nil, signal.Overloaded, "", "capacity_exceeded", signal.RetryInPlace},
		{"cohere month", 429, `{"message":"You are using a Trial key, which is limited to 1000 API calls / month."}`, nil, signal.QuotaExhausted, signal.Spend, "http_429", signal.OwnerReview},
		{"xai credits", 429, `{"code":"x","error":"Your team has either used all available credits or reached its monthly spending limit."}`, nil, signal.QuotaExhausted, signal.Spend, "x", signal.OwnerReview},
		{"moonshot", 429, openAI("Your account is suspended, please check your plan and billing details", "exceeded_current_quota_error", ""), nil, signal.QuotaExhausted, signal.Spend, "exceeded_current_quota_error", signal.OwnerReview},
		{"minimax under 200", 200, `{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`, nil, signal.QuotaExhausted, signal.Spend, "1008", signal.OwnerReview},
		{"tgi", 422, `{"error":"Input validation error: inputs tokens + max_new_tokens must be <= 4096","error_type":"validation"}`, nil, signal.ContextLength, "", "http_422", signal.Fail},
		{"litellm", 429, `{"error":{"message":"litellm.RateLimitError: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"40,000 input tokens per minute\"}}","type":"None","code":"429"}}`, nil, signal.RateLimited, signal.InputTokens, "429", signal.RetryInPlace},
		{"limit in a 500", 500, openAI("upstream said no", "rate_limit_error", ""), nil, signal.RateLimited, "", "rate_limit_error", signal.RetryInPlace},
		{"problem details", 429, `{"type":"about:blank","title":"Too Many Requests","status":429,"detail":"slow"}`, nil, signal.RateLimited, "", "429", signal.RetryInPlace},
		{"cloudflare api", 403, `{"success":false,"errors":[{"code":9109,"message":"Invalid access token"}]}`, nil, signal.Permission, "", "9109", signal.OwnerReview},
		{"apigee", 429, `{"fault":{"faultstring":"Rate limit quota violation","detail":{"errorcode":"policies.ratelimit.QuotaViolation"}}}`, nil, signal.RateLimited, "", "policies.ratelimit.QuotaViolation", signal.RetryInPlace},
		{"words under 200", 200, `{"error":"rate limit exceeded"}`, nil, signal.RateLimited, "", "http_200", signal.RetryInPlace},
		{"length without a word", 200, `{"choices":[{"message":{"role":"assistant","content":""},"finish_reason":"length"}]}`, nil, signal.InvalidRequest, "", "length", signal.Fail},
		{"forbidden retry of a limit", 429, `{}`, []string{"x-should-retry", "false"}, signal.RateLimited, "", "http_429", signal.Fail},
		{"forbidden retry of a failure", 500, `{}`, []string{"x-should-retry", "false"}, signal.ServerError, "", "http_500", signal.DeadLetter},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := answer(c.status, c.body, c.header...)
			s := signal.Classify(a)
			mustHold(t, a, s)
			if s.Class != c.class || s.LimitDimension != c.limit || s.ProviderErrorType != c.typ || s.SuggestedLane != c.lane {
				t.Errorf("got %s %q %q %s, want %s %q %q %s", s.Class, s.LimitDimension, s.ProviderErrorType, s.SuggestedLane, c.class, c.limit, c.typ, c.lane)
			}
		})
	}
}

// Answers to use are no failures: a word in a text is not an error of the answer.
func TestSuccess(t *testing.T) {
	for name, c := range map[string]struct{ ctype, body string }{
		"chat":              {"application/json", `{"choices":[{"message":{"content":"error: overloaded"},"finish_reason":"stop"}],"error":null}`},
		"empty error":       {"application/json", `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"error":{}}`},
		"tool call":         {"application/json", `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`},
		"length with text":  {"application/json", `{"choices":[{"message":{"content":"half"},"finish_reason":"length"}]}`},
		"unknown finish":    {"application/json", `{"choices":[{"message":{"content":"x"},"finish_reason":"eos_token"}]}`},
		"messages":          {"application/json", `{"type":"message","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}`},
		"gemini":            {"application/json", `{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":{}}`},
		"gemini array":      {"application/json", `[{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]},{"candidates":[{"finishReason":"STOP"}]}]`},
		"responses":         {"application/json", `{"object":"response","status":"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","content":[{"text":"half"}]}]}`},
		"embeddings":        {"application/json", `{"object":"list","data":[{"embedding":[0.1]}]}`},
		"audio":             {"audio/mpeg", "ID3\x04"},
		"text":              {"text/plain", "1\n00:00:01,000 --> error"},
		"stream":            {"text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"{\\\"error\\\":1}\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"},
		"stream with CR":    {"text/event-stream", "event: message_stop\rdata: {\"type\":\"message_stop\"}\r\r"},
		"gemini stream end": {"text/event-stream", "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}]},\"finishReason\":\"STOP\"}]}\r\n\r\n"},
		"ollama lines":      {"application/x-ndjson", "{\"response\":\"a\",\"done\":false}\n{\"response\":\"\",\"done\":true}\n"},
		"another coding":    {"application/json", "\x1b\x03\x00\xf8"},
	} {
		t.Run(name, func(t *testing.T) {
			a := answer(200, c.body, "content-type", c.ctype)
			if name == "another coding" {
				a.Header["Content-Encoding"] = []string{"br"}
			}
			s := signal.Classify(a)
			mustHold(t, a, s)
			if s.Class != signal.None || s.SuggestedLane != "" || !s.OutcomeKnown {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestStreamEnds(t *testing.T) {
	for name, c := range map[string]struct {
		body  string
		class signal.Class
		typ   string
	}{
		"nothing":              {"", signal.ServerError, "empty_2xx"},
		"comments only":        {": ping\n\n: ping\n\n", signal.Unknown, "empty_stream"},
		"cut":                  {"data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":null}]}\n\n", signal.Unknown, "stream_cut"},
		"cut in an error":      {"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_er", signal.Overloaded, "stream_error"},
		"responses failed":     {"event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"server_is_overloaded\",\"message\":\"x\"}}}\n\n", signal.Overloaded, "server_is_overloaded"},
		"refusal":              {"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"refusal\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n", signal.ContentFilter, "refusal"},
		"bare error, on lines": {"data: {\"candidates\":[{}]}\n\n{\n \"error\": {\n  \"code\": 503,\n  \"status\": \"UNAVAILABLE\"\n }\n}\n", signal.Overloaded, "UNAVAILABLE"},
		"data over two lines":  {"data: {\"error\":{\ndata: \"code\":\"rate_limit_exceeded\"}}\n\n", signal.RateLimited, "rate_limit_exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			a := answer(200, c.body, "content-type", "text/event-stream")
			s := signal.Classify(a)
			mustHold(t, a, s)
			if s.Class != c.class || s.ProviderErrorType != c.typ {
				t.Errorf("got %s %q, want %s %q", s.Class, s.ProviderErrorType, c.class, c.typ)
			}
		})
	}
}
