package office_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-ai/holdfast/test/mcp/server31/office"
)

// expectation is what testdata/expected.json says of a write tool.
type expectation struct {
	Verdicts  []string       `json:"verdicts"`
	Shows     []string       `json:"shows"`
	Arguments map[string]any `json:"arguments"`
	Other     map[string]any `json:"other_arguments"`
	Observe   *source        `json:"observe"`
	Why       string         `json:"why"`
}

// source is a tool or resource that shows records.
type source struct {
	Tool      string         `json:"tool"`
	Resource  string         `json:"resource"`
	Arguments map[string]any `json:"arguments"`
}

func expected(t *testing.T) map[string]expectation {
	t.Helper()
	b, err := os.ReadFile("../testdata/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]expectation{}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

// rig is a client of an office of its own.
type rig struct {
	t *testing.T
	*mcp.ClientSession
}

func open(t *testing.T, opt office.Options) *rig {
	t.Helper()
	near, far := mcp.NewInMemoryTransports()
	server, err := office.New(opt).Server().Connect(t.Context(), far, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), near, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		server.Wait()
	})
	return &rig{t, client}
}

func openAll(t *testing.T) *rig { return open(t, office.Options{ShowState: true}) }

// answer is what a call returns, in a form that can be compared.
type answer struct {
	Text   string
	Failed bool // isError
}

func (r *rig) call(tool string, args map[string]any) answer {
	r.t.Helper()
	a, err := r.try(r.t.Context(), tool, args)
	if err != nil {
		r.t.Fatalf("%s: %v", tool, err)
	}
	return a
}

func (r *rig) try(ctx context.Context, tool string, args map[string]any) (answer, error) {
	if args == nil {
		args = map[string]any{}
	}
	res, err := r.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return answer{}, err
	}
	return answer{res.Content[0].(*mcp.TextContent).Text, res.IsError}, nil
}

// work calls a tool that must not fail.
func (r *rig) work(tool string, args map[string]any) string {
	r.t.Helper()
	a := r.call(tool, args)
	if a.Failed {
		r.t.Fatalf("%s: %s", tool, a.Text)
	}
	return a.Text
}

func (r *rig) resource(uri string) string {
	r.t.Helper()
	res, err := r.ReadResource(r.t.Context(), &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		r.t.Fatalf("%s: %v", uri, err)
	}
	return res.Contents[0].Text
}

func (r *rig) look(s *source) string {
	r.t.Helper()
	if s.Resource != "" {
		return r.resource(s.Resource)
	}
	return r.work(s.Tool, s.Arguments)
}

// state returns all records once every delayed effect is there.
func (r *rig) state() string {
	r.t.Helper()
	time.Sleep(time.Second)
	return r.resource(office.StateURI)
}

func (r *rig) tools() []*mcp.Tool {
	r.t.Helper()
	res, err := r.ListTools(r.t.Context(), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if res.NextCursor != "" {
		r.t.Fatal("the tools have more than one page")
	}
	return res.Tools
}
