package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/ledger"
)

// An intent has one answer, the last: a small one in the result's row leaves none of an earlier change behind, whoever wrote
// that, and when.
func TestOneAnswer(t *testing.T) {
	for name, when := range map[string]struct{ inserted, reopened bool }{
		"with the insertion": {true, false}, "with a change": {false, false}, "by another process": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Path: filepath.Join(t.TempDir(), "holdfast.db")}
			l := mustOpen(t, cfg)
			early := []ledger.Body{{Kind: ledger.BodyAnswer, Data: []byte("early")}}
			d := dispatchedWrite(l, "key")
			c := confirmedWrite(l, d)
			if when.inserted {
				d.Bodies = early
			} else {
				c.Bodies = early
			}
			for _, w := range []*ledger.Write{d, c} {
				if err := ledger.Commit(t.Context(), l, w); err != nil {
					t.Fatal(err)
				}
			}
			if when.reopened {
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				l = mustOpen(t, cfg)
			}
			if err := ledger.Commit(t.Context(), l, settledWrite(l, c, "late")); err != nil {
				t.Fatal(err)
			}
			if b, err := l.Body(t.Context(), c.ID, ledger.BodyAnswer); err != nil || string(b.Data) != "late" {
				t.Errorf("Body = %v, %v", b, err)
			}
			rows := int64(-1)
			err := l.read.with(t.Context(), func(r *reader) error {
				return r.each(`SELECT count(*) FROM body`, nil, func(st *sqlite3.Stmt) error { rows = st.ColumnInt64(0); return nil })
			})
			if err != nil || rows != 0 {
				t.Errorf("%d rows of bodies are left, %v", rows, err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			lawful(t, cfg)
		})
	}
}
