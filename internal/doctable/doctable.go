// Package doctable holds a table in the documentation to the code that it describes.
package doctable

import (
	"bytes"
	"os"
	"slices"
	"testing"
)

// Check fails unless what stands in page between the lines begin and end is table; with update it writes it there. command
// is what brings the page up to date.
func Check(t *testing.T, page, begin, end, table string, update bool, command string) {
	t.Helper()
	doc, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := bytes.Cut(doc, []byte(begin))
	shown, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("%s has no table between %q and %q", page, begin, end)
	}
	if update {
		if err := os.WriteFile(page, slices.Concat(head, []byte(begin), []byte(table), []byte(end), tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(shown) != table {
		t.Errorf("%s shows\n%s\nand the code has\n%s\nrun %s", page, shown, table, command)
	}
}
