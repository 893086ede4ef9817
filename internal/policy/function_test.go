package policy

import (
	"testing"
	"time"
)

func TestForFunction(t *testing.T) {
	c, faults := Parse("t.yaml", []byte(`
workflows:
  plain: {}
  written: {durability: relaxed, idempotency: {derive: "off", ttl: 7m, window: 1m}}
  words: {effect: generation}
`), func(string) (string, bool) { return "", false })
	if c == nil {
		t.Fatal(faults)
	}
	plain := c.ForFunction("plain")
	if plain.Effect != External || plain.UnknownRule(false) != HoldUnknown || plain.Durability != Strict ||
		plain.Idempotency.Derive != DeriveAlways || plain.Idempotency.TTL != 24*time.Hour {
		t.Errorf("what was not written is not that of an external call: %+v", plain)
	}
	if c.Workflow("plain").Effect != ByPath {
		t.Error("the workflow itself was changed")
	}
	w := c.ForFunction("written")
	if w.Effect != External || w.Durability != Relaxed || w.Idempotency.Derive != DeriveOff ||
		w.Idempotency.TTL != 7*time.Minute || w.Idempotency.Window != time.Minute {
		t.Errorf("what was written was lost: %+v", w)
	}
	if g := c.ForFunction("words"); g.Effect != Generation || g.Durability != Relaxed {
		t.Errorf("a generation stays one: %+v", g)
	}
	if c.ForFunction("").Name != DefaultWorkflow || c.ForFunction("absent") != nil {
		t.Error("names")
	}
}
