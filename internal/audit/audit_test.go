package audit

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// inside connects to a server in the test's own bubble.
func inside(t *testing.T, s *mcp.Server) func() mcp.Transport {
	return func() mcp.Transport {
		client, server := mcp.NewInMemoryTransports()
		session, err := s.Connect(t.Context(), server, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Close() })
		return client
	}
}

func auditShop(t *testing.T, tools ...string) *Report {
	t.Helper()
	return auditOf(t, newShop().serve(), tools...)
}

func auditOf(t *testing.T, s *mcp.Server, tools ...string) *Report {
	t.Helper()
	c := Config{AllowWrites: true, Tools: tools, connect: inside(t, s)}
	if testing.Verbose() {
		c.Progress = os.Stderr
	}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := auditShop(t)
		for _, want := range shopTools() {
			i := slices.IndexFunc(r.Tools, func(g ToolReport) bool { return g.Name == want.name })
			if i < 0 {
				t.Errorf("%s was not audited", want.name)
				continue
			}
			if got := r.Tools[i]; got.Verdict != want.want {
				t.Errorf("%s: %s, want %s (%s)\n%s", want.name, got.Verdict, want.want, got.Says, probes(got))
			}
		}
		if len(r.Tools) != len(shopTools()) {
			t.Errorf("%d tools audited, of %d", len(r.Tools), len(shopTools()))
		}
	})
}

// TestVerdictsAlone audits tools by themselves: what they refer to has to be made, or found, first.
func TestVerdictsAlone(t *testing.T) {
	alone := []string{"assign_ticket", "delete_ticket", "remove_contact", "increment_counter", "toggle_flag", "escalate_ticket", "watch_topic"}
	for _, want := range shopTools() {
		if !slices.Contains(alone, want.name) {
			continue
		}
		t.Run(want.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := auditShop(t, want.name).Tools[0]
				if got.Verdict != want.want {
					t.Errorf("%s, want %s (%s)\n%s", got.Verdict, want.want, got.Says, probes(got))
				}
			})
		})
	}
}

func probes(r ToolReport) string {
	var b strings.Builder
	for _, f := range r.Findings {
		b.WriteString("  " + f.Probe + ": " + string(f.Verdict) + ": " + f.Says + "\n      " + text(f.Args) + "\n")
		for _, e := range f.Evidence {
			b.WriteString("      " + e + "\n")
		}
	}
	return b.String()
}

// TestBR084HintsAreClaims has tools that say idempotentHint: true, most of them wrongly.
func TestBR084HintsAreClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := auditShop(t, "toggle_flag", "create_ticket", "set_setting")
		for _, got := range r.Tools {
			wrong := slices.Contains(got.Notes, "idempotentHint: true is wrong")
			if want := got.Name != "set_setting"; wrong != want || got.Verdict.Bad() != want {
				t.Errorf("%s: %s, notes %q", got.Name, got.Verdict, got.Notes)
			}
		}
		if !slices.ContainsFunc(r.Left, func(l string) bool { return strings.Contains(l, "list_tickets") && strings.Contains(l, "added") }) {
			t.Errorf("the tickets that it made are not in what it left: %q", r.Left)
		}
	})
}
