package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
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
		if !ours {
			rest.ServeHTTP(w, r)
			return
		}
		if text := r.Header.Get(commandHeader); text != "" {
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
		p.serve(w, r, srv, Caller{Tenant: p.tenant(), attached: true})
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

// Attach serves one stdio client through the engine that holds a store: server is a name in its configuration or, with a command, that
// of an ad-hoc server, which the holder runs as this process would have.
func Attach(ctx context.Context, socket, server string, cmd *Command, logger *slog.Logger, in io.Reader, out io.Writer) error {
	cfg := policy.Default(func(string) (string, bool) { return "", false })
	p, err := New(ctx, Config{Policy: cfg, Logger: logger})
	if err != nil {
		return err
	}
	defer p.Close(ctx)
	var d net.Dialer
	p.client = newClient(&http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialContext(ctx, "unix", socket)
	}, MaxIdleConnsPerHost: 16})
	srv := newServer(policy.MCPServer{Name: server, URL: "http://holdfast/mcp/" + server}, p.depth(), p.client)
	srv.bare = true
	p.servers[server] = srv
	who := Caller{Tenant: p.tenant()}
	if cmd != nil {
		raw, err := json.Marshal(cmd)
		if err != nil {
			return err
		}
		who.header = http.Header{commandHeader: {base64.StdEncoding.EncodeToString(raw)}}
		if len(who.header.Get(commandHeader)) > maxCommand {
			return fmt.Errorf("the command and its environment have more than %d bytes", maxCommand)
		}
	}
	return p.serveStdio(ctx, srv, who, in, out)
}
