package provider

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

// FuzzStream holds for any bytes in any grammar: nothing panics, any cut gives the progress of the whole, the
// short path gives that of the full one, and the offsets are in order.
func FuzzStream(f *testing.F) {
	calls := []Call{
		{Wire: OpenAI, Endpoint: wire.Chat, Format: SSE}, {Wire: OpenAI, Endpoint: wire.Responses, Format: SSE},
		{Wire: Anthropic, Endpoint: wire.Messages, Format: SSE}, {Wire: Gemini, Endpoint: wire.StreamGenerate, Format: SSE},
		{Wire: Gemini, Endpoint: wire.StreamGenerate, Format: JSONArray}, {Format: SSE},
	}
	files, _ := filepath.Glob(filepath.Join(corpus, "*.*"))
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && len(b) < 8<<10 && filepath.Ext(file) != ".json" {
			for i := range calls {
				f.Add(b, uint8(i), uint16(len(b)))
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, which uint8, seed uint16) {
		call := &calls[int(which)%len(calls)]
		wantEnd, want := feed(t, newTranscribed(call, call.Format.String(), &wire.Transcript{}), b, nil)
		inOrder(t, &want, int64(len(b)))
		var cuts []int
		for i := 0; i < len(b); i += 1 + int(seed)%37 {
			seed = seed>>1 | seed<<15
			cuts = append(cuts, i)
		}
		for _, splits := range [][]int{nil, cuts} {
			end, got := feed(t, NewStream(call, call.Format, Limits{}), b, splits)
			if diff := cmp.Diff(want, got); diff != "" || end != wantEnd {
				t.Fatalf("%s %s (-whole +cut): %s, want %s\n%s", call.Endpoint, call.Format, end, wantEnd, diff)
			}
		}
		if p := PlainAnswer(call, 200, "application/json", b); p.Complete == (p.Fault != NoFault) {
			t.Fatalf("%+v", p)
		}
	})
}

func inOrder(t *testing.T, p *Progress, size int64) {
	t.Helper()
	for name, at := range map[string]int64{"boundary": p.Boundary, "completing": p.Completing, "error": p.ErrorAt, "committed": p.Committed} {
		if at < -1 || at > size {
			t.Errorf("%s %d of %d", name, at, size)
		}
	}
	if p.FirstVisible >= p.Events || p.FirstVisible >= 0 && p.Boundary < 0 || p.Committed < p.Boundary || p.Committed < p.Completing {
		t.Errorf("progress %+v", *p)
	}
	if p.Ended && p.Terminal == "" || p.HostedTool && p.Boundary < 0 {
		t.Errorf("progress %+v", *p)
	}
}
