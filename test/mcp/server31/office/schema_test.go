package office_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-ai/holdfast/test/mcp/server31/office"
)

// reader reports whether a tool is one of those that show records; their names say so.
func reader(name string) bool {
	_, last, _ := cutLast(name)
	return slices.Contains([]string{"list", "get", "read"}, last)
}

func cutLast(name string) (before, after string, found bool) {
	i := strings.LastIndexByte(name, '_')
	return name[:max(i, 0)], name[i+1:], i >= 0
}

// input is the part of an input schema that clients make arguments from.
type input struct {
	Type       string                     `json:"type"`
	Required   []string                   `json:"required"`
	Properties map[string]json.RawMessage `json:"properties"`
	Additional any                        `json:"additionalProperties"`
}

func schemaOf(t *testing.T, tool *mcp.Tool) input {
	t.Helper()
	b, err := json.Marshal(tool.InputSchema)
	if err != nil {
		t.Fatal(err)
	}
	var in input
	if err := json.Unmarshal(b, &in); err != nil {
		t.Fatal(err)
	}
	return in
}

func required(t *testing.T, tool *mcp.Tool) []string { return schemaOf(t, tool).Required }

func TestThirtyOneToolsWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want, writers := expected(t), 0
		for _, tool := range open(t, office.Options{}).tools() {
			if reader(tool.Name) {
				if !tool.Annotations.ReadOnlyHint {
					t.Errorf("%s does not say that it only reads", tool.Name)
				}
				continue
			}
			writers++
			e, ok := want[tool.Name]
			if !ok {
				t.Errorf("%s is not in expected.json", tool.Name)
			}
			if len(e.Verdicts) == 0 || !strings.HasSuffix(e.Why, ".") {
				t.Errorf("%s: expected.json has no verdict or no reason", tool.Name)
			}
			for _, v := range e.Verdicts {
				if _, ok := differences[v]; !ok && v != "cannot tell" {
					t.Errorf("%s: there is no verdict %q", tool.Name, v)
				}
			}
		}
		if writers != 31 || len(want) != 31 {
			t.Errorf("%d tools write and %d are expected, want 31", writers, len(want))
		}
	})
}

func TestSchemasAreWellKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tool := range open(t, office.Options{}).tools() {
			in := schemaOf(t, tool)
			if in.Type != "object" || in.Additional != false || tool.Description == "" || tool.Title == "" || tool.OutputSchema == nil {
				t.Errorf("%s: type %q, additionalProperties %v, description %q, title %q", tool.Name, in.Type, in.Additional, tool.Description, tool.Title)
			}
			for name, raw := range in.Properties {
				var p struct {
					Type        string `json:"type"`
					Description string `json:"description"`
					Enum        []any  `json:"enum"`
					Examples    []any  `json:"examples"`
				}
				if err := json.Unmarshal(raw, &p); err != nil {
					t.Fatalf("%s: %s: %v", tool.Name, name, err)
				}
				if p.Type == "" || p.Description == "" || len(p.Enum)+len(p.Examples) == 0 {
					t.Errorf("%s: %s lacks a type, a description, or values to try: %s", tool.Name, name, raw)
				}
			}
			for name := range in.Properties {
				if !reader(tool.Name) && !slices.Contains(in.Required, name) {
					t.Errorf("%s: %s is not required", tool.Name, name)
				}
			}
		}
	})
}

// TestArgumentsAreChecked tries what the schemas forbid.
func TestArgumentsAreChecked(t *testing.T) {
	for name, args := range map[string]map[string]any{
		"missing":       {"customer": "Ana Ruiz", "sku": "lamp-led"},
		"of wrong type": {"customer": "Ana Ruiz", "sku": "lamp-led", "quantity": "two"},
		"out of range":  {"customer": "Ana Ruiz", "sku": "lamp-led", "quantity": 0},
		"malformed":     {"customer": "Ana Ruiz", "sku": "Lamp", "quantity": 2},
		"too long":      {"customer": strings.Repeat("a", 81), "sku": "lamp-led", "quantity": 2},
		"unknown":       {"customer": "Ana Ruiz", "sku": "lamp-led", "quantity": 2, "colour": "red"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := open(t, office.Options{})
				before := r.work("order_list", nil)
				if a, err := r.try(t.Context(), "order_create", args); err == nil && !a.Failed {
					t.Errorf("accepted: %s", a.Text)
				}
				if r.work("order_list", nil) != before {
					t.Error("an order was made")
				}
			})
		})
	}
}

// TestStateIsHidden keeps the back door shut to those who are judged.
func TestStateIsHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, office.Options{})
		if _, err := r.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: office.StateURI}); err == nil {
			t.Error("the state can be read")
		}
		res, err := r.ListResources(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range res.Resources {
			if one.URI == office.StateURI {
				t.Error("the state is listed")
			}
		}
	})
}
