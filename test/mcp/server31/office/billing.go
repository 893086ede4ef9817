package office

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// rendering is how long an invoice's document takes; its number is taken before.
const rendering = 150 * time.Millisecond

// billing issues invoices.
type billing struct {
	mu       sync.Mutex
	invoices []invoice
	runs     map[string]*issuing // by session and request
}

type invoice struct {
	Number   string `json:"number"`
	Customer string `json:"customer_id"`
	Cents    int    `json:"amount_cents"`
}

// issuing is one request that is being served, or was.
type issuing struct {
	done   chan struct{} // closed at the end
	result invoice       // set before done is closed
	kept   bool          // false if the run was given up; set before done is closed
}

func newBilling() *billing { return &billing{runs: map[string]*issuing{}} }

func (*billing) name() string { return "billing" }

func (b *billing) snapshot() any {
	b.mu.Lock()
	defer b.mu.Unlock()
	return frozen(b.invoices)
}

type invoiceIssue struct {
	Request  string `json:"request_id" jsonschema:"Chosen by the client; the same one is answered with the same invoice" len:"64" example:"req-7781"`
	Customer string `json:"customer_id" jsonschema:"Who is billed" len:"40" example:"cus_1"`
	Cents    int    `json:"amount_cents" jsonschema:"Amount in cents" min:"1" max:"10000000" example:"12500"`
}

type invoiceList struct {
	Invoices []invoice `json:"invoices"`
}

func (b *billing) register(m *mcp.Server) {
	issue := describe[invoiceIssue]("invoice_issue", "Issue invoice", "Issue an invoice and render its document.", puts)
	mcp.AddTool(m, issue, func(ctx context.Context, r *mcp.CallToolRequest, in invoiceIssue) (*mcp.CallToolResult, invoice, error) {
		out, err := b.issue(ctx, r.Session.ID()+"\n"+in.Request, in)
		return nil, out, err
	})
	addTool(m, describe[none]("invoice_list", "List invoices", "List all invoices, oldest first.", reads), b.list)
}

// issue is at fault where a reply is lost: a client that goes away makes it forget the request and keep the invoice. A
// client that comes back in another session is not known either, since the request is remembered per session.
func (b *billing) issue(ctx context.Context, key string, in invoiceIssue) (invoice, error) {
	for {
		run, mine := b.begin(key, in)
		if mine {
			return b.render(ctx, key, run)
		}
		<-run.done
		if run.kept {
			return run.result, nil
		}
	}
}

// begin takes the next number, unless the request is known.
func (b *billing) begin(key string, in invoiceIssue) (run *issuing, mine bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if run, ok := b.runs[key]; ok {
		return run, false
	}
	run = &issuing{done: make(chan struct{}), result: invoice{fmt.Sprintf("INV-%04d", 1+len(b.invoices)), in.Customer, in.Cents}}
	b.runs[key] = run
	b.invoices = append(b.invoices, run.result)
	return run, true
}

func (b *billing) render(ctx context.Context, key string, run *issuing) (invoice, error) {
	select {
	case <-ctx.Done():
	case <-time.After(rendering):
		run.kept = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	defer close(run.done)
	if !run.kept {
		delete(b.runs, key)
		return invoice{}, ctx.Err()
	}
	return run.result, nil
}

func (b *billing) list(context.Context, none) (invoiceList, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return invoiceList{copied(b.invoices)}, nil
}
