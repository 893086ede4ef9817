package redact_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/holdfast-ai/holdfast/internal/redact"
)

const secret = `sk-a/b"c<d+e`

func TestForms(t *testing.T) {
	w := redact.New("Bearer "+secret, "Basic dXNlcjpwYXNzd29yZC0x", "short", "")
	for text, gone := range map[string]string{
		"key " + secret:               secret,
		`{"k":"sk-a/b\"c<d+e"}`:       "c<d",
		`{"k":"sk-a\/b\"c<d+e"}`:      `a\/b`,
		`{"k":"sk-a/b\"c\u003cd+e"}`:  "u003c",
		"?k=sk-a%2Fb%22c%3Cd%2Be":     "%2Fb",
		"the password is password-1.": "password-1",
		"Basic dXNlcjpwYXNzd29yZC0x":  "dXNl",
		secret + secret:               secret[:5],
	} {
		p := []byte(text)
		if !w.In(p) || len(p) != len(text) || strings.Contains(string(p), gone) {
			t.Errorf("%s: %s", text, p)
		}
	}
	for _, text := range []string{"short", "user", "sk-a", "Bearer", ""} {
		if p := []byte(text); w.In(p) || string(p) != text {
			t.Errorf("%s: %s", text, p)
		}
	}
	if redact.New("", "short", "Bearer 1234567") != nil {
		t.Error("there is nothing to look for")
	}
	h := map[string][]string{"X-Echo": {"a", secret}, "Other": {"b"}}
	shared := h["X-Echo"]
	if w.Header(h); h["X-Echo"][1] == secret || h["Other"][0] != "b" || shared[1] != secret {
		t.Errorf("%v, %v", h, shared)
	}
	var none *redact.Words
	none.Header(h)
	if none.In([]byte(secret)) {
		t.Error("nothing is found by nobody")
	}
}

// TestReader holds for every way in which bytes may arrive and be asked for.
func TestReader(t *testing.T) {
	w := redact.New(secret, "sk-another-secret")
	text := "data: " + secret + "\n\nsk-a" + secret + "sk-sk-another-secret sk-another-secre"
	want := []byte(text)
	w.In(want)
	for in := 1; in <= len(text); in += 3 {
		for _, out := range []int{1, 5, 40, 4096} {
			r := w.Reader(&pieces{text: text, n: in})
			var got bytes.Buffer
			_, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{r}, make([]byte, out))
			if err != nil || !bytes.Equal(got.Bytes(), want) {
				t.Fatalf("in pieces of %d, read by %d: %q, %v", in, out, got.Bytes(), err)
			}
		}
	}
	if err := iotest.TestReader(w.Reader(strings.NewReader(text)), want); err != nil {
		t.Error(err)
	}
}

// What cannot begin a secret is there at once: an event must not wait for the next.
func TestReaderKeepsNothingBack(t *testing.T) {
	from, to := io.Pipe()
	defer from.Close()
	r := redact.New(secret).Reader(from)
	go func() { _, _ = to.Write([]byte("data: x\n\n")) }()
	p := make([]byte, 100)
	if n, err := r.Read(p); string(p[:n]) != "data: x\n\n" || err != nil {
		t.Errorf("%q, %v", p[:n], err)
	}
}

func TestReaderPassesErrorsOn(t *testing.T) {
	broke := errors.New("broke")
	got, err := io.ReadAll(redact.New(secret).Reader(io.MultiReader(strings.NewReader("ab sk-a"), iotest.ErrReader(broke))))
	if string(got) != "ab sk-a" || !errors.Is(err, broke) {
		t.Errorf("%q, %v", got, err)
	}
}

type pieces struct {
	text string
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.text == "" {
		return 0, io.EOF
	}
	n := copy(b, p.text[:min(p.n, len(p.text))])
	p.text = p.text[n:]
	return n, nil
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("x sk-another-secret y"), uint8(3), uint8(2))
	f.Fuzz(func(t *testing.T, text []byte, in, out uint8) {
		w := redact.New("sk-another-secret", "sk-sk-sk-x")
		got, err := io.ReadAll(w.Reader(&pieces{text: string(text), n: int(in) + 1}))
		if err != nil || len(got) != len(text) || bytes.Contains(got, []byte("sk-another-secret")) {
			t.Fatalf("%q: %q, %v", text, got, err)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	w := redact.New("Bearer sk-proj-0123456789abcdefghijklmnopqrstuvwxyz")
	text := strings.Repeat(`data: {"choices":[{"delta":{"content":"some words of an answer"}}]}`+"\n\n", 230)
	buf := make([]byte, 16<<10)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{w.Reader(strings.NewReader(text))}, buf)
	}
}
