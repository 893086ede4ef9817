package embed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-ai/holdfast/breaker"
)

// maxAnswer bounds an answer, in bytes: 8192 numbers of 20 digits and what stands around them.
const maxAnswer = 1 << 20

// An endpoint that failed so many times in a row is asked again after the rest: a look-up must not wait for it each time.
const (
	failures = 5
	rest     = 10 * time.Second
)

// DefaultTimeout bounds an answer's time where [EndpointConfig] does not.
const DefaultTimeout = 2 * time.Second

// EndpointConfig says whom to ask.
type EndpointConfig struct {
	Client  *http.Client // nil: one that follows no redirect, for a key goes nowhere else
	Base    string       // what the provider's own SDK takes as its base URL
	Gemini  bool         // else it speaks OpenAI's API
	Model   string
	Header  http.Header // with the credential
	Timeout time.Duration
}

// Endpoint asks an embeddings endpoint of OpenAI's form, or Gemini's.
type Endpoint struct {
	conf       EndpointConfig
	url        string
	breaker    *breaker.Breaker
	dimensions atomic.Int64 // of the first vector; 0 before
}

// NewEndpoint makes an endpoint ready. Nothing is sent yet.
func NewEndpoint(c EndpointConfig) *Endpoint {
	e := &Endpoint{conf: c, breaker: breaker.New(breaker.Config{FailureThreshold: failures, ResetTimeout: rest})}
	if e.conf.Client == nil {
		e.conf.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if e.conf.Timeout <= 0 {
		e.conf.Timeout = DefaultTimeout
	}
	base := strings.TrimSuffix(c.Base, "/")
	e.url = base + "/embeddings"
	if c.Gemini {
		e.url = base + "/v1beta/models/" + url.PathEscape(strings.TrimPrefix(c.Model, "models/")) + ":embedContent"
	}
	return e
}

// Space implements [Embedder].
func (e *Endpoint) Space() string { return "endpoint 1 " + e.url + " " + e.conf.Model }

// Local implements [Embedder].
func (e *Endpoint) Local() bool { return false }

// Embed implements [Embedder]. Of what failed the error tells the kind and the status, and nothing that was sent or came back.
func (e *Endpoint) Embed(ctx context.Context, text string) ([]float32, error) {
	pass, err := e.breaker.Acquire()
	if err != nil {
		return nil, fmt.Errorf("%w: it failed %d times in a row and is asked again in %s at most", ErrUnavailable, failures, rest)
	}
	result := breaker.Ignored
	defer func() { pass.Done(result) }()
	within, cancel := context.WithTimeout(ctx, e.conf.Timeout)
	defer cancel()
	status, body, err := e.ask(within, text)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil || status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		result = breaker.Failure
		return nil, unavailable(status, err, e.conf.Timeout)
	case status != http.StatusOK:
		return nil, fmt.Errorf("%w: it answers with status %d; check provider, model and api_key of the embedder", ErrUnavailable, status)
	}
	result = breaker.Success
	return e.vector(body)
}

func unavailable(status int, err error, timeout time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w within %s", ErrUnavailable, timeout)
	}
	if err != nil {
		// An *url.Error holds the address, which may hold a credential.
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return fmt.Errorf("%w: %v", ErrUnavailable, err)
	}
	return fmt.Errorf("%w: status %d", ErrUnavailable, status)
}

func (e *Endpoint) ask(ctx context.Context, text string) (status int, body []byte, err error) {
	var sent any = struct {
		Model  string `json:"model"`
		Input  string `json:"input"`
		Format string `json:"encoding_format"`
	}{e.conf.Model, text, "float"}
	if e.conf.Gemini {
		type part struct {
			Text string `json:"text"`
		}
		sent = map[string]any{"content": map[string]any{"parts": []part{{text}}}, "taskType": "SEMANTIC_SIMILARITY"}
	}
	doc, err := json.Marshal(sent)
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(doc))
	if err != nil {
		return 0, nil, err
	}
	for name, values := range e.conf.Header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.conf.Client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	}
	return resp.StatusCode, body, err
}

// vector reads the one vector of an answer.
func (e *Endpoint) vector(body []byte) ([]float32, error) {
	var answer struct {
		Data []struct {
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
		Embedding struct {
			Values []float32 `json:"values"`
		} `json:"embedding"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%w: the answer is none of the API's", ErrVector)
	}
	v := answer.Embedding.Values
	if !e.conf.Gemini {
		if len(answer.Data) != 1 {
			return nil, fmt.Errorf("%w: %d vectors for one text", ErrVector, len(answer.Data))
		}
		v = answer.Data[0].Embedding
	}
	v, err := unit(v)
	if err != nil {
		return nil, err
	}
	if !e.dimensions.CompareAndSwap(0, int64(len(v))) && e.dimensions.Load() != int64(len(v)) {
		return nil, fmt.Errorf("%w: %d dimensions, %d before", ErrVector, len(v), e.dimensions.Load())
	}
	return v, nil
}
