package embed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/internal/embed"
)

func cosine(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func vector(t *testing.T, e embed.Embedder, text string) []float32 {
	t.Helper()
	v, err := e.Embed(t.Context(), text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if n := cosine(v, v); math.Abs(n-1) > 1e-5 {
		t.Errorf("%q: a vector of length² %v", text, n)
	}
	return v
}

func TestNGram(t *testing.T) {
	var e embed.NGram
	base := vector(t, e, "What is the capital of France?")
	for _, c := range []struct {
		text        string
		least, most float64
	}{
		{"what  is the capital of France", 0.9999, 1.0001},
		{"What is the CAPITAL of France?", 0.6, 0.95},
		{"Please, what is the capital of France? Thanks!", 0.6, 0.95},
		{"What is the capitol of France?", 0.6, 0.95},
		{"Wie wird das Wetter morgen in Hamburg?", -0.2, 0.3},
		{"フランスの首都はどこですか", -0.2, 0.2},
	} {
		if got := cosine(base, vector(t, e, c.text)); got < c.least || got > c.most {
			t.Errorf("%q: %v, not within %v and %v", c.text, got, c.least, c.most)
		}
	}
	for _, empty := range []string{"", "   "} {
		if _, err := e.Embed(t.Context(), empty); err != nil && !errors.Is(err, embed.ErrVector) {
			t.Errorf("%q: %v", empty, err)
		}
	}
	vector(t, e, "\xff\xfe broken")
	vector(t, e, strings.Repeat("long ", 20_000))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Embed(gone, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call gives %v", err)
	}
}

// far is a far side without a network.
type far func(*http.Request) (*http.Response, error)

func (f far) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answers(status int, body string) far {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
}

func endpoint(f far, gemini bool) *embed.Endpoint {
	return embed.NewEndpoint(embed.EndpointConfig{Client: &http.Client{Transport: f}, Base: "https://far.example/v1/", Gemini: gemini, Model: "models/m 1",
		Header: http.Header{"Authorization": {"Bearer sk-secret"}}})
}

func TestEndpointRequests(t *testing.T) {
	var got *http.Request
	var sent map[string]any
	see := func(answer string) far {
		return func(r *http.Request) (*http.Response, error) {
			got, sent = r, nil
			if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
				t.Error(err)
			}
			return answers(200, answer)(r)
		}
	}
	v := vector(t, endpoint(see(`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[3,4]}],"model":"m","usage":{}}`), false), "a text")
	if got.URL.String() != "https://far.example/v1/embeddings" || got.Method != "POST" || got.Header.Get("Authorization") != "Bearer sk-secret" {
		t.Errorf("%s %s, %v", got.Method, got.URL, got.Header)
	}
	if sent["input"] != "a text" || sent["model"] != "models/m 1" || sent["encoding_format"] != "float" {
		t.Errorf("sent %v", sent)
	}
	if v[0] != 0.6 || v[1] != 0.8 {
		t.Errorf("got %v", v)
	}
	vector(t, endpoint(see(`{"embedding":{"values":[1,1]}}`), true), "a text")
	if got.URL.String() != "https://far.example/v1/v1beta/models/m%201:embedContent" {
		t.Errorf("%s", got.URL)
	}
	if text := fmt.Sprint(sent["content"]); !strings.Contains(text, "a text") {
		t.Errorf("sent %v", sent)
	}
}

func TestEndpointRefuses(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   error
	}{
		{200, `{"data":[]}`, embed.ErrVector},
		{200, `{"data":[{"embedding":[]}]}`, embed.ErrVector},
		{200, `{"data":[{"embedding":[0,0]}]}`, embed.ErrVector},
		{200, `{"data":[{"embedding":[1e39]}]}`, embed.ErrVector},
		{200, `{"data":[{"embedding":[NaN]}]}`, embed.ErrVector},
		{200, `{"data":[{"embedding":"AAAA"}]}`, embed.ErrVector},
		{200, `{"data":[{"embedding":[1]},{"embedding":[1]}]}`, embed.ErrVector},
		{200, `{"data":[{"embedding":[` + strings.Repeat("1,", 9000) + `1]}]}`, embed.ErrVector},
		{200, `<html>`, embed.ErrVector},
		{200, strings.Repeat(" ", 2<<20), embed.ErrUnavailable},
		{401, `{"error":{"message":"sk-secret is wrong"}}`, embed.ErrUnavailable},
		{302, ``, embed.ErrUnavailable},
		{500, ``, embed.ErrUnavailable},
	} {
		_, err := endpoint(answers(c.status, c.body), false).Embed(t.Context(), "the question")
		if !errors.Is(err, c.want) {
			t.Errorf("%d %.40s: %v", c.status, c.body, err)
		}
		if err != nil && (strings.Contains(err.Error(), "sk-secret") || strings.Contains(err.Error(), "the question")) {
			t.Errorf("the error shows what was sent or came back: %v", err)
		}
	}
}

func TestEndpointOfTwoLengths(t *testing.T) {
	n := 1
	e := endpoint(func(r *http.Request) (*http.Response, error) {
		n++
		return answers(200, `{"data":[{"embedding":[`+strings.Repeat("1,", n)+`1]}]}`)(r)
	}, false)
	vector(t, e, "x")
	if _, err := e.Embed(t.Context(), "x"); !errors.Is(err, embed.ErrVector) {
		t.Errorf("a vector of another length gives %v", err)
	}
}

// TestEndpointThatHangs waits once for each of some calls, and then for none until the endpoint has had its rest.
func TestEndpointThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, well := 0, false
		e := endpoint(func(r *http.Request) (*http.Response, error) {
			if calls++; well {
				return answers(200, `{"data":[{"embedding":[1]}]}`)(r)
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, false)
		began := time.Now()
		for range 20 {
			if _, err := e.Embed(t.Context(), "x"); !errors.Is(err, embed.ErrUnavailable) {
				t.Fatalf("%v", err)
			}
		}
		if calls != 5 || time.Since(began) != 5*embed.DefaultTimeout {
			t.Errorf("%d calls took %s", calls, time.Since(began))
		}
		well = true
		time.Sleep(11 * time.Second)
		vector(t, e, "x")
	})
}

// A caller that leaves says nothing of the endpoint.
func TestEndpointOfCallersWhoLeave(t *testing.T) {
	e := endpoint(func(r *http.Request) (*http.Response, error) {
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		return answers(200, `{"data":[{"embedding":[1]}]}`)(r)
	}, false)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		if _, err := e.Embed(gone, "x"); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	vector(t, e, "x")
}

func TestSpacesDiffer(t *testing.T) {
	a, b := endpoint(nil, false), endpoint(nil, true)
	if a.Space() == b.Space() || a.Space() == (embed.NGram{}).Space() || a.Space() == "" {
		t.Errorf("%q, %q", a.Space(), b.Space())
	}
}
