package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"

	"github.com/holdfast-ai/holdfast"
	"github.com/holdfast-ai/holdfast/internal/mcp"
	"github.com/holdfast-ai/holdfast/ledger"
	"github.com/holdfast-ai/holdfast/ledger/sqlite"
)

// withHolder calls f with the admin API of whatever process holds a store, over the socket beside it (semantics 11). Where
// nobody does, this process holds it for the length of f, and first recovers what a dead one left.
func withHolder(ctx context.Context, path string, f func(*adminAPI) error) error {
	if err := mustExist(path); err != nil {
		return err
	}
	if api := dialSocket(ctx, path); api != nil {
		return f(api)
	}
	env, err := envOf(ctx, path)
	if err != nil {
		return err
	}
	e, err := holdfast.New(holdfast.Config{Store: "sqlite:" + path, Env: env, Embedded: true, Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		return err
	}
	if err := e.Start(ctx); errors.Is(err, ledger.ErrLocked) {
		return fmt.Errorf("%w; it offers no socket to work through: use --admin", err)
	} else if err != nil {
		return err
	}
	api := dialSocket(ctx, path)
	if api == nil {
		return errors.Join(fmt.Errorf("the socket %s cannot be used; a shorter path may do", mcp.SocketPath(path)), e.Stop(ctx))
	}
	err = f(api)
	api.http.CloseIdleConnections()
	return errors.Join(err, e.Stop(context.WithoutCancel(ctx))) // also behind an interrupt
}

// envOf reads what a store is stamped with.
func envOf(ctx context.Context, path string) (string, error) {
	l, err := sqlite.OpenReadOnly(ctx, path)
	if err != nil {
		return "", err
	}
	env, err := l.Env(ctx)
	return env, errors.Join(err, l.Close())
}

// dialSocket is the admin API of a store's holder, nil where nobody listens.
func dialSocket(ctx context.Context, path string) *adminAPI {
	socket := mcp.SocketPath(path)
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil
	}
	_ = c.Close() // it was only to see that somebody listens
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) }
	return &adminAPI{base: &url.URL{Scheme: "http", Host: "localhost"}, name: "the process that holds " + path,
		http: &http.Client{Timeout: adminWait, Transport: &http.Transport{DialContext: dial}}}
}
