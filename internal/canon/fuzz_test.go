package canon_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/canon"
)

// FuzzForm holds the canonical form against jsontext: same verdict, same bytes, and a form that is its own form.
func FuzzForm(f *testing.F) {
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := canon.Append(nil, src)
		want, oracleErr := oracle(src)
		for _, bound := range []error{canon.ErrDepth, canon.ErrNumber, canon.ErrTangled} {
			if errors.Is(err, bound) {
				return
			}
		}
		if (err != nil) != (oracleErr != nil) {
			t.Fatalf("%q: %v; the oracle says %v", src, err, oracleErr)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%q:\ngot  %s\nwant %s", src, got, want)
		}
		if again, err := canon.Append(nil, got); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("%s: its form is %s, %v", got, again, err)
		}
	})
}

// FuzzRules looks for panics, and for forms that the same rules would change again.
func FuzzRules(f *testing.F) {
	rule := chat()
	f.Fuzz(func(t *testing.T, src []byte) {
		var e canon.Encoder
		got, err := e.Append(nil, src, rule)
		if err != nil {
			return
		}
		if again, err := e.Append(nil, got, rule); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("%s: its form is %s, %v", got, again, err)
		}
		if _, err := oracle(got); err != nil {
			t.Fatalf("%s: not JSON: %v", got, err)
		}
		for _, name := range []string{"a", "messages", "system"} {
			canon.Lookup(got, name, "content")
		}
	})
}
