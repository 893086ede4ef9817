package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// drawer is a far side whose faults show in one way of repeating only.
type drawer struct {
	mu    sync.Mutex
	files map[string]string
	bills []args
	known map[string]bool
	paid  map[string]time.Time
	rows  []args
}

func (d *drawer) serve() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "drawer", Version: "1"}, nil)
	tool := func(name, schema string, reads bool, do func(context.Context, args) (any, error)) {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(schema), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: reads}},
			func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				a := args{}
				if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
					return nil, err
				}
				d.mu.Lock()
				defer d.mu.Unlock()
				return result(do(ctx, a)), nil
			})
	}
	list := func(name string, read func() any) {
		tool(name, schemaText(""), true, func(context.Context, args) (any, error) { return read(), nil })
	}
	list("list_files", func() any { return args{"files": maps.Clone(d.files)} })
	list("list_bills", func() any { return args{"bills": append([]args{}, d.bills...)} })
	list("list_rows", func() any { return args{"rows": append([]args{}, d.rows...)} })
	tool("save_file", schemaText("path:string* text:string*"), false, d.save)
	tool("issue_bill", schemaText("request_id:string* total:integer*"), false, d.bill)
	tool("pay_row", schemaText("request_id:string* total:integer*"), false, d.pay)
	tool("make_folder", `{"type":"object","required":["path"],"properties":{"path":{"type":"string","pattern":"^(/[a-z0-9._-]+)+$","examples":["/reports"]}}}`, false, d.folder)
	return server
}

func (d *drawer) unlocked(f func()) {
	d.mu.Unlock()
	defer d.mu.Lock()
	f()
}

// save loses the file when two write it at once: both go over one temporary file.
func (d *drawer) save(_ context.Context, a args) (any, error) {
	path := a["path"].(string)
	d.files[path+"~"] = a["text"].(string)
	d.unlocked(func() { time.Sleep(40 * time.Millisecond) })
	delete(d.files, path)
	if text, ok := d.files[path+"~"]; ok {
		d.files[path] = text
		delete(d.files, path+"~")
	}
	return "saved", nil
}

// bill forgets a request whose client has gone, and keeps what it has done for it.
func (d *drawer) bill(ctx context.Context, a args) (any, error) {
	id := a["request_id"].(string)
	if !d.known[id] {
		d.known[id] = true
		d.bills = append(d.bills, args{"bill_no": fmt.Sprint("B-", len(d.bills)+1), "total": a["total"]})
		var err error
		d.unlocked(func() {
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-time.After(150 * time.Millisecond):
			}
		})
		if err != nil {
			delete(d.known, id)
			return nil, err
		}
	}
	return "issued", nil
}

// pay knows a request for four seconds.
func (d *drawer) pay(_ context.Context, a args) (any, error) {
	id := a["request_id"].(string)
	if at, ok := d.paid[id]; !ok || time.Since(at) > 4*time.Second {
		d.paid[id] = time.Now()
		d.rows = append(d.rows, args{"row_id": fmt.Sprint("R-", len(d.rows)+1), "total": a["total"]})
	}
	return "paid", nil
}

// folder offers one example, which is used up by the first call.
func (d *drawer) folder(_ context.Context, a args) (any, error) {
	path := a["path"].(string)
	if _, ok := d.files[path]; ok {
		return nil, errors.New("there is one already")
	}
	d.files[path] = "folder"
	return "made", nil
}

func TestHiddenFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &drawer{files: map[string]string{"/old.txt": "old"}, known: map[string]bool{}, paid: map[string]time.Time{}}
		r := auditOf(t, d.serve())
		for name, want := range map[string]Verdict{"save_file": LostWrite, "issue_bill": DuplicateEffect, "pay_row": DuplicateEffect, "make_folder": ErrorOnRepeat} {
			if got, _ := r.find(name); got.Verdict != want {
				t.Errorf("%s: %s, want %s (%s)\n%s", name, got.Verdict, want, got.Says, probes(got))
			}
		}
	})
}

func TestSafeNeedsALateRepeat(t *testing.T) {
	soon := Finding{Probe: InSequence, Verdict: Safe}
	for name, c := range map[string]struct {
		findings []Finding
		want     Verdict
	}{
		"none":    {[]Finding{soon}, CannotTell},
		"unclear": {[]Finding{soon, {Probe: LateRepeat, Verdict: CannotTell, Says: "why"}}, CannotTell},
		"late":    {[]Finding{soon, {Probe: LateRepeat, Verdict: Safe}}, Safe},
		"bad":     {[]Finding{{Probe: InSequence, Verdict: DuplicateEffect}}, DuplicateEffect},
	} {
		s := subject{t: newTool(&mcp.Tool{Name: "put_x"}, nil), findings: c.findings}
		if got := s.conclude(); got.Verdict != c.want {
			t.Errorf("%s: %s, want %s (%s)", name, got.Verdict, c.want, got.Says)
		}
	}
}

// TestOneToolHasItsLimit has a tool that takes for ever; the next one is judged all the same.
func TestOneToolHasItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := (&drawer{files: map[string]string{}, known: map[string]bool{}, paid: map[string]time.Time{}}).serve()
		server.AddTool(&mcp.Tool{Name: "add_nothing", InputSchema: json.RawMessage(schemaText("text:string*"))},
			func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
		r, err := Run(t.Context(), Config{AllowWrites: true, Tools: []string{"add_nothing", "make_folder"}, Limit: 45 * time.Second, connect: inside(t, server)})
		if err != nil {
			t.Fatal(err)
		}
		stuck, _ := r.find("add_nothing")
		if next, _ := r.find("make_folder"); stuck.Verdict != CannotTell || next.Verdict != ErrorOnRepeat {
			t.Errorf("%s (%s), then %s (%s)", stuck.Verdict, stuck.Says, next.Verdict, next.Says)
		}
	})
}
