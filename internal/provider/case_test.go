package provider

import (
	"strings"
	"testing"
)

// BR-043: text, then a clean close, a reset or a stall: the stream never reads as whole, and our error after it
// reads as an error in every dialect.
func TestBR043(t *testing.T) {
	for _, call := range []*Call{&chatCall, &responsesCall, &messagesCall, &geminiCall, &arrayCall} {
		stream := streamOf(call, 3)
		p := Progress{}
		for cut := range stream {
			s := NewStream(call, call.Format, Limits{})
			_ = s.Feed(stream[:cut])
			end := s.Close()
			p = *s.Progress()
			if whole := p.Finish != "" && (call.Format == SSE || p.Ended); (end == Complete) != whole {
				t.Fatalf("%s cut at %d of %d: %s with %q", call.Endpoint, cut, len(stream), end, p.Finish)
			}
		}
	}
}

// BR-045: an error event under 200 is an error, as the first event and after text.
func TestBR045(t *testing.T) {
	overloaded := named("error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
	text := named("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`)
	for in, boundary := range map[string]int64{overloaded: -1, text + overloaded: 0} {
		s := NewStream(&messagesCall, SSE, Limits{})
		if err := s.Feed([]byte(in)); err != nil {
			t.Fatal(err)
		}
		p := s.Progress()
		if p.ErrorType != "overloaded_error" || p.Boundary != boundary || p.ErrorAt != int64(len(in)-len(overloaded)) {
			t.Errorf("before the close: %+v", *p)
		}
		if !strings.Contains(string(p.ErrorData), "Overloaded") || s.Close() != Errored {
			t.Errorf("%+v", *p)
		}
	}
}

// BR-047: an answer is read by its own content type, not by what was asked for.
func TestBR047(t *testing.T) {
	for _, status := range []int{400, 429, 500} {
		if FormatOf(&chatCall, "application/json") != JSON {
			t.Error("JSON is read as a stream")
		}
		if p := PlainAnswer(&chatCall, status, "application/json", []byte(`{"error":{"code":"x"}}`)); p.Fault != IsError || p.ErrorType != "x" {
			t.Errorf("%d: %+v", status, p)
		}
	}
	if FormatOf(&chatCall, "text/html") != Opaque {
		t.Error("a page is read as a stream")
	}
	if p := PlainAnswer(&chatCall, 200, "text/html", []byte("<html>")); p.Complete {
		t.Error("a page is an answer")
	}
}

// BR-066: what a cache or replay must not keep can be told: half an answer, half and [DONE], an error under 200,
// an answer that ended at its limit.
func TestBR066(t *testing.T) {
	half := events(roleChunk, chunk(`{"content":"half"}`, "null"))
	for in, want := range map[string]struct {
		end    End
		finish string
	}{
		half:                    {Cut, ""},
		half + events("[DONE]"): {Complete, ""}, // whole for the protocol, but without a finish reason
		half + events(chunk(`{}`, `"length"`), "[DONE]"): {Complete, "length"},
	} {
		s := NewStream(&chatCall, SSE, Limits{})
		_ = s.Feed([]byte(in))
		if end := s.Close(); end != want.end || s.Progress().Finish != want.finish {
			t.Errorf("%q: %s %q", in, end, s.Progress().Finish)
		}
	}
	if p := PlainAnswer(&chatCall, 200, "application/json", []byte(`{"error":{"code":"x"}}`)); p.Complete {
		t.Error("an error is an answer")
	}
}
