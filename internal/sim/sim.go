// Package sim is a provider simulator: it speaks the wire formats of OpenAI, Anthropic and Gemini on real sockets,
// misbehaves as its script says, and counts every call and every effect.
package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// ControlPrefix is where the control API lives; no provider uses this path.
const ControlPrefix = "/sim/v1/"

// maxBody bounds a request's body; the providers' own limits are lower (Anthropic: 32 MB).
const maxBody = 64 << 20

// Config says how a Server runs. The zero value serves on a free loopback port and misbehaves only when told.
type Config struct {
	// Listen is the address, default 127.0.0.1:0 (a free port, see URL).
	Listen string
	// Effects is a file that gets one synced JSON line per effect before the answer is written, so that it can
	// be the oracle of a test that kills the caller. An existing file is read first and continued. "" keeps
	// effects in memory only.
	Effects string
	// Streams is a folder with recorded answers and their index.json; Signals is a signals.jsonl. Both add to
	// a built-in selection.
	Streams, Signals string
	// Dedup makes the far side itself idempotent: a second call with an Idempotency-Key seen less than Dedup
	// ago gets the first answer and has no effect. 0 never deduplicates.
	Dedup time.Duration
	// Script is in force from the start and again after a reset.
	Script Script
	// MaxCalls bounds the call log, the oldest go first; default 10,000. Counters are not affected.
	MaxCalls int
	// Bench, when set, serves prepared answers only, as fast as it can; everything else but Listen is ignored.
	Bench *Bench
	// Now stamps calls, effects and answers; default time.Now.
	Now func() time.Time
}

// Server is a simulated provider. It is an http.Handler too; without Start, faults that need the connection
// itself (a reset, a missing last chunk) are panics with http.ErrAbortHandler unless the writer can be hijacked.
type Server struct {
	cfg     Config
	script  *engine
	record  *recorder
	effects *effectLog
	corpus  *corpus
	gates   *gates
	control http.Handler
	stored  *store

	loadOnce sync.Once
	loadErr  error

	ctx    context.Context
	stop   context.CancelFunc
	busy   sync.WaitGroup
	ln     net.Listener
	srv    *http.Server
	served chan struct{}
	bench  *benchServer
}

// New returns a Server that is not listening yet.
func New(cfg Config) *Server {
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	if cfg.MaxCalls <= 0 {
		cfg.MaxCalls = 10_000
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Server{cfg: cfg, stored: newStore()}
	s.script = newEngine(cfg.Script)
	s.record = newRecorder(cfg.MaxCalls)
	s.gates = newGates(func() { s.record.update(func() {}) })
	s.effects = newEffectLog(cfg.Dedup, cfg.Now)
	s.corpus = newCorpus()
	s.control = s.controlMux()
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// load reads the files that Config names; a handler used without Start gets here with its first call.
func (s *Server) load() error {
	s.loadOnce.Do(func() {
		s.loadErr = errors.Join(
			s.corpus.load(s.cfg.Streams, s.cfg.Signals),
			s.effects.open(s.cfg.Effects),
			s.cfg.Script.check(s.corpus))
	})
	return s.loadErr
}

// Start reads the files that Config names and begins to serve.
func (s *Server) Start() error {
	if err := s.load(); err != nil {
		return errors.Join(err, s.effects.close())
	}
	ln, err := net.Listen("tcp", s.cfg.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("sim: listen on %s (choose another --listen address): %w", s.cfg.Listen, err), s.effects.close())
	}
	s.ln, s.served = ln, make(chan struct{})
	if s.cfg.Bench != nil {
		s.bench = newBench(s.ctx, *s.cfg.Bench, s.cfg.Now())
		go func() {
			defer close(s.served)
			s.bench.serve(ln)
		}()
		return nil
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s.srv = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute, MaxHeaderBytes: 1 << 20, ErrorLog: quiet(), Protocols: protocols}
	go func() {
		defer close(s.served)
		_ = s.srv.Serve(ln) // ends with ErrServerClosed in Close
	}()
	return nil
}

// Addr is the address that the server listens on, "" before Start.
func (s *Server) Addr() string {
	if s.ln == nil {
		return ""
	}
	return s.ln.Addr().String()
}

// URL is the server's root, such as http://127.0.0.1:9797. It is the base URL for Anthropic's and Google's
// clients; OpenAI's takes URL()+"/v1".
func (s *Server) URL() string { return "http://" + s.Addr() }

// Close ends every call, held and stalled ones too, and waits for them.
func (s *Server) Close() error {
	s.stop()
	var err error
	switch {
	case s.bench != nil:
		err = s.ln.Close()
		<-s.served
		s.bench.close()
	case s.srv != nil:
		err = s.srv.Close()
		<-s.served
	}
	s.busy.Wait()
	return errors.Join(err, s.effects.close())
}

// Reset forgets calls, counters, effects in memory, stored answers and gates, and puts Config.Script back. Effects
// already in the file stay there, and the numbers of executions go on, so that no two answers are ever alike.
func (s *Server) Reset() {
	s.gates.reset()
	s.script.set(s.cfg.Script)
	s.record.reset()
	s.effects.reset()
	s.stored.reset()
}

// ServeHTTP serves the providers' paths, write tools on every other path, and the control API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.busy.Add(1)
	defer s.busy.Done()
	if err := s.load(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if strings.HasPrefix(r.URL.Path, ControlPrefix) {
		s.control.ServeHTTP(w, r)
		return
	}
	s.serveCall(w, r)
}
