package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"

	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/internal/policy"
)

// openBeside serves the reading half of the admin API from a store that is opened read-only, whether a gateway
// runs on it or not: the commands then have one way to ask. Close it with the function returned.
func openBeside(ctx context.Context, s foundStore) (*adminAPI, func() error, error) {
	if err := s.mustExist(); err != nil {
		return nil, nil, err
	}
	l, err := s.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	env, err := l.Env(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%w (closing: %v)", err, l.Close())
	}
	cfg := &policy.Config{Env: env}
	api := admin.New(admin.Config{Ledger: l, Policy: func() *policy.Config { return cfg }, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	everybody := api.Tenants(func(*http.Request) string { return "" })
	return &adminAPI{base: &url.URL{Scheme: "http", Host: "store"}, name: "the store " + s.String(), beside: true,
		http: &http.Client{Transport: inProcess{everybody}}}, l.Close, nil
}

// inProcess is a transport whose far side is a handler.
type inProcess struct{ http.Handler }

func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := &answer{header: http.Header{}, status: http.StatusOK}
	t.ServeHTTP(rec, r)
	return &http.Response{StatusCode: rec.status, Status: strconv.Itoa(rec.status) + " " + http.StatusText(rec.status), Proto: "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1, Header: rec.header, Body: io.NopCloser(&rec.body), ContentLength: int64(rec.body.Len()), Request: r}, nil
}

// answer is a response kept in memory.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }
