package policy

import (
	"net/http"
	"os"
	"testing"
)

func BenchmarkMatch(b *testing.B) {
	c := Default(noEnv)
	whole, err := os.ReadFile("testdata/good/whole.yaml")
	if err != nil {
		b.Fatal(err)
	}
	if loaded, _ := Parse("whole.yaml", whole, fullEnv); loaded != nil {
		c = loaded
	}
	h := http.Header{"Content-Type": {"application/json"}}
	b.ReportAllocs()
	for b.Loop() {
		c.Match("/v1/chat/completions", "gpt-5-mini", h)
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		Load("testdata/good/whole.yaml", fullEnv)
	}
}
