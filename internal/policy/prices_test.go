package policy

import "testing"

// A price is the one written for the name, or for the name without its date; what is left out comes from the list, and what
// nobody knows is not guessed.
func TestPrice(t *testing.T) {
	c, faults := Parse("x.yaml", []byte(`models: {gpt-5: {input_cost: 2}, mine: {input_cost: 0, output_cost: 0}, half: {input_cost: 1}, "gpt-5-mini-2026-01-01": {input_cost: 7, output_cost: 8}}`), noEnv)
	if c == nil {
		t.Fatal(faults)
	}
	for _, w := range []struct {
		model   string
		in, out float64
		known   bool
	}{{"gpt-5", 2, 10, true}, {"gpt-5-2026-08-07", 2, 10, true}, {"mine", 0, 0, true}, {"half", 0, 0, false}, {"gpt-5-mini", 0.25, 2, true},
		{"gpt-5-mini-2026-01-01", 7, 8, true}, {"claude-haiku-4-5-20251001", 1, 5, true}, {"gpt-5-turbo", 0, 0, false}, {"", 0, 0, false},
		{"claude-haiku-4-5@20251001", 1, 5, true}} {
		if in, out, known := c.Price(w.model); in != w.in || out != w.out || known != w.known {
			t.Errorf("%q: %v, %v, %v", w.model, in, out, known)
		}
	}
}
