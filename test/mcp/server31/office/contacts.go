package office

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// contacts is the address book of the sales people, newest entry first.
type contacts struct {
	mu   sync.Mutex
	rows []*contact
	slot map[string]int // by folded address: where upsert looks
	made int
}

type contact struct {
	ID      string `json:"contact_id"`
	Name    string `json:"name"`
	Email   string `json:"email"`
	Company string `json:"company"`
	Deleted bool   `json:"deleted,omitempty"`
}

func newContacts() *contacts {
	c := &contacts{slot: map[string]int{}}
	for _, in := range []contactUpsert{
		{"Ana Ruiz", "ana@ruiz.example", "Ruiz SL"}, {"Bo Lind", "bo@lind.example", "Lind AB"}, {"Cem Ak", "cem@ak.example", "Ak Ltd"},
	} {
		c.insert(in)
	}
	return c
}

// insert puts the row first and notes the place that it would have at the end.
func (c *contacts) insert(in contactUpsert) contact {
	c.made++
	row := &contact{ID: fmt.Sprintf("con_%d", c.made), Name: in.Name, Email: in.Email, Company: in.Company}
	c.slot[fold(in.Email)] = len(c.rows)
	c.rows = slices.Insert(c.rows, 0, row)
	return *row
}

func (*contacts) name() string { return "contacts" }

func (c *contacts) snapshot() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return frozen(c.rows)
}

type contactUpsert struct {
	Name    string `json:"name" jsonschema:"Full name" len:"80" example:"Dana Fox"`
	Email   string `json:"email" jsonschema:"Address; identifies the contact" format:"email" len:"120" example:"dana@fox.example"`
	Company string `json:"company" jsonschema:"Where the contact works" len:"80" example:"Fox GmbH"`
}

type contactDelete struct {
	ID string `json:"contact_id" jsonschema:"The contact, as crm_contact_list names it" pattern:"^con_[0-9]+$" example:"con_2"`
}

type contactDeleted struct {
	ID      string `json:"contact_id"`
	Deleted bool   `json:"deleted"`
}

type contactSaved struct {
	Email string `json:"email"`
	Saved bool   `json:"saved"`
}

type contactList struct {
	Contacts []contact `json:"contacts"`
}

func (c *contacts) register(m *mcp.Server) {
	addTool(m, describe[contactUpsert]("crm_contact_upsert", "Save contact", "Create the contact with this address, or update it.", puts), c.upsert)
	addTool(m, describe[contactDelete]("crm_contact_delete", "Delete contact", "Delete a contact.", puts), c.remove)
	addTool(m, describe[none]("crm_contact_list", "List contacts", "List all contacts, newest first.", reads), c.list)
}

// upsert is at fault: an address that it knows leads to the row at a place that is no longer that row's.
func (c *contacts) upsert(_ context.Context, in contactUpsert) (contactSaved, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.slot[fold(in.Email)]; ok {
		row := c.rows[at]
		row.Name, row.Email, row.Company = in.Name, in.Email, in.Company
	} else {
		c.insert(in)
	}
	return contactSaved{in.Email, true}, nil
}

// remove is at fault: it takes what it deleted itself for a mistake of the caller's.
func (c *contacts) remove(_ context.Context, in contactDelete) (contactDeleted, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, row := range c.rows {
		if row.ID == in.ID && !row.Deleted {
			row.Deleted = true
			return contactDeleted{in.ID, true}, nil
		}
	}
	return contactDeleted{}, unknown("contact", in.ID, "crm_contact_list")
}

func (c *contacts) list(context.Context, none) (contactList, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := contactList{Contacts: []contact{}}
	for _, row := range c.rows {
		if !row.Deleted {
			out.Contacts = append(out.Contacts, *row)
		}
	}
	return out, nil
}
