package postgres

import "testing"

// TestNote: a note is put in the place of what was known to stand there, and of nothing else.
func TestNote(t *testing.T) {
	l := open(t, Config{URL: emptyStore(t)})
	defer l.Close()
	for _, step := range []struct{ was, value, now string }{
		{"", "", ""}, {"x", "y", ""}, {"", "a", "a"}, {"", "b", "a"}, {"x", "b", "a"}, {"a", "b", "b"}, {"", "", "b"},
	} {
		if now, err := l.Note(t.Context(), "n", step.was, step.value); err != nil || now != step.now {
			t.Errorf("%q in the place of %q: %q, %v; want %q", step.value, step.was, now, err, step.now)
		}
	}
}
