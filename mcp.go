package holdfast

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-ai/holdfast/internal/admin"
	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/internal/mcp"
	"github.com/holdfast-ai/holdfast/internal/policy"
)

// mcpService is the MCP proxy of an engine, and the socket beside its store over which further proxies attach.
type mcpService struct {
	proxy   *mcp.Proxy
	handler http.Handler
	socket  *mcp.Socket
	stderr  io.Writer
	once    sync.Once
}

type mcpCallerKey struct{}

func (e *Engine) startMCP(ctx context.Context, api *admin.API) error {
	var err error
	path, file := "", ""
	if !e.many() {
		path = mcp.SocketPath(e.config().Store[0].Path())
	}
	if e.embedded && path != "" { // no port is there to settle a call through
		if file, err = filepath.Abs(strings.TrimSuffix(path, ".sock")); err != nil {
			return err
		}
	}
	e.mcp.proxy, err = mcp.New(ctx, mcp.Config{Policy: e.config(), Store: file, Passing: e.passing, Ledger: e.ledger, Log: e.log, Observer: e.meter, Memory: e.gateway.Memory(), Logger: e.logger, Stderr: e.mcp.stderr})
	if err != nil {
		return err
	}
	e.mcp.handler = e.mcp.proxy.Handler(func(r *http.Request) (mcp.Caller, error) {
		who, _ := r.Context().Value(mcpCallerKey{}).(gateway.MCPCaller)
		return mcp.Caller{Tenant: who.Tenant, Owner: who.Owner, Authorization: who.Authorization}, nil
	})
	if path == "" { // on a store that replicas share, a further proxy is a further engine
		return nil
	}
	// Only this user reaches the socket: what auth asks of the network is not asked there.
	open := gateway.NewGuard(policy.Auth{})
	operators := api.Operators(func() *gateway.Guard { return open }, func() gateway.Readiness { return e.gateway.Readiness() }, e.meter.Handler())
	if e.mcp.socket, err = mcp.Listen(path, e.mcp.proxy, operators); err != nil {
		e.logger.Info("no command can work through this engine: its socket cannot be opened", "socket", path, "error", err)
	}
	return nil
}

func (e *Engine) serveMCP(w http.ResponseWriter, r *http.Request, who gateway.MCPCaller) {
	e.mcp.handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), mcpCallerKey{}, who)))
}

// close ends what was started; calls on their way are waited for until ctx ends.
func (m *mcpService) close(ctx context.Context) {
	m.once.Do(func() {
		if m.socket != nil {
			m.socket.Stop()
		}
		if m.proxy != nil {
			m.proxy.Close(ctx)
		}
		if m.socket != nil {
			m.socket.Close()
		}
	})
}

// ServeMCP serves one MCP client that speaks over in and out, as a child process of an MCP client does with its standard input
// and output, until in ends or ctx does. server is a name from mcp.servers, or that of a command given to AddMCP.
func (e *Engine) ServeMCP(ctx context.Context, server string, in io.Reader, out io.Writer) error {
	if e.mcp.proxy == nil {
		return errors.New("the engine is not running")
	}
	return e.mcp.proxy.ServeStdio(ctx, server, in, out)
}

// HasMCP says whether the configuration has an MCP server of that name.
func (e *Engine) HasMCP(server string) bool {
	return slices.ContainsFunc(e.config().MCP.Servers, func(s policy.MCPServer) bool { return s.Name == server })
}

// AddMCP makes a command known as an MCP server that no configuration names.
func (e *Engine) AddMCP(ctx context.Context, server string, command ...string) error {
	if e.mcp.proxy == nil {
		return errors.New("the engine is not running")
	}
	return e.mcp.proxy.Add(ctx, server, mcp.Command{Args: command})
}
