package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/mutant"
)

// Prefix is where engines call one another, on the port of the data plane.
const Prefix = "/holdfast/v1/peer/"

// MaxBody bounds the body of a call, and what Call reads of an answer.
const MaxBody = 4 << 20

const (
	// Patience is how long a peer may take to begin its answer. What it is asked for it has in memory: one that takes longer is
	// stopped, cut off or overloaded, and whoever waits for its answer has other ways to it.
	Patience = 500 * time.Millisecond
	// firstRest and longestRest bound how long a peer that did not answer is not called again; each silence doubles it.
	firstRest, longestRest = time.Second, 30 * time.Second
)

// Errors of Do and Call, beside what the peer answers.
var (
	// ErrUnreachable says that an engine is none of the live ones with an address, rests since it was silent, or did not answer.
	ErrUnreachable = errors.New("fleet: replica not reached")
	// errSilent ends a call whose answer did not begin in time.
	errSilent = errors.New("no answer began in time")
)

// Peers calls the other engines on the store, and serves their calls. It is safe for concurrent use.
type Peers struct {
	directory *Directory
	signer    *Signer
	logger    *slog.Logger
	transport *http.Transport
	mux       *http.ServeMux
	rests     rests
}

// NewPeers returns the way to the engines of a directory. Close it.
func NewPeers(d *Directory, s *Signer, logger *slog.Logger) *Peers {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Peers{directory: d, signer: s, logger: logger, mux: http.NewServeMux(), rests: rests{of: map[string]rest{}},
		// No proxy of the environment: peers are neighbours.
		transport: &http.Transport{DialContext: (&net.Dialer{Timeout: Patience}).DialContext, MaxIdleConnsPerHost: 64,
			IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10, DisableCompression: true}}
}

// Close ends what connections are idle. Calls that run end with their contexts.
func (p *Peers) Close() { p.transport.CloseIdleConnections() }

// Directory is where the engines are found.
func (p *Peers) Directory() *Directory { return p.directory }

// Handle has h serve the calls that a pattern of http.ServeMux fits, all of them below Prefix. Call it before serving.
func (p *Peers) Handle(pattern string, h http.Handler) { p.mux.Handle(pattern, h) }

type fromKey struct{}

// From is the engine whose call r is, within a handler of Handle.
func From(r *http.Request) string {
	from, _ := r.Context().Value(fromKey{}).(string)
	return from
}

// ServeHTTP serves the calls of other engines on this store, and tells all others nothing.
func (p *Peers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from, nonce, sum, err := p.signer.head(r)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	}
	if err == nil && digest(body) != sum {
		err = fmt.Errorf("%w: another body", ErrUnsigned)
	}
	if err == nil {
		// A signature outlives its engine: whoever has stopped calls nobody.
		if _, live := p.directory.Member(from); !live && !mutant.On("peer-not-in-directory") {
			err = fmt.Errorf("%w: %s is none of the live ones", ErrUnsigned, from)
		}
	}
	if err != nil {
		p.logger.Debug("refused a call to the address of replicas", "from", r.RemoteAddr, "error", err)
		http.Error(w, "not a call of a replica of this store", http.StatusUnauthorized)
		return
	}
	w.Header().Set(ProofHeader, p.signer.Proof(nonce))
	r = r.WithContext(context.WithValue(r.Context(), fromKey{}, from))
	r.Body = io.NopCloser(bytes.NewReader(body))
	p.mux.ServeHTTP(w, r)
}

// Do calls the engine owner: target is path and query, below Prefix. The answer, whatever its status, is the peer's own, and its
// body has no bound but the caller's: close it. Errors: ErrUnreachable, and the end of ctx.
func (p *Peers) Do(ctx context.Context, owner, method, target string, header http.Header, body []byte) (*http.Response, error) {
	address, ok := p.directory.Find(owner)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: %s is not live, or has no address (fleet.advertise)", ErrUnreachable, owner)
	case owner == p.directory.Self():
		return nil, fmt.Errorf("%w: %s is this one", ErrUnreachable, owner)
	}
	if !p.rests.may(owner, time.Now()) {
		return nil, fmt.Errorf("%w: %s did not answer a moment ago", ErrUnreachable, owner)
	}
	r, err := p.exchange(ctx, owner, address, method, target, header, body)
	switch {
	case err == nil:
		p.rests.answered(owner)
	case ctx.Err() != nil: // the caller's own end says nothing of the peer
		p.rests.undecided(owner)
		return nil, context.Cause(ctx)
	default:
		p.rests.silent(owner, time.Now())
		err = fmt.Errorf("%w: %s at %s: %w", ErrUnreachable, owner, address, err)
	}
	return r, err
}

// Silent has an engine that began to answer and then said nothing more left alone for a while, as one that did not answer.
func (p *Peers) Silent(owner string) { p.rests.silent(owner, time.Now()) }

func (p *Peers) exchange(ctx context.Context, owner, address, method, target string, header http.Header, body []byte) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(address, "/")+target, bytes.NewReader(body))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	nonce := p.signer.Sign(r, owner, body)
	silence := time.AfterFunc(Patience, func() { cancel(errSilent) })
	answer, err := p.transport.RoundTrip(r) // no redirect is followed
	if err == nil && !silence.Stop() {
		_ = answer.Body.Close()
		err = errSilent
	}
	if err == nil && !p.signer.Proved(answer.Header, owner, nonce) {
		_ = answer.Body.Close()
		err = fmt.Errorf("whoever is there answered %s and is not that replica", answer.Status)
	}
	if err != nil {
		silence.Stop()
		if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	answer.Body = &endingBody{answer.Body, cancel}
	return answer, nil
}

// endingBody gives its context back when it is closed.
type endingBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *endingBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// Call is Do with JSON both ways; in and out may be nil. An answer that is no success is an error with what it says.
func (p *Peers) Call(ctx context.Context, owner, method, target string, in, out any) error {
	var body []byte
	header := http.Header{}
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
		header.Set("Content-Type", "application/json")
	}
	ctx, cancel := context.WithTimeout(ctx, 4*Patience) // the body of what is asked so is small, and there
	defer cancel()
	r, err := p.Do(ctx, owner, method, target, header, body)
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(r.Body, MaxBody))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s: %w", ErrUnreachable, owner, err)
	case r.StatusCode/100 != 2:
		return fmt.Errorf("replica %s answered %s: %.200q", owner, r.Status, text)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("replica %s: %w", owner, err)
	}
	return nil
}
