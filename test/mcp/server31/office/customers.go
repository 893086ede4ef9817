package office

import (
	"context"
	"maps"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// customers keeps who buys, and who reads the newsletters.
type customers struct {
	mu          sync.Mutex
	mail        *outbox
	byID        map[string]customer
	subscribers map[string]map[string]bool // by list and folded address
}

type customer struct {
	ID    string `json:"customer_id" jsonschema:"Identifier chosen by the client" len:"40" example:"cus_77"`
	Name  string `json:"name" jsonschema:"Full name" len:"80" example:"Eva Holm"`
	Email string `json:"email" jsonschema:"Address" format:"email" len:"120" example:"eva@holm.example"`
	Tier  string `json:"tier" jsonschema:"What was agreed" enum:"basic|plus|partner"`
}

func newCustomers(mail *outbox) *customers {
	return &customers{
		mail:        mail,
		byID:        map[string]customer{"cus_1": {"cus_1", "Ana Ruiz", "ana@ruiz.example", "plus"}, "cus_2": {"cus_2", "Bo Lind", "bo@lind.example", "basic"}},
		subscribers: map[string]map[string]bool{"offers": {"bo@lind.example": true}, "product": {}},
	}
}

func (*customers) name() string { return "customers" }

func (c *customers) snapshot() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return frozen(map[string]any{"customers": c.byID, "subscribers": c.subscribers})
}

type subscribe struct {
	Email string `json:"email" jsonschema:"Address of the reader" format:"email" len:"120" example:"finn@mail.example"`
	List  string `json:"list" jsonschema:"Which newsletter" enum:"offers|product"`
}

type subscriberQuery struct {
	List string `json:"list" jsonschema:"Which newsletter" enum:"offers|product"`
}

type customerList struct {
	Customers map[string]customer `json:"customers" jsonschema:"By identifier"`
}

type subscriberList struct {
	Subscribers map[string]bool `json:"subscribers" jsonschema:"By address; true if active"`
}

func (c *customers) register(m *mcp.Server) {
	addTool(m, describe[customer]("customer_upsert", "Save customer", "Create or replace the customer with this identifier.", puts), c.upsert)
	addTool(m, describe[subscribe]("newsletter_subscribe", "Subscribe", "Subscribe a reader to a newsletter and welcome them.", puts), c.subscribe)
	addTool(m, describe[none]("customer_list", "List customers", "All customers by identifier.", reads), c.list)
	addTool(m, describe[subscriberQuery]("newsletter_subscriber_list", "List subscribers", "The readers of a newsletter.", reads), c.listSubscribers)
}

func (c *customers) upsert(_ context.Context, in customer) (customer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byID[in.ID] = in
	return in, nil
}

// subscribe is at fault in part: the row is written once, the welcome is sent each time.
func (c *customers) subscribe(_ context.Context, in subscribe) (subscribe, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers[in.List][fold(in.Email)] = true
	c.mail.send(in.Email, "Welcome to "+in.List)
	return in, nil
}

func (c *customers) list(context.Context, none) (customerList, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return customerList{maps.Clone(c.byID)}, nil
}

func (c *customers) listSubscribers(_ context.Context, in subscriberQuery) (subscriberList, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return subscriberList{maps.Clone(c.subscribers[in.List])}, nil
}

// outbox keeps the mail that was sent, for others to fill.
type outbox struct {
	mu   sync.Mutex
	sent []letter
}

type letter struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

type outboxList struct {
	Sent []letter `json:"sent"`
}

func (*outbox) name() string { return "outbox" }

func (b *outbox) snapshot() any {
	b.mu.Lock()
	defer b.mu.Unlock()
	return frozen(b.sent)
}

func (b *outbox) register(m *mcp.Server) {
	addTool(m, describe[none]("outbox_list", "List sent mail", "The mail that was sent, oldest first.", reads), b.list)
}

func (b *outbox) send(to, subject string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = append(b.sent, letter{to, subject})
}

func (b *outbox) list(context.Context, none) (outboxList, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return outboxList{copied(b.sent)}, nil
}
