package redact_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/holdfast-ai/holdfast/internal/redact"
)

const secret = `sk-a/b"c<d+e`

func TestForms(t *testing.T) {
	w := redact.New(field("Bearer "+secret), field("Basic dXNlcjpwYXNzd29yZC0x"), field("short"), field(""))
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
	if redact.New(field(""), field("short"), field("Bearer 1234567")) != nil {
		t.Error("there is nothing to look for")
	}
	h := http.Header{"X-Echo": {"a", secret, secret}, "Other": {"b"}}
	if got := w.Header(h); got["X-Echo"][1] == secret || got["X-Echo"][2] == secret || got["Other"][0] != "b" || h["X-Echo"][1] != secret {
		t.Errorf("%v, %v", h, got)
	}
	p := []byte(secret)
	if got := w.Of(p); string(got) != strings.Repeat("*", len(secret)) || string(p) != secret || w.Text(secret) != string(got) {
		t.Errorf("%s, %s", got, p)
	}
	var none *redact.Words
	none.Header(h)
	if none.In([]byte(secret)) || none.Text(secret) != secret || h["X-Echo"][1] != secret {
		t.Error("nothing is found by nobody")
	}
}

func field(value string) redact.Field { return redact.Field{Name: "X-Token", Value: value} }

// TestFields holds what of a value is looked for.
func TestFields(t *testing.T) {
	for _, x := range []struct{ name, value, hides, shows string }{
		{"X-Pass-Token", "hunter2hunter2 xyz", "hunter2hunter2 xyz", "xyz"},
		{"Authorization", "Custom hunter2hunter2", "hunter2hunter2", "Custom"},
		{"Authorization", `Token token="hunter2hunter2", nonce="def"`, "hunter2hunter2", "nonce"},
		{"X-Token", "token hunter2hunter2", "hunter2hunter2", "token"},
		{"Cookie", "sid=cookiesecret123; lang=en; theme=production", "cookiesecret123", "production"},
		{"X-Session-Cookie", "cookiesecret123", "cookiesecret123", "lang"},
		{"DATABASE_URL", "postgres://app:hunter2hunter2@db/x", "hunter2hunter2", "app"},
		{"X-Token", "https://hooks.test/T0/B0/4711abcdef", "https://hooks.test/T0/B0/4711abcdef", "https://hooks.test"},
		{"X-Token", "correct-horse-battery", "correct-horse-battery", "correct"},
		{"X-Token", "pa$$word!", "pa$$word!", "word"},
		{"X-Token", strings.Repeat("ab1", 9), strings.Repeat("ab1", 10), "ab1ab1"},
	} {
		w := redact.New(redact.Field{Name: x.name, Value: x.value})
		if got := w.Text("it is " + x.hides + "."); got != "it is "+strings.Repeat("*", len(x.hides))+"." {
			t.Errorf("%s: %s: %s", x.name, x.value, got)
		}
		if got := w.Text(x.shows); got != x.shows {
			t.Errorf("%s: %s: %s", x.name, x.value, got)
		}
	}
	// What answers say of other things is not looked for.
	for _, value := range []string{"production", "completed", "us-east", "true", "86400000", "1234567890123456789012", "12345678e9", "-1.5000000", "2026-11-30",
		"10.0.0.1:8080", "Bearer production", "hello world", "https://auth.test", "https://auth.test:8443/", "1234567"} {
		if f := field(value); f.Distinct() || redact.New(f) != nil {
			t.Errorf("%s is looked for", value)
		}
	}
	if f := field("Bearer sk-1234567"); !f.Distinct() {
		t.Error("a key is one")
	}
}

// TestReader holds for every way in which bytes may arrive and be asked for.
func TestReader(t *testing.T) {
	w := redact.New(field(secret), field("sk-another-secret"))
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

// TestReaderIsIn holds for secrets that begin, end or lie in one another, wherever a piece ends.
func TestReaderIsIn(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 0))
		some := func(n int) string {
			p := make([]byte, n)
			for i := range p {
				p[i] = "a1"[r.IntN(2)]
			}
			return string(p)
		}
		secrets := []string{some(8 + r.IntN(3)), some(8 + r.IntN(3))}
		secrets = append(secrets, secrets[0]+some(3), secrets[1][2:]+secrets[0])
		var fields []redact.Field
		for _, s := range secrets {
			fields = append(fields, field(s))
		}
		w := redact.New(fields...)
		if w == nil {
			continue
		}
		text := ""
		for range 4 {
			text += some(r.IntN(6)) + secrets[r.IntN(len(secrets))]
		}
		want := w.Text(text)
		from := w.Reader(&pieces{text: text, n: 1 + r.IntN(40)})
		var got bytes.Buffer
		_, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{from}, make([]byte, 1+r.IntN(60)))
		if err != nil || got.String() != want {
			t.Fatalf("%q of %q: %q, want %q, %v", secrets, text, got.Bytes(), want, err)
		}
		n := r.IntN(len(text) + 1)
		if whole, part := from.Original(got.Bytes()), from.Original(got.Bytes()[:n]); string(whole) != text || string(part) != text[:n] || got.String() != want {
			t.Fatalf("%q was %q, or %q", text, whole, part)
		}
	}
}

// What was replaced is remembered within a bound.
func TestOriginalIsBounded(t *testing.T) {
	text := strings.Repeat("sk-another-secret-1 ", 200_000)
	r := redact.New(field("sk-another-secret-1")).Reader(strings.NewReader(text))
	got, err := io.ReadAll(r)
	if err != nil || bytes.Contains(got, []byte("secret")) {
		t.Fatal(err)
	}
	if was := string(r.Original(got)); was == text || was[:len(text)/20] != text[:len(text)/20] {
		t.Error("what was replaced first is known, and not all of it")
	}
}

// What cannot begin a secret is there at once: an event must not wait for the next.
func TestReaderKeepsNothingBack(t *testing.T) {
	from, to := io.Pipe()
	defer from.Close()
	r := redact.New(field(secret)).Reader(from)
	go func() { _, _ = to.Write([]byte("data: x\n\n")) }()
	p := make([]byte, 100)
	if n, err := r.Read(p); string(p[:n]) != "data: x\n\n" || err != nil {
		t.Errorf("%q, %v", p[:n], err)
	}
}

func TestReaderPassesErrorsOn(t *testing.T) {
	broke := errors.New("broke")
	got, err := io.ReadAll(redact.New(field(secret)).Reader(io.MultiReader(strings.NewReader("ab sk-a"), iotest.ErrReader(broke))))
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
		w := redact.New(field("sk-another-secret"), field("sk-sk-sk-x1"))
		got, err := io.ReadAll(w.Reader(&pieces{text: string(text), n: int(in) + 1}))
		if err != nil || len(got) != len(text) || bytes.Contains(got, []byte("sk-another-secret")) {
			t.Fatalf("%q: %q, %v", text, got, err)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	w := redact.New(field("Bearer sk-proj-0123456789abcdefghijklmnopqrstuvwxyz"))
	text := strings.Repeat(`data: {"choices":[{"delta":{"content":"some words of an answer"}}]}`+"\n\n", 230)
	buf := make([]byte, 16<<10)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{w.Reader(strings.NewReader(text))}, buf)
	}
}
