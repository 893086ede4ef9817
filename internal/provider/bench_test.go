package provider

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// streamOf returns an answer of n text deltas in call's grammar.
func streamOf(call *Call, n int) []byte {
	var b bytes.Buffer
	switch call.Endpoint {
	case wire.Chat:
		chunk := func(delta, finish string) {
			fmt.Fprintf(&b, `data: {"id":"chatcmpl-EXAMPLE1001","object":"chat.completion.chunk","created":1764446400,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_0000000000","choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}],"usage":null,"obfuscation":"%s"}`+"\n\n", delta, finish, "hv5yvzeh"[b.Len()%8:])
		}
		chunk(`{"role":"assistant","content":"","refusal":null}`, "null")
		for i := range n {
			chunk(fmt.Sprintf(`{"content":" word%d"}`, i), "null")
		}
		chunk(`{}`, `"stop"`)
		b.WriteString("data: [DONE]\n\n")
	case wire.Responses:
		b.WriteString("event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\",\"model\":\"gpt-5\"}}\n\n")
		for i := range n {
			fmt.Fprintf(&b, "event: response.output_text.delta\n"+`data: {"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_EXAMPLE1001","output_index":0,"content_index":0,"delta":" word%d","logprobs":[],"obfuscation":"aB3"}`+"\n\n", i+1, i)
		}
		b.WriteString("event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}}\n\n")
	case wire.Messages:
		b.WriteString("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"claude\",\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n")
		for i := range n {
			fmt.Fprintf(&b, "event: content_block_delta\n"+`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word%d"}}`+"\n\n", i)
		}
		b.WriteString("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":15}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	default:
		var elements []string
		for i := range n {
			finish := ""
			if i == n-1 {
				finish = `,"finishReason":"STOP"`
			}
			elements = append(elements, fmt.Sprintf(`{"candidates":[{"content":{"parts":[{"text":" word%d"}],"role":"model"},"index":0%s}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":%d,"totalTokenCount":%d},"modelVersion":"gemini-2.5-pro","responseId":"EXAMPLE20"}`, i, finish, i, i+9))
		}
		if call.Format == JSONArray {
			return []byte("[" + strings.Join(elements, "\r\n,\r\n") + "\r\n]")
		}
		b.WriteString("data: " + strings.Join(elements, "\r\n\r\ndata: ") + "\r\n\r\n")
	}
	return b.Bytes()
}

// Nothing is allocated per event: a stream ten times as long costs no more.
func TestNoAllocationPerEvent(t *testing.T) {
	for _, call := range []*Call{&chatCall, &responsesCall, &messagesCall, &geminiCall, &arrayCall} {
		allocations := func(n int) float64 {
			stream := streamOf(call, n)
			return testing.AllocsPerRun(10, func() {
				s := NewStream(call, call.Format, Limits{})
				for i := 0; i < len(stream); i += 100 {
					_ = s.Feed(stream[i:min(i+100, len(stream))])
				}
			})
		}
		if few, many := allocations(50), allocations(500); many > few+3 { // buffers may still grow
			t.Errorf("%s %s: %v allocations for 50 events, %v for 500", call.Endpoint, call.Format, few, many)
		}
	}
}

// One stream of 32 text events, each in a read of its own.
func BenchmarkStream32(b *testing.B) {
	for _, call := range []Call{
		{Wire: OpenAI, Endpoint: wire.Chat, Format: SSE},
		{Wire: OpenAI, Endpoint: wire.Responses, Format: SSE},
		{Wire: Anthropic, Endpoint: wire.Messages, Format: SSE},
		{Wire: Gemini, Endpoint: wire.StreamGenerate, Format: SSE},
		{Wire: Gemini, Endpoint: wire.StreamGenerate, Format: JSONArray},
	} {
		b.Run(call.Endpoint+"/"+call.Format.String(), func(b *testing.B) {
			stream := streamOf(&call, 32)
			var cuts []int
			for i := 0; i < len(stream); i += len(stream) / 32 {
				cuts = append(cuts, i)
			}
			if call.Format == SSE {
				cuts = cuts[:0]
				for i := range stream {
					if bytes.HasSuffix(stream[:i], []byte("\n\n")) || bytes.HasSuffix(stream[:i], []byte("\n\r\n")) {
						cuts = append(cuts, i)
					}
				}
			}
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				s := NewStream(&call, call.Format, Limits{})
				from := 0
				for _, to := range append(cuts, len(stream)) {
					_ = s.Feed(stream[from:to])
					from = to
				}
				if s.Close() != Complete {
					b.Fatal("not complete")
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			body := []byte(`{"model":"gpt-5","messages":[{"role":"user","content":"` + strings.Repeat("x y", size/3) + `"}],"stream":true}`)
			r := Request{Method: "POST", Path: "/v1/chat/completions", Body: body}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if c := Parse(&r); !c.Stream {
					b.Fatal(c)
				}
			}
		})
	}
}
