package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/internal/policy"
)

// One engine holds a SQLite store. A proxy that finds it held speaks to the holder over a socket beside the file
// (semantics 11): it becomes a bridge between its client and the holder, which keeps the log.

// SocketPath is where the holder of the store at path listens. Links are followed, as the store's own lock does.
func SocketPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	} else if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(folder, filepath.Base(path))
	}
	return path + ".sock"
}

// commandHeader names an ad-hoc server on the socket, which only this user can reach.
const commandHeader = "Holdfast-Command"

// maxCommand bounds that header: an environment is in it.
const maxCommand = 1 << 20

// Socket is where further proxies attach.
type Socket struct {
	http *http.Server
	done chan struct{}
	path string
}

// Listen opens the socket of p. Its file is for this user alone (semantics 45), and one that a crash left behind is replaced: the
// caller holds the store's lock.
//
// rest answers every other path than /mcp/.
func Listen(path string, p *Proxy, rest http.Handler) (*Socket, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove an old socket: %w", err)
	}
	l, err := listenPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; a shorter path may do", path, err)
	}
	s := &Socket{path: path, done: make(chan struct{}), http: &http.Server{Handler: p.attached(rest), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 2 * maxCommand,
		ErrorLog: slog.NewLogLogger(p.logger.Handler(), slog.LevelDebug)}}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // ends with Close
	}()
	return s, nil
}

// Stop takes on no more proxies, Close ends those that are attached.
func (s *Socket) Stop() { _ = os.Remove(s.path) }

func (s *Socket) Close() {
	_ = s.http.Close() // what is on its way has been recorded
	<-s.done
}

// attached serves proxies of the same user.
func (p *Proxy) attached(rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ours := strings.CutPrefix(r.URL.Path, "/mcp/")
		w.Header().Set(holderHeader, p.kind())
		if !ours {
			rest.ServeHTTP(w, r)
			return
		}
		if text := r.Header.Get(commandHeader); text != "" && r.Header.Get(sessionHeader) == "" {
			if err := p.addAttached(r.Context(), name, text); err != nil {
				refuse(w, http.StatusBadRequest, "invalid_request", err.Error())
				return
			}
		}
		srv := p.server(name)
		if srv == nil {
			refuse(w, http.StatusNotFound, "not_found", "in the engine that holds this store "+p.noServer(name))
			return
		}
		p.serve(w, r, srv, Caller{Tenant: p.tenant(), attached: true, scope: scopeOf(r)})
	})
}

func (p *Proxy) addAttached(ctx context.Context, name, text string) error {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	var c Command
	if err := json.Unmarshal(raw, &c); err != nil {
		return err
	}
	return p.add(ctx, name, c, noEnv) // the other process's environment is in it
}

// Attachment is how a stdio client is served through the engine that holds a store.
type Attachment struct {
	Socket string // SocketPath of the store
	// Server is a name in the holder's configuration or, with a Command, that of an ad-hoc server, which the holder runs as this
	// process would have.
	Server  string
	Command *Command
	// TakeOver opens the store in this process, and with it the socket, once its holder has ended. An error that wraps
	// ledger.ErrLocked says that another process holds it by now; nil: it is never taken over.
	TakeOver func(context.Context) error
	Logger   *slog.Logger
}

// Attach serves one stdio client through the engine that holds a store, whichever process that is at the time.
func Attach(ctx context.Context, a Attachment, in io.Reader, out io.Writer) error {
	cfg := policy.Default(func(string) (string, bool) { return "", false })
	p, err := New(ctx, Config{Policy: cfg, Logger: a.Logger})
	if err != nil {
		return err
	}
	defer p.Close(ctx)
	who := Caller{Tenant: p.tenant(), header: http.Header{scopeHeader: {newScope()}}}
	if a.Command != nil {
		raw, err := json.Marshal(a.Command)
		if err != nil {
			return err
		}
		who.header.Set(commandHeader, base64.StdEncoding.EncodeToString(raw))
		if len(who.header.Get(commandHeader)) > maxCommand {
			return fmt.Errorf("the command and its environment have more than %d bytes", maxCommand)
		}
	}
	h := newHolder(a)
	defer h.next.CloseIdleConnections()
	p.client = &http.Client{Transport: h, CheckRedirect: noRedirect}
	srv := newServer(policy.MCPServer{Name: a.Server, URL: "http://holdfast/mcp/" + a.Server}, p.depth(), p.client)
	srv.bare = true
	p.servers[a.Server] = srv
	return p.serveStdio(ctx, srv, who, in, out)
}
