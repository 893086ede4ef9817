package sqlite

import (
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/ledger"
)

// TestPlans: the listings that people wait for walk an index, or the log from its end, and sort nothing, however long
// the log is.
func TestPlans(t *testing.T) {
	l := mustOpen(t, Config{Path: tempPath(t)})
	unknown, _ := listQuery(ledger.Filter{States: []ledger.State{ledger.Unknown}})
	newest, _ := listQuery(ledger.Filter{})
	recent, _ := listQuery(ledger.Filter{Key: "k", NewerThan: l.Now()})
	for name, query := range map[string]string{"unknown": unknown, "newest": newest, "recent": recent, "due": dueQuery} {
		plan := ""
		if err := l.read.with(t.Context(), func(r *reader) error {
			return r.each("EXPLAIN QUERY PLAN "+query, nil, func(st *sqlite3.Stmt) error {
				plan += st.ColumnText(3) + "\n"
				return nil
			})
		}); err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(plan, "\n")
		if strings.Contains(plan, "TEMP B-TREE") || name != "newest" && !strings.Contains(first, "INDEX") && !strings.Contains(first, "(rowid>?)") || strings.Count(plan, "SCAN ") > 1 {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}
