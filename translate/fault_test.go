package translate

import (
	"errors"
	"testing"
)

func TestFault(t *testing.T) {
	for _, f := range []struct {
		from, to   API
		status     int
		body       string
		want       Kind
		wantStatus int
		wantBody   string
	}{
		{OpenAIChat, AnthropicMessages, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"},"request_id":"req_1"}`,
			Invalid, 400, `{"error":{"message":"prompt is too long: 9 tokens > 8 maximum","type":"invalid_request_error","param":null,"code":"context_length_exceeded"}}`},
		{OpenAIChat, AnthropicMessages, 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
			Overloaded, 503, `{"error":{"message":"Overloaded","type":"service_unavailable_error","param":null,"code":"server_is_overloaded"}}`},
		{OpenAIChat, AnthropicMessages, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`,
			RateLimited, 429, `{"error":{"message":"slow","type":"requests","param":null,"code":"rate_limit_exceeded"}}`},
		{OpenAIChat, AnthropicMessages, 402, `{"type":"error","error":{"type":"billing_error","message":"pay"}}`,
			Quota, 429, `{"error":{"message":"pay","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`},
		{OpenAIChat, AnthropicMessages, 502, `<html>Bad gateway</html>`,
			Server, 502, `{"error":{"message":"the provider answered 502 without an error of its API","type":"server_error","param":null,"code":null}}`},
		{OpenAIChat, GeminiGenerate, 400, `[{"error":{"code":400,"message":"bad \u003cb>","status":"INVALID_ARGUMENT"}}]`,
			Invalid, 400, `{"error":{"message":"bad <b>","type":"invalid_request_error","param":null,"code":null}}`},
		{OpenAIChat, GeminiGenerate, 503, ``, Overloaded, 503,
			`{"error":{"message":"the provider answered 503 without an error of its API","type":"service_unavailable_error","param":null,"code":"server_is_overloaded"}}`},
		{AnthropicMessages, OpenAIChat, 401, `{"error":{"message":"key","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`,
			Authentication, 401, `{"type":"error","error":{"type":"authentication_error","message":"key"}}`},
		{AnthropicMessages, OpenAIChat, 429, `{"error":{"message":"broke","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`,
			Quota, 402, `{"type":"error","error":{"type":"billing_error","message":"broke"}}`},
		{AnthropicMessages, OpenAIChat, 429, `{"error":{"message":"tpm","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`,
			RateLimited, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"tpm"}}`},
		{AnthropicMessages, OpenAIChat, 500, `{"error":"out of memory"}`, Server, 500, `{"type":"error","error":{"type":"api_error","message":"out of memory"}}`},
		{AnthropicMessages, OpenAIChat, 429, `{"object":"error","message":"Requests rate limit exceeded","type":"rate_limited","param":null,"code":"1300"}`,
			RateLimited, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"Requests rate limit exceeded"}}`},
		{AnthropicMessages, OpenAIChat, 404, `{"error":{"message":"no such model","type":"invalid_request_error","param":null,"code":"model_not_found"}}`,
			NotFound, 404, `{"type":"error","error":{"type":"not_found_error","message":"no such model"}}`},
		{AnthropicMessages, GeminiGenerate, 504, `{"error":{"code":504,"message":"late","status":"DEADLINE_EXCEEDED"}}`,
			TimedOut, 504, `{"type":"error","error":{"type":"timeout_error","message":"late"}}`},
		{AnthropicMessages, GeminiGenerate, 503, `{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}`,
			Overloaded, 529, `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`},
		// A common word says less than the status.
		{AnthropicMessages, OpenAIChat, 403, `{"error":{"message":"no","type":"invalid_request_error","param":null,"code":null}}`,
			Permission, 403, `{"type":"error","error":{"type":"permission_error","message":"no"}}`},
		{AnthropicMessages, OpenAIChat, 413, `{"error":{"message":"big","type":"invalid_request_error","param":null,"code":null}}`,
			TooLarge, 413, `{"type":"error","error":{"type":"request_too_large","message":"big"}}`},
		{OpenAIChat, AnthropicMessages, 408, `{"type":"error","error":{"type":"invalid_request_error","message":"late"}}`,
			TimedOut, 408, `{"error":{"message":"late","type":"server_error","param":null,"code":null}}`},
		{OpenAIChat, AnthropicMessages, 422, `{"type":"error","error":{"type":"invalid_request_error","message":"what"}}`,
			Invalid, 422, `{"error":{"message":"what","type":"invalid_request_error","param":null,"code":null}}`},
		{OpenAIChat, GeminiGenerate, 413, `{"error":{"code":413,"message":"big","status":"INVALID_ARGUMENT"}}`,
			TooLarge, 413, `{"error":{"message":"big","type":"invalid_request_error","param":null,"code":null}}`},
		{AnthropicMessages, OpenAIChat, 529, `{"error":{"message":"busy","type":"server_error","param":null,"code":null}}`,
			Overloaded, 529, `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`},
		{OpenAIChat, AnthropicMessages, 503, `{"type":"error","error":{"type":"api_error","message":"busy"}}`,
			Overloaded, 503, `{"error":{"message":"busy","type":"service_unavailable_error","param":null,"code":"server_is_overloaded"}}`},
		{AnthropicMessages, OpenAIChat, 400, `{"error":{"message":"long","type":"invalid_request_error","param":null,"code":"context_length_exceeded"}}`,
			Invalid, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"long"}}`},
	} {
		c := newCall(t, f.from, f.to)
		got := c.Fault(f.status, []byte(f.body))
		if got.Kind != f.want || got.Status != f.wantStatus {
			t.Errorf("%s: %s, %d", f.body, got.Kind, got.Status)
		}
		if body := string(c.ErrorBody(got)); body != f.wantBody {
			t.Errorf("%s:\n%s, want\n%s", f.body, body, f.wantBody)
		}
	}
}

// Every kind has words and a status in every client's API.
func TestKindsOfErrors(t *testing.T) {
	all := map[Kind]bool{Invalid: true, Authentication: true, Permission: true, NotFound: true, Conflict: true, TooLarge: true, RateLimited: true,
		Quota: true, Overloaded: true, TimedOut: true, Server: true}
	for word, k := range kinds {
		if !all[k] {
			t.Errorf("%s means %q", word, k)
		}
	}
	for api, words := range clientErrors {
		for k := range all {
			if w := words[k]; w.status < 400 || w.kind == "" {
				t.Errorf("%s has no words for %s", api, k)
			}
		}
	}
}

// A plain answer that is none.
func TestAnswerRefused(t *testing.T) {
	for _, a := range []struct {
		from, to API
		body     string
		want     error
	}{
		{OpenAIChat, AnthropicMessages, `<html>`, ErrMalformed},
		{OpenAIChat, AnthropicMessages, `{}`, ErrMismatch},
		{OpenAIChat, AnthropicMessages, `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`, ErrFault},
		{OpenAIChat, AnthropicMessages, `{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":null}`, ErrMismatch},
		{OpenAIChat, AnthropicMessages, `{"type":"message","content":[{"type":"web_search_tool_result"}],"stop_reason":"end_turn"}`, ErrMismatch},
		{OpenAIChat, AnthropicMessages, `{"type":"message","content":[],"stop_reason":"pause_turn"}`, ErrMismatch},
		{OpenAIChat, GeminiGenerate, `{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}`, ErrFault},
		{OpenAIChat, GeminiGenerate, `{"candidates":[]}`, ErrMismatch},
		{OpenAIChat, GeminiGenerate, `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"OTHER"}]}`, ErrFault},
		{AnthropicMessages, OpenAIChat, `{"choices":[]}`, ErrMismatch},
		{AnthropicMessages, OpenAIChat, `{"choices":[{"index":0,"message":{"content":"a"}}]}`, ErrMismatch},
		{AnthropicMessages, OpenAIChat, `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"},{"index":1}]}`, ErrMismatch},
		{AnthropicMessages, OpenAIChat, `{"choices":[{"index":0,"message":{"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"a\":"}}]},"finish_reason":"length"}]}`, ErrMismatch},
	} {
		if body, err := newCall(t, a.from, a.to).Answer([]byte(a.body)); !errors.Is(err, a.want) || body != nil {
			t.Errorf("%s: %s, %v", a.body, body, err)
		}
	}
}
