package office

import (
	"context"
	"maps"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// stock counts what is on the shelves.
type stock struct {
	mu       sync.Mutex
	quantity map[string]int
}

func newStock() *stock {
	return &stock{quantity: map[string]int{"desk-oak": 7, "lamp-led": 40, "chair-ash": 12}}
}

func (*stock) name() string { return "stock" }

func (s *stock) snapshot() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return frozen(s.quantity)
}

type quantitySet struct {
	SKU      string `json:"sku" jsonschema:"The article, as inventory_list names it" pattern:"^[a-z]+-[a-z0-9]+$" example:"chair-ash"`
	Quantity int    `json:"quantity" jsonschema:"How many are in stock" min:"0" max:"100000" example:"25"`
}

type inventoryList struct {
	Items map[string]int `json:"items" jsonschema:"Quantity by article"`
}

func (s *stock) register(m *mcp.Server) {
	addTool(m, describe[quantitySet]("inventory_set_quantity", "Set stock", "Set the quantity of an article in stock.", puts), s.set)
	addTool(m, describe[none]("inventory_list", "List stock", "All articles with their quantity.", reads), s.list)
}

// set is at fault: it adds what it says it sets.
func (s *stock) set(_ context.Context, in quantitySet) (quantitySet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.quantity[in.SKU]; !ok {
		return quantitySet{}, unknown("article", in.SKU, "inventory_list")
	}
	s.quantity[in.SKU] += in.Quantity
	return in, nil
}

func (s *stock) list(context.Context, none) (inventoryList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return inventoryList{maps.Clone(s.quantity)}, nil
}
