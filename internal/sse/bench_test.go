package sse

import (
	"bytes"
	"fmt"
	"testing"
)

// chunks is a stream of n events as OpenAI sends them.
func chunks(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `data: {"id":"chatcmpl-EXAMPLE1001","object":"chat.completion.chunk","created":1764446400,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_0000000000","choices":[{"index":0,"delta":{"content":" w%d"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"hv5yvzeh"}`+"\n\n", i)
	}
	return b.Bytes()
}

// The reference row is the search for the line ends alone.
func BenchmarkLineEnds(b *testing.B) {
	stream := chunks(3000)
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		rest := stream
		for len(rest) > 0 {
			rest = rest[bytes.IndexByte(rest, '\n')+1:]
		}
	}
}

func BenchmarkParse(b *testing.B) {
	stream := chunks(3000)
	crlf := bytes.ReplaceAll(stream, []byte("\n"), []byte("\r\n"))
	for _, bench := range []struct {
		name  string
		b     []byte
		chunk int
	}{{"LF/32KiB", stream, 32 << 10}, {"LF/1KiB", stream, 1 << 10}, {"CRLF/32KiB", crlf, 32 << 10}, {"LF/event", stream, 0}} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(len(bench.b)))
			b.ReportAllocs()
			events := 0
			fn := func(Event) error { events++; return nil }
			for b.Loop() {
				parse(&Parser{}, bench.b, bench.chunk, fn)
			}
			if events != b.N*3000 {
				b.Fatalf("%d events", events)
			}
		})
	}
}

// parse feeds b in chunks of n bytes, or one event at a time.
func parse(p *Parser, b []byte, n int, fn func(Event) error) {
	for len(b) > 0 {
		size := min(n, len(b))
		if n == 0 {
			size = bytes.Index(b, []byte("\n\n")) + 2
		}
		_ = p.Feed(b[:size], fn)
		b = b[size:]
	}
}
