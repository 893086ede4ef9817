package gateway_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/provider"
	"github.com/holdfast-ai/holdfast/internal/sse"
	"github.com/holdfast-ai/holdfast/translate"
)

// farBody is a far side's body that comes in pieces and ends with an error.
type farBody struct {
	pieces [][]byte
	end    error
	reads  int
}

func (b *farBody) Read(p []byte) (int, error) {
	b.reads++
	if len(b.pieces) == 0 {
		return 0, b.end
	}
	n := copy(p, b.pieces[0])
	if b.pieces[0] = b.pieces[0][n:]; len(b.pieces[0]) == 0 {
		b.pieces = b.pieces[1:]
	}
	return n, nil
}

func (b *farBody) Close() error         { return nil }
func (b *farBody) Trailer() http.Header { return nil }
func (b *farBody) Buffered() int {
	if len(b.pieces) == 0 {
		return 0
	}
	return len(b.pieces[0])
}

func pieces(stream []byte, n int) (all [][]byte) {
	for ; len(stream) > n; stream = stream[n:] {
		all = append(all, stream[:n])
	}
	return append(all, stream)
}

// crossings are the translations of streams by the API of the client and of the far side.
func crossings(t testing.TB, far translate.API) (all []*translate.Call) {
	t.Helper()
	for from, body := range map[translate.API]string{
		translate.OpenAIChat:        `{"model":"m","messages":[{"role":"user","content":"a"}],"stream":true}`,
		translate.AnthropicMessages: `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}],"stream":true}`,
	} {
		if !translate.Can(from, far) {
			continue
		}
		c, err := translate.Request(from, far, []byte(body), translate.Options{Model: "far", Seed: "s", Now: func() time.Time { return time.Unix(1, 0) }})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// clientSpec is the call as its client's API has it.
func clientSpec(from translate.API) *provider.Call {
	path, wire := "/v1/chat/completions", provider.OpenAI
	if from == translate.AnthropicMessages {
		path, wire = "/v1/messages", provider.Anthropic
	}
	spec := provider.Parse(&provider.Request{Method: "POST", Path: path, Body: []byte(`{"stream":true}`), Wire: wire})
	return &spec
}

// hear reads what is told by pieces of n bytes.
func hear(told io.Reader, n int) (all []byte, err error) {
	for p := make([]byte, n); err == nil; {
		n, err = told.Read(p)
		all = append(all, p[:n]...)
	}
	return all, err
}

var errReset = errors.New("connection reset")

// Every recorded stream, cut behind each of its events and ended in both ways, is told in whole events of the client's API: with an
// end of its own exactly where the far side's had one, with its error where it reported one, and else as what it is, cut. A refusal without content is whole as soon as it is said.
func TestTelling(t *testing.T) {
	apis := map[string]translate.API{"chat.completions": translate.OpenAIChat, "messages": translate.AnthropicMessages, "streamGenerateContent": translate.GeminiGenerate}
	told := 0
	for _, c := range corpusStreams(t) {
		far, ok := apis[c.API]
		if !ok || c.Format != "sse" {
			continue
		}
		stream, err := os.ReadFile(filepath.Join(corpus, c.File))
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range crossings(t, far) {
			for _, cut := range breaks(stream) {
				for _, end := range []error{io.EOF, errReset} {
					told++
					checkTold(t, fmt.Sprintf("%s for %s, cut at %d, %v", c.File, call.From, cut, end), call, stream[:cut], end)
				}
			}
			want, _ := hear(gateway.Tell(&farBody{pieces: pieces(stream, len(stream)), end: io.EOF}, call, func() {}), 1<<20)
			for _, n := range []int{1, 100, 4096} {
				if len(stream) > 100*n<<10 {
					continue
				}
				if got, _ := hear(gateway.Tell(&farBody{pieces: pieces(stream, n), end: io.EOF}, call, func() {}), max(1, 600-n)); !bytes.Equal(got, want) {
					t.Errorf("%s in pieces of %d: %s", c.File, n, got)
				}
			}
		}
	}
	if told < 1200 {
		t.Errorf("%d streams", told)
	}
}

// breaks are the places behind the events of a stream, the last of them its own end.
func breaks(stream []byte) []int {
	all, p := []int{0}, sse.Parser{}
	if len(stream) > 200<<10 {
		return append(all, len(stream))
	}
	_ = p.Feed(stream, func(ev sse.Event) error { all = append(all, int(ev.End)); return nil })
	if len(all) > 40 {
		all = append(all[:20], all[len(all)-20:]...)
	}
	return append(all, len(stream))
}

func checkTold(t *testing.T, name string, call *translate.Call, stream []byte, end error) {
	t.Helper()
	out, err := hear(gateway.Tell(&farBody{pieces: pieces(stream, 1<<20), end: end}, call, func() {}), 4096)
	read := provider.NewStream(clientSpec(call.From), provider.SSE, provider.Limits{})
	if ferr := read.Feed(out); ferr != nil {
		t.Fatalf("%s: %v", name, ferr)
	}
	how, p := read.Close(), read.Progress()
	if len(out) > 0 && p.Committed != int64(len(out)) {
		t.Errorf("%s: half an event in %q", name, out)
	}
	untold := errors.Is(err, translate.ErrMismatch) || errors.Is(err, translate.ErrMalformed)
	switch {
	case p.ErrorAt >= 0:
		if err != io.EOF || p.Ended || strings.Count(string(out), `"error":`) != 1 {
			t.Errorf("%s: an error, then %v: %s", name, err, out)
		}
	case p.Ended:
		if how != provider.Complete || err != end || end == errReset && !ended(call.To, stream) && !(p.Boundary < 0 && provider.DeclinedStream(provider.SSE, out)) {
			t.Errorf("%s: %v, %v behind the end", name, how, err)
		}
	case untold || err == io.ErrUnexpectedEOF && end == io.EOF || err == errReset && end == errReset:
	default:
		t.Errorf("%s: neither end nor error, and %v: %s", name, err, out)
	}
}

// ended says that the far side's own end has come, behind which a break takes nothing back. Gemini has none: usage may follow.
func ended(far translate.API, stream []byte) bool {
	last := map[translate.API]string{translate.OpenAIChat: "[DONE]", translate.AnthropicMessages: "message_stop"}[far]
	return last != "" && bytes.Contains(stream, []byte(last))
}

// What means nothing to the client shows that the far side lives, and holds nothing back that does.
func TestTellingOfNothing(t *testing.T) {
	ping := "event: ping\ndata: {\"type\": \"ping\"}\n\n"
	start := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"c\",\"usage\":{\"input_tokens\":1}}}\n\n"
	moved := 0
	far := &farBody{pieces: [][]byte{[]byte(ping), []byte(ping), []byte(start), []byte("event: half")}, end: errReset}
	told := gateway.Tell(far, crossings(t, translate.AnthropicMessages)[0], func() { moved++ })
	p := make([]byte, 4096)
	n, err := told.Read(p)
	if err != nil || !strings.Contains(string(p[:n]), `"role":"assistant"`) || moved != 3 || far.reads != 3 {
		t.Errorf("%q, %v behind %d reads, %d moves", p[:n], err, far.reads, moved)
	}
	if told.Buffered() != 0 {
		t.Errorf("%d bytes are said to be here, and half an event is", told.Buffered())
	}
	if n, err := told.Read(p); n != 0 || err != errReset || moved != 4 {
		t.Errorf("%q, %v, %d moves", p[:n], err, moved)
	}
}

// BenchmarkTelling is what translation adds to a stream of 300 pieces: read as it comes, and told to a client of another API, each
// with the gateway's own reading of it. Their ratio is what it costs.
func BenchmarkTelling(b *testing.B) {
	for _, x := range []struct {
		api                translate.API
		path               string
		first, piece, last string
	}{
		{translate.OpenAIChat, "/v1/chat/completions", `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-5","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
			`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-5","choices":[{"index":0,"delta":{"content":" word%d"},"logprobs":null,"finish_reason":null}]}`,
			`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-5","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]"},
		{translate.AnthropicMessages, "/v1/messages", `data: {"type":"message_start","message":{"id":"m","model":"c","usage":{"input_tokens":9,"output_tokens":1}}}` + "\n\n" +
			`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word%d"}}`,
			`data: {"type":"content_block_stop","index":0}` + "\n\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":300}}` + "\n\n" + `data: {"type":"message_stop"}`},
		{translate.GeminiGenerate, "/v1beta/models/g:streamGenerateContent", "",
			`data: {"candidates":[{"content":{"parts":[{"text":" word%d"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"totalTokenCount":12},"modelVersion":"g","responseId":"r"}`,
			`data: {"candidates":[{"content":{"parts":[{"text":"."}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":300},"modelVersion":"g","responseId":"r"}`},
	} {
		stream := []byte(x.first + "\n\n")
		for n := range 300 {
			stream = append(fmt.Appendf(stream, x.piece, n), "\n\n"...)
		}
		stream = append(stream, x.last+"\n\n"...)
		own := provider.Parse(&provider.Request{Method: "POST", Path: x.path, RawQuery: "alt=sse", Body: []byte(`{"stream":true}`),
			Wire: map[translate.API]provider.Wire{translate.OpenAIChat: provider.OpenAI, translate.AnthropicMessages: provider.Anthropic, translate.GeminiGenerate: provider.Gemini}[x.api]})
		b.Run("as it comes/"+string(x.api), func(b *testing.B) { benchTelling(b, stream, &own, nil) })
		for _, call := range crossings(b, x.api) {
			b.Run("told/"+string(x.api)+" to "+string(call.From), func(b *testing.B) { benchTelling(b, stream, clientSpec(call.From), call) })
		}
	}
}

func benchTelling(b *testing.B, stream []byte, spec *provider.Call, call *translate.Call) {
	b.ReportAllocs()
	b.SetBytes(int64(len(stream)))
	p := make([]byte, 32<<10)
	for b.Loop() {
		var body io.Reader = &farBody{pieces: pieces(stream, 1400), end: io.EOF}
		if call != nil {
			body = gateway.Tell(body.(*farBody), call, func() {})
		}
		read := provider.NewStream(spec, provider.SSE, provider.Limits{})
		for {
			n, err := body.Read(p)
			if ferr := read.Feed(p[:n]); ferr != nil {
				b.Fatal(ferr)
			}
			if err != nil {
				break
			}
		}
		if read.Close() != provider.Complete {
			b.Fatal("the answer is not whole")
		}
	}
}
