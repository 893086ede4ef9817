package office

import (
	"context"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sales keeps orders and shipments.
type sales struct {
	mu        sync.Mutex
	orders    []*order
	shipments map[string]shipment
}

type order struct {
	ID       string `json:"order_id"`
	Customer string `json:"customer"`
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
	Status   string `json:"status"`
}

type shipment struct {
	ID      string `json:"shipment_id"`
	Order   string `json:"order_id"`
	Carrier string `json:"carrier"`
	Status  string `json:"status"`
}

func newSales() *sales {
	s := &sales{shipments: map[string]shipment{}}
	for _, o := range []order{{Customer: "Ana Ruiz", SKU: "desk-oak", Quantity: 1}, {Customer: "Bo Lind", SKU: "lamp-led", Quantity: 4}} {
		s.add(o)
	}
	return s
}

// add gives the order its number. The caller holds the lock.
func (s *sales) add(o order) order {
	o.ID, o.Status = fmt.Sprintf("ord_%d", 1001+len(s.orders)), "open"
	s.orders = append(s.orders, &o)
	return o
}

func (*sales) name() string { return "sales" }

func (s *sales) snapshot() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return frozen(map[string]any{"orders": s.orders, "shipments": s.shipments})
}

type orderCreate struct {
	Customer string `json:"customer" jsonschema:"Name of the customer" len:"80" example:"Ana Ruiz"`
	SKU      string `json:"sku" jsonschema:"What is ordered" pattern:"^[a-z]+-[a-z0-9]+$" example:"lamp-led"`
	Quantity int    `json:"quantity" jsonschema:"How many" min:"1" max:"1000" example:"2"`
}

type orderCancel struct {
	Order string `json:"order_id" jsonschema:"The order, as order_list names it" pattern:"^ord_[0-9]+$" example:"ord_1001"`
}

type shipmentCreate struct {
	ID      string `json:"shipment_id" jsonschema:"Identifier chosen by the client, such as a UUID" len:"64" example:"shp-5f21"`
	Order   string `json:"order_id" jsonschema:"The order that is shipped" pattern:"^ord_[0-9]+$" example:"ord_1002"`
	Carrier string `json:"carrier" jsonschema:"Who carries it" enum:"dhl|ups|post"`
}

type orderList struct {
	Orders []order `json:"orders"`
}

type shipmentList struct {
	Shipments map[string]shipment `json:"shipments"`
}

func (s *sales) register(m *mcp.Server) {
	addTool(m, describe[orderCreate]("order_create", "Create order", "Create an order and return it with its number.", adds), s.create)
	addTool(m, describe[orderCancel]("order_cancel", "Cancel order", "Cancel an order that has not been shipped.", unclaimed), s.cancel)
	addTool(m, describe[shipmentCreate]("shipment_create", "Create shipment", "Create a shipment under an identifier that the client chooses.", adds), s.ship)
	addTool(m, describe[none]("order_list", "List orders", "List all orders, oldest first.", reads), s.list)
	addTool(m, describe[none]("shipment_list", "List shipments", "All shipments by identifier.", reads), s.listShipments)
}

// create is at fault: nothing in its arguments tells a repeat from a second order.
func (s *sales) create(_ context.Context, in orderCreate) (order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(order{Customer: in.Customer, SKU: in.SKU, Quantity: in.Quantity}), nil
}

func (s *sales) cancel(_ context.Context, in orderCancel) (order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		if o.ID == in.Order {
			o.Status = "cancelled"
			return *o, nil
		}
	}
	return order{}, unknown("order", in.Order, "order_list")
}

func (s *sales) ship(_ context.Context, in shipmentCreate) (shipment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := shipment{ID: in.ID, Order: in.Order, Carrier: in.Carrier, Status: "announced"}
	if have, ok := s.shipments[in.ID]; ok && have != want {
		return shipment{}, fmt.Errorf("shipment %q exists with other details; choose another identifier", in.ID)
	}
	s.shipments[in.ID] = want
	return want, nil
}

func (s *sales) list(context.Context, none) (orderList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := orderList{Orders: []order{}}
	for _, o := range s.orders {
		out.Orders = append(out.Orders, *o)
	}
	return out, nil
}

func (s *sales) listShipments(context.Context, none) (shipmentList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := shipmentList{Shipments: map[string]shipment{}}
	for id, one := range s.shipments {
		out.Shipments[id] = one
	}
	return out, nil
}
