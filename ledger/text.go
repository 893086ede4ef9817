package ledger

import "fmt"

// The words of the wire and of the store's views (interface.md §3); an index is the constant's value.
var (
	stateNames      = []string{"", "intent_created", "dispatched", "unknown", "confirmed", "settled"}
	outcomeNames    = []string{"", "pending", "success", "failed", "unknown", "discarded"}
	endNames        = []string{"running", "success", "failed", "unknown", "not_sent"}
	visibilityNames = []string{"", "background_only", "before_first_token", "partial_output", "complete"}
	deliveryNames   = []string{"open", "lost", "sent", "assumed"}
	effectNames     = []string{"", "read", "generation", "external"}
)

func name(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("invalid(%d)", i)
}

func parse[T ~uint8](names []string, what string, text []byte, to *T) error {
	for i, n := range names {
		if n == string(text) {
			*to = T(i)
			return nil
		}
	}
	return fmt.Errorf("ledger: %q is no %s", text, what)
}

func (s State) String() string      { return name(stateNames, uint8(s)) }
func (o Outcome) String() string    { return name(outcomeNames, uint8(o)) }
func (e AttemptEnd) String() string { return name(endNames, uint8(e)) }
func (v Visibility) String() string { return name(visibilityNames, uint8(v)) }
func (d Delivery) String() string   { return name(deliveryNames, uint8(d)) }
func (e Effect) String() string     { return name(effectNames, uint8(e)) }

func (s State) MarshalText() ([]byte, error)      { return []byte(s.String()), nil }
func (o Outcome) MarshalText() ([]byte, error)    { return []byte(o.String()), nil }
func (e AttemptEnd) MarshalText() ([]byte, error) { return []byte(e.String()), nil }
func (v Visibility) MarshalText() ([]byte, error) { return []byte(v.String()), nil }
func (d Delivery) MarshalText() ([]byte, error)   { return []byte(d.String()), nil }
func (e Effect) MarshalText() ([]byte, error)     { return []byte(e.String()), nil }

func (s *State) UnmarshalText(b []byte) error      { return parse(stateNames, "state", b, s) }
func (o *Outcome) UnmarshalText(b []byte) error    { return parse(outcomeNames, "outcome", b, o) }
func (e *AttemptEnd) UnmarshalText(b []byte) error { return parse(endNames, "attempt end", b, e) }
func (v *Visibility) UnmarshalText(b []byte) error { return parse(visibilityNames, "visibility", b, v) }
func (d *Delivery) UnmarshalText(b []byte) error   { return parse(deliveryNames, "delivery", b, d) }
func (e *Effect) UnmarshalText(b []byte) error     { return parse(effectNames, "effect", b, e) }
