package signal_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-ai/holdfast/signal"
)

func pack(t testing.TB, w io.WriteCloser, buf *bytes.Buffer, body []byte) []byte {
	t.Helper()
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func gzipped(t testing.TB, body []byte) []byte {
	var b bytes.Buffer
	return pack(t, gzip.NewWriter(&b), &b, body)
}

func TestCompressedBodies(t *testing.T) {
	body := []byte(openAI("You exceeded your current quota", "insufficient_quota", "insufficient_quota"))
	var z, f bytes.Buffer
	raw, err := flate.NewWriter(&f, 6)
	if err != nil {
		t.Fatal(err)
	}
	zlibbed, flated := pack(t, zlib.NewWriter(&z), &z, body), pack(t, raw, &f, body)
	for name, c := range map[string]struct {
		coding string
		body   []byte
		want   signal.Class
	}{
		"gzip":               {"gzip", gzipped(t, body), signal.QuotaExhausted},
		"gzip, unsaid":       {"", gzipped(t, body), signal.QuotaExhausted},
		"gzip, in capitals":  {" GZIP ", gzipped(t, body), signal.QuotaExhausted},
		"deflate":            {"deflate", zlibbed, signal.QuotaExhausted},
		"deflate, bare":      {"deflate", flated, signal.QuotaExhausted},
		"said, but plain":    {"gzip", body, signal.QuotaExhausted},
		"br, but plain":      {"br", body, signal.QuotaExhausted},
		"br":                 {"br", []byte("\x1b\x03\x00\xf8\xa5"), signal.RateLimited},
		"gzip, cut":          {"gzip", gzipped(t, body)[:12], signal.RateLimited},
		"gzip, broken":       {"gzip", append([]byte{0x1f, 0x8b}, body...), signal.RateLimited},
		"a byte order mark":  {"", append([]byte("\xef\xbb\xbf"), body...), signal.QuotaExhausted},
		"not UTF-8":          {"", bytes.Replace(body, []byte("quota\""), []byte("qu\xe4\xffota\""), 1), signal.QuotaExhausted},
		"white space before": {"", append(bytes.Repeat([]byte("\n"), 100), body...), signal.QuotaExhausted},
	} {
		a := answer(429, string(c.body), "content-encoding", c.coding)
		s := signal.Classify(a)
		mustHold(t, a, s)
		if s.Class != c.want {
			t.Errorf("%s: %s, want %s", name, s.Class, c.want)
		}
	}
}

// A decompression bomb costs no more than the bound; what a large success holds is not judged.
func TestLargeBodies(t *testing.T) {
	bomb := gzipped(t, bytes.Repeat([]byte(" "), 16<<20))
	a := answer(503, string(bomb), "content-encoding", "gzip")
	if s := signal.Classify(a); s.Class != signal.Overloaded {
		t.Errorf("bomb: %s", s.Class)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	signal.Classify(a)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Errorf("a bomb of 16 MiB (twice that when read whole) takes %d bytes", n)
	}
	large := `{"data":"` + strings.Repeat("x", 2<<20) + `"}`
	if s := signal.Classify(answer(200, large)); s.Class != signal.None {
		t.Errorf("a large success: %s %s", s.Class, s.ProviderErrorType)
	}
	events := strings.Repeat("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", 40000)
	stream := events + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n"
	if s := signal.Classify(answer(200, stream, "content-type", "text/event-stream")); s.Class != signal.Overloaded {
		t.Errorf("an error at the end of a large stream: %s", s.Class)
	}
	oneLine := "data: {\"x\":\"" + strings.Repeat("x", 2<<20) + "\"}\n\n"
	if s := signal.Classify(answer(200, oneLine, "content-type", "text/event-stream")); s.Class != signal.None {
		t.Errorf("a stream of one large line: %s", s.Class)
	}
}

// Hostile nesting and repetition stay linear: this would not end in time otherwise.
func TestHostileShapes(t *testing.T) {
	for name, body := range map[string]string{
		"deep":          strings.Repeat("[", 1<<20),
		"deep objects":  strings.Repeat(`{"error":`, 100_000),
		"quoted errors": `{"error":{"message":` + nest(12, "x") + `}}`,
		"bare lines":    "data: x\n" + strings.Repeat("{\"a\":[\n", 100_000),
		"many headings": "<h1>" + strings.Repeat("<h1>", 100_000),
		"many triggers": `{"error":{"message":"` + strings.Repeat("try again in ", 50_000) + `"}}`,
		"many details":  `{"error":{"details":[` + strings.Repeat(`{"retry_after":1},`, 50_000) + `{}]}}`,
	} {
		for _, status := range []int{200, 429} {
			a := answer(status, body, "content-type", "text/event-stream")
			s := signal.Classify(a)
			mustHold(t, a, s)
			if s.Class == signal.None {
				t.Errorf("%s under %d is no failure", name, status)
			}
		}
	}
}

// A quoted error is read, but only to a depth that no honest gateway exceeds.
func TestQuotedErrors(t *testing.T) {
	for depth, want := range map[int]signal.Class{1: signal.QuotaExhausted, 3: signal.QuotaExhausted, 9: signal.RateLimited} {
		body := `{"error":{"message":` + nest(depth, `{"error":{"code":"billing_not_active","message":""}}`) + `}}`
		if s := signal.Classify(answer(429, body)); s.Class != want || s.ProviderErrorType != "http_429" {
			t.Errorf("%d deep: %s %q, want %s", depth, s.Class, s.ProviderErrorType, want)
		}
	}
}

// nest quotes core within an error within an error within …
func nest(n int, core string) string {
	s := quote(core)
	for range n - 1 {
		s = quote(`{"error":{"message":` + s + `}}`)
	}
	return s
}

func quote(s string) string { return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"` }

func frame(headers map[string]string, payload string) []byte {
	var h []byte
	for name, v := range headers {
		h = append(h, byte(len(name)))
		h = append(append(h, name...), 7)
		h = append(binary.BigEndian.AppendUint16(h, uint16(len(v))), v...)
	}
	out := binary.BigEndian.AppendUint32(nil, uint32(16+len(h)+len(payload)))
	out = binary.BigEndian.AppendUint32(out, uint32(len(h)))
	out = append(out, 0, 0, 0, 0)
	return append(append(append(out, h...), payload...), 0, 0, 0, 0)
}

func TestEventStreamFrames(t *testing.T) {
	start := frame(map[string]string{":message-type": "event", ":event-type": "messageStart"}, `{"role":"assistant"}`)
	stop := frame(map[string]string{":message-type": "event", ":event-type": "messageStop"}, `{"stopReason":"end_turn"}`)
	throttled := frame(map[string]string{":message-type": "exception", ":exception-type": "throttlingException"}, `{"message":"Too many tokens, please wait before trying again."}`)
	for name, c := range map[string]struct {
		body []byte
		want signal.Class
		typ  string
	}{
		"ended":       {append(bytes.Clone(start), stop...), signal.None, ""},
		"cut":         {start, signal.Unknown, "stream_cut"},
		"cut frame":   {append(bytes.Clone(start), stop[:9]...), signal.Unknown, "stream_cut"},
		"exception":   {append(bytes.Clone(start), throttled...), signal.RateLimited, "throttlingException"},
		"cut payload": {append(bytes.Clone(start), stop[:40]...), signal.Unknown, "stream_cut"},
		"false sizes": {append(bytes.Repeat([]byte{0xff}, 8), start...), signal.Unknown, "stream_cut"},
	} {
		s := signal.Classify(answer(200, string(c.body), "content-type", "application/vnd.amazon.eventstream"))
		if s.Class != c.want || s.ProviderErrorType != c.typ {
			t.Errorf("%s: %s %q, want %s %q", name, s.Class, s.ProviderErrorType, c.want, c.typ)
		}
	}
}

func TestMessageIsBoundedAndMasked(t *testing.T) {
	s := signal.Classify(answer(401, openAI("Incorrect API key provided: sk-abcDEF-123456. "+strings.Repeat("é", 2000), "invalid_request_error", "invalid_api_key")))
	if strings.Contains(s.Message, "abcDEF") || len(s.Message) > 512+8 || !strings.Contains(s.Message, "Incorrect API key") {
		t.Errorf("message: %q", s.Message)
	}
}
