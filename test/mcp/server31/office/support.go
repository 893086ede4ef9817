package office

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ticketPage is how many tickets a page of the list has: fewer than there are from the start.
const ticketPage = 10

// support keeps tickets.
type support struct {
	mu      sync.Mutex
	tickets []*ticket
}

type ticket struct {
	ID       string   `json:"ticket_id"`
	Subject  string   `json:"subject"`
	Priority string   `json:"priority"`
	Tags     []string `json:"tags"`
}

func newSupport() *support {
	s := &support{}
	for _, subject := range []string{
		"Invoice without VAT number", "Lamp flickers", "Desk arrived scratched", "Cannot log in", "Change of address",
		"Refund for ord_0990", "Chair squeaks", "Wrong colour", "Missing screws", "Delivery on Saturday", "Newsletter twice", "Voucher expired",
	} {
		s.add(ticketOpen{subject, "normal"})
	}
	return s
}

func (s *support) add(in ticketOpen) *ticket {
	t := &ticket{fmt.Sprintf("T-%d", 501+len(s.tickets)), in.Subject, in.Priority, []string{}}
	s.tickets = append(s.tickets, t)
	return t
}

func (*support) name() string { return "support" }

func (s *support) snapshot() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return frozen(s.tickets)
}

type ticketOpen struct {
	Subject  string `json:"subject" jsonschema:"One line that says what is wrong" len:"120" example:"Printer on floor 2 is out of toner"`
	Priority string `json:"priority" jsonschema:"How urgent it is" enum:"low|normal|high"`
}

type ticketTag struct {
	ID   string   `json:"ticket_id" jsonschema:"The ticket" pattern:"^T-[0-9]+$" example:"T-503"`
	Tags []string `json:"tags" jsonschema:"Tags to add to those it has" len:"10" example:"damage"`
}

type ticketPaging struct {
	Cursor string `json:"cursor,omitempty" jsonschema:"next_cursor of the page before" example:"10"`
}

type ticketGet struct {
	ID string `json:"ticket_id" jsonschema:"The ticket" pattern:"^T-[0-9]+$" example:"T-503"`
}

type ticketList struct {
	Tickets []ticket `json:"tickets"`
	Next    string   `json:"next_cursor,omitempty" jsonschema:"Present if there are more"`
}

func (s *support) register(m *mcp.Server) {
	addTool(m, describe[ticketOpen]("ticket_open", "Open ticket", "Open a support ticket and return it.", adds), s.open)
	addTool(m, describe[ticketTag]("ticket_tag", "Tag ticket", "Add tags to a ticket. Tags that it has already stay.", puts), s.tag)
	addTool(m, describe[ticketPaging]("ticket_list", "List tickets", "List tickets, oldest first, ten to a page.", reads), s.list)
	addTool(m, describe[ticketGet]("ticket_get", "Get ticket", "Return one ticket.", reads), s.get)
}

// open is at fault, and the first page of the list does not show it.
func (s *support) open(_ context.Context, in ticketOpen) (ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.add(in), nil
}

func (s *support) find(id string) (*ticket, error) {
	i := slices.IndexFunc(s.tickets, func(t *ticket) bool { return t.ID == id })
	if i < 0 {
		return nil, unknown("ticket", id, "ticket_list")
	}
	return s.tickets[i], nil
}

func (s *support) tag(_ context.Context, in ticketTag) (ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.find(in.ID)
	if err != nil {
		return ticket{}, err
	}
	// A new slice each time: answers that are still being written hold the one before.
	tags := append(slices.Clone(t.Tags), in.Tags...)
	slices.Sort(tags)
	t.Tags = slices.Compact(tags)
	return *t, nil
}

func (s *support) list(_ context.Context, in ticketPaging) (ticketList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := 0
	if in.Cursor != "" {
		n, err := strconv.Atoi(in.Cursor)
		if err != nil || n < 0 || n > len(s.tickets) {
			return ticketList{}, fmt.Errorf("no page at cursor %q; take next_cursor of an earlier page", in.Cursor)
		}
		from = n
	}
	to := min(from+ticketPage, len(s.tickets))
	out := ticketList{Tickets: []ticket{}}
	for _, t := range s.tickets[from:to] {
		out.Tickets = append(out.Tickets, *t)
	}
	if to < len(s.tickets) {
		out.Next = strconv.Itoa(to)
	}
	return out, nil
}

func (s *support) get(_ context.Context, in ticketGet) (ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.find(in.ID)
	if err != nil {
		return ticket{}, err
	}
	return *t, nil
}
