// Server31 serves an office's records over MCP, for judging those who say which tools may be repeated.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-ai/holdfast/test/mcp/server31/office"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "server31:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("server31", flag.ContinueOnError)
	addr := flags.String("http", "", "serve streamable HTTP at this `address` under /mcp, instead of stdin and stdout")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	o := office.New(office.Options{ShowState: os.Getenv("SERVER31_STATE") == "1"})
	if *addr != "" {
		return serve(ctx, *addr, o)
	}
	err := o.Server().Run(ctx, &mcp.StdioTransport{})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// serve says on stderr where it listens, so that port 0 can be asked for.
func serve(ctx context.Context, addr string, o *office.Office) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "listening on http://%s/mcp\n", l.Addr())
	s := &http.Server{Handler: handler(o), ReadHeaderTimeout: 10 * time.Second}
	// Streams stay open as long as their clients do: closing waits for none of them.
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler serves one office to all sessions. A client that hangs up cancels what it asked for.
func handler(o *office.Office) http.Handler {
	h := http.NewServeMux()
	h.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return o.Server() },
		&mcp.StreamableHTTPOptions{PropagateRequestCancellation: true}))
	return h
}
