package office

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	chargeMemory = 200 * time.Millisecond // how long a charge's key is known
	fullCard     = 10                     // stamps
)

// money keeps charges, transfers and loyalty cards.
type money struct {
	mu        sync.Mutex
	now       func() time.Time
	charges   []charge
	recent    map[string]charged
	transfers []transfer
	requests  map[string]transferCreate
	cards     map[string]int
}

type charge struct {
	ID    string `json:"charge_id"`
	Card  string `json:"card"`
	Cents int    `json:"amount_cents"`
}

type charged struct {
	result charge
	at     time.Time
}

type transfer struct {
	ID    string `json:"transfer_id"`
	Key   string `json:"idempotency_key"`
	From  string `json:"from"`
	To    string `json:"to"`
	Cents int    `json:"amount_cents"`
}

func newMoney(now func() time.Time) *money {
	return &money{now: now, recent: map[string]charged{}, requests: map[string]transferCreate{},
		cards: map[string]int{"card_090": 9, "card_100": 0, "card_110": 3}}
}

func (*money) name() string { return "money" }

func (m *money) snapshot() any {
	m.mu.Lock()
	defer m.mu.Unlock()
	return frozen(map[string]any{"charges": m.charges, "transfers": m.transfers, "cards": m.cards})
}

type paymentCharge struct {
	Key   string `json:"idempotency_key" jsonschema:"Chosen by the client; a charge with the same key is made once" len:"64" example:"pay-0c9e"`
	Card  string `json:"card" jsonschema:"Token of the card" pattern:"^tok_[a-z0-9]+$" example:"tok_visa"`
	Cents int    `json:"amount_cents" jsonschema:"Amount in cents" min:"1" max:"10000000" example:"4200"`
}

type transferCreate struct {
	Key   string `json:"idempotency_key" jsonschema:"Chosen by the client; a transfer with the same key is made once" len:"64" example:"trf-88a1"`
	From  string `json:"from" jsonschema:"Account that pays" enum:"operating|payroll|reserve"`
	To    string `json:"to" jsonschema:"Account that is paid" enum:"operating|payroll|reserve"`
	Cents int    `json:"amount_cents" jsonschema:"Amount in cents" min:"1" max:"10000000" example:"50000"`
}

type stampsAdd struct {
	Card   string `json:"card_id" jsonschema:"The card, as loyalty_card_list names it" pattern:"^card_[0-9]+$" example:"card_100"`
	Stamps int    `json:"stamps" jsonschema:"How many to add; a card is full at 10" min:"1" max:"10" example:"1"`
}

type stamped struct {
	Card string `json:"card_id"`
	Full bool   `json:"full"`
}

type chargeList struct {
	Charges []charge `json:"charges"`
}

type transferList struct {
	Transfers []transfer `json:"transfers"`
}

type cardList struct {
	Cards map[string]int `json:"cards" jsonschema:"Stamps by card"`
}

func (m *money) register(s *mcp.Server) {
	addTool(s, describe[paymentCharge]("payment_charge", "Charge card", "Charge a card. Repeating a key returns the first charge.", puts), m.charge)
	addTool(s, describe[transferCreate]("transfer_create", "Transfer", "Move money between two accounts of the company.", adds), m.transfer)
	addTool(s, describe[stampsAdd]("loyalty_add_stamps", "Add stamps", "Add stamps to a customer's loyalty card.", adds), m.addStamps)
	addTool(s, describe[none]("payment_list", "List charges", "List all charges, oldest first.", reads), m.listCharges)
	addTool(s, describe[none]("transfer_list", "List transfers", "List all transfers, oldest first.", reads), m.listTransfers)
	addTool(s, describe[none]("loyalty_card_list", "List cards", "All loyalty cards with their stamps.", reads), m.listCards)
}

// charge is at fault late: it forgets a key sooner than a client waits before it repeats.
func (m *money) charge(_ context.Context, in paymentCharge) (charge, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if have, ok := m.recent[in.Key]; ok && m.now().Sub(have.at) < chargeMemory {
		return have.result, nil
	}
	c := charge{fmt.Sprintf("ch_%03d", 1+len(m.charges)), in.Card, in.Cents}
	m.charges = append(m.charges, c)
	m.recent[in.Key] = charged{c, m.now()}
	return c, nil
}

func (m *money) transfer(_ context.Context, in transferCreate) (transfer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if first, ok := m.requests[in.Key]; ok {
		if first != in {
			return transfer{}, fmt.Errorf("the key %q was used for another transfer; choose a new one", in.Key)
		}
		i := slices.IndexFunc(m.transfers, func(t transfer) bool { return t.Key == in.Key })
		return m.transfers[i], nil
	}
	t := transfer{fmt.Sprintf("tr_%03d", 1+len(m.transfers)), in.Key, in.From, in.To, in.Cents}
	m.transfers, m.requests[in.Key] = append(m.transfers, t), in
	return t, nil
}

// addStamps is at fault, which a card that is nearly full hides.
func (m *money) addStamps(_ context.Context, in stampsAdd) (stamped, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	have, ok := m.cards[in.Card]
	if !ok {
		return stamped{}, unknown("card", in.Card, "loyalty_card_list")
	}
	m.cards[in.Card] = min(have+in.Stamps, fullCard)
	return stamped{in.Card, m.cards[in.Card] == fullCard}, nil
}

func (m *money) listCharges(context.Context, none) (chargeList, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return chargeList{copied(m.charges)}, nil
}

func (m *money) listTransfers(context.Context, none) (transferList, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return transferList{copied(m.transfers)}, nil
}

func (m *money) listCards(context.Context, none) (cardList, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return cardList{maps.Clone(m.cards)}, nil
}
