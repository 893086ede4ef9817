package signal_test

import (
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/signal"
)

func BenchmarkClassify(b *testing.B) {
	byID := map[string]signal.Answer{}
	for _, c := range corpus(b) {
		_, a, err := signal.ParseAnswer(c.line)
		if err != nil {
			b.Fatal(err)
		}
		byID[c.ID] = a
	}
	large := answer(200, strings.Repeat("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", 20000), "content-type", "text/event-stream")
	for _, bb := range []struct {
		name string
		a    signal.Answer
	}{
		{"rate limit", byID["openai-429-tpm-msg"]}, {"rpc details", byID["gemini-429-perday-free"]}, {"no body", byID["anthropic-529-no-body"]},
		{"page", byID["cloudflare-520"]}, {"transport", byID["net-econnrefused"]}, {"stream of 1 MB", large},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				signal.Classify(bb.a)
			}
		})
	}
}
