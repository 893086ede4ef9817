package idempotency_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-ai/holdfast/idempotency"
)

func upload(boundary string, parts ...string) *idempotency.Request {
	var b strings.Builder
	for i := 0; i < len(parts); i += 2 {
		fmt.Fprintf(&b, "--%s\r\n%s\r\n\r\n%s\r\n", boundary, parts[i], parts[i+1])
	}
	b.WriteString("--" + boundary + "--\r\n")
	return with(post("/v1/audio/transcriptions", b.String()), "Content-Type", "multipart/form-data; boundary="+boundary)
}

func TestMultipart(t *testing.T) {
	k := keyer(t, idempotency.Config{Ignore: []string{"nonce"}})
	const model, file = `Content-Disposition: form-data; name="model"`, `Content-Disposition: form-data; name="file"; filename="a/x.wav"`
	base := upload("b1", model, "whisper", file, "RIFF\r\n1")
	for _, tc := range []struct {
		name string
		b    *idempotency.Request
		same bool
	}{
		{"boundary", upload("another-boundary", model, "whisper", file, "RIFF\r\n1"), true},
		{"header case and quotes", upload("b1", `content-disposition: form-data; name=model`, "whisper", file, "RIFF\r\n1"), true},
		{"content", upload("b1", model, "whisper", file, "RIFF\r\n2"), false},
		{"field", upload("b1", model, "whisper-2", file, "RIFF\r\n1"), false},
		{"name", upload("b1", strings.Replace(model, "model", "mode", 1), "whisper", file, "RIFF\r\n1"), false},
		{"file name", upload("b1", model, "whisper", strings.Replace(file, "x.wav", "y.wav", 1), "RIFF\r\n1"), false},
		{"folder", upload("b1", model, "whisper", strings.Replace(file, "a/x", "b/x", 1), "RIFF\r\n1"), false},
		{"order", upload("b1", file, "RIFF\r\n1", model, "whisper"), false},
		{"missing part", upload("b1", model, "whisper"), false},
		{"ignored part", upload("b2", model, "whisper", `Content-Disposition: form-data; name="nonce"`, "17", file, "RIFF\r\n1"), true},
		{"transfer encoding is not undone", upload("b1", model+"\r\nContent-Transfer-Encoding: quoted-printable", "whispe=72", file, "RIFF\r\n1"), false},
	} {
		t.Run(tc.name, func(t *testing.T) { want(t, k, base, tc.b, tc.same) })
	}
	if out, why := k.Explain(nil, base); why != nil || strings.Count(string(out), "\npart ") != 2 {
		t.Errorf("%s, %v", out, why)
	}
}

// A multipart body that cannot be read is its bytes.
func TestBrokenMultipart(t *testing.T) {
	k := keyer(t, idempotency.Config{})
	many := upload("b", strings.Split(strings.Repeat("X: y,v,", 10_001), ",")[:20_002]...)
	for name, r := range map[string]*idempotency.Request{
		"no boundary":   with(post("/x", "--b\r\n\r\n--b--"), "Content-Type", "multipart/form-data"),
		"cut":           with(post("/x", "--b\r\nA: b\r\n\r\nhalf"), "Content-Type", "multipart/form-data; boundary=b"),
		"other type":    with(post("/x", "{}"), "Content-Type", "multipart/; boundary"),
		"disposition":   upload("b", `Content-Disposition: form-data; name="a"; name="b"`, "x"),
		"too many":      many,
		"empty":         with(post("/x", " "), "Content-Type", "multipart/form-data; boundary=b"),
		"preamble only": with(post("/x", "hello"), "Content-Type", "multipart/mixed; boundary=b"),
	} {
		out, why := k.Explain(nil, r)
		if why == nil || !strings.Contains(string(out), "\nbody bytes ") {
			t.Errorf("%s: %.200s, %v", name, out, why)
		}
	}
}

func pack(t *testing.T, open func(io.Writer) io.WriteCloser, s string) string {
	var b bytes.Buffer
	w := open(&b)
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestContentCodings(t *testing.T) {
	k := keyer(t, idempotency.Config{})
	const doc = `{"a":1,"b":2}`
	gz := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	best := func(w io.Writer) io.WriteCloser { z, _ := gzip.NewWriterLevel(w, gzip.BestCompression); return z }
	zl := func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }
	raw := func(w io.Writer) io.WriteCloser { z, _ := flate.NewWriter(w, 6); return z }
	coded := func(body, coding string) *idempotency.Request {
		return with(with(post("/x", body), "Content-Encoding", coding), "Content-Type", "application/json")
	}
	plain := coded(doc, "identity")
	for _, tc := range []struct {
		name string
		b    *idempotency.Request
		same bool
	}{
		{"gzip", coded(pack(t, gz, doc), "gzip"), true},
		{"gzip, level and order", coded(pack(t, best, `{"b":2, "a":1}`), "GZIP"), true},
		{"zlib", coded(pack(t, zl, doc), "deflate"), true},
		{"bare deflate", coded(pack(t, raw, doc), "deflate"), true},
		{"other content", coded(pack(t, gz, `{"a":2,"b":2}`), "gzip"), false},
		{"damaged", coded(pack(t, gz, doc)[:20], "gzip"), false},
		{"not decoded here", coded(doc, "br"), false},
		{"two codings", coded(doc, "gzip, gzip"), false},
		{"empty but coded", coded("", "zstd"), false},
	} {
		t.Run(tc.name, func(t *testing.T) { want(t, k, plain, tc.b, tc.same) })
	}
	want(t, k, plain, with(plain, "Content-Encoding", "identity", "br"), false)
	want(t, k, coded("abc", "br"), coded("abc", "br"), true)
	want(t, k, coded("abc", "br"), coded("abc", "zstd"), false)
	want(t, k, coded("abc", "br"), coded("abd", "br"), false)
}

// A bomb is its bytes: it costs no more memory than the bound.
func TestBombIsNotUnpacked(t *testing.T) {
	if race {
		t.Skip("one goroutine, 65 MiB")
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for range 65 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := with(post("/x", b.String()), "Content-Encoding", "gzip")
	if out, why := keyer(t, idempotency.Config{}).Explain(nil, r); why == nil || !strings.Contains(string(out), `body bytes "gzip" `) {
		t.Errorf("%s, %v", out, why)
	}
}

func TestConcurrentUse(t *testing.T) {
	k := keyer(t, idempotency.Config{})
	var wg sync.WaitGroup
	for i := range 8 {
		r := post("/v1/chat/completions?x="+fmt.Sprint(i), fmt.Sprintf(`{"b":%d,"a":"%s"}`, i, strings.Repeat("x", i*100)))
		first := k.Fingerprint(r)
		wg.Go(func() {
			for range 200 {
				if k.Fingerprint(r) != first {
					t.Error("it changes")
					return
				}
			}
		})
	}
	wg.Wait()
}
