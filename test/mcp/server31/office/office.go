// Package office is an MCP server for an office's records, many of whose tools must not be repeated.
package office

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// StateURI is the resource that shows everything, also what no tool shows. It exists for tests of the server itself.
const StateURI = "test://state"

// Options say how an office is served. The zero value is what a client should meet.
type Options struct {
	ShowState bool             // offer StateURI
	Now       func() time.Time // time.Now if nil
}

// Office holds all records in memory. Its methods may be called at once by any number of sessions: what goes wrong
// between two calls does so by design of one tool and never by a data race.
type Office struct {
	server *mcp.Server
	desks  []desk
}

// desk is one domain: its records, its lock and its tools.
type desk interface {
	name() string
	register(*mcp.Server)
	// snapshot returns all records of the desk as JSON has them, hidden ones too.
	snapshot() any
}

// New returns an office with its first records. Two offices share nothing.
func New(opt Options) *Office {
	now := opt.Now
	if now == nil {
		now = time.Now
	}
	mail := &outbox{}
	o := &Office{
		server: mcp.NewServer(&mcp.Implementation{Name: "office", Title: "Back office", Version: "3.1.0"}, &mcp.ServerOptions{
			Instructions: "Records of a small company. Read tools list what the write tools take as identifiers.",
		}),
		desks: []desk{
			newSales(), newBilling(), newMoney(now), newStock(), newSupport(), newContacts(), newCustomers(mail), mail,
			newFiles(), newObjects(now), newDocuments(now), newNotes(), newPlanner(now), newChat(), newOperations(now),
			newZones(), newTelemetry(),
		},
	}
	for _, d := range o.desks {
		d.register(o.server)
	}
	if opt.ShowState {
		o.showState()
	}
	return o
}

// Server returns what transports connect to.
func (o *Office) Server() *mcp.Server { return o.server }

func (o *Office) showState() {
	r := &mcp.Resource{URI: StateURI, Name: "state", MIMEType: "application/json"}
	o.server.AddResource(r, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		all := map[string]any{}
		for _, d := range o.desks {
			all[d.name()] = d.snapshot()
		}
		b, err := json.Marshal(all)
		if err != nil {
			return nil, err
		}
		return document(r.URI, r.MIMEType, string(b)), nil
	})
}

func document(uri, mime, text string) *mcp.ReadResourceResult {
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: mime, Text: text}}}
}

// stamp is how every record writes a time.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// fold is how names are compared that people type.
func fold(s string) string { return strings.ToLower(strings.TrimSpace(s)) }
