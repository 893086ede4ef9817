package policy

import (
	"slices"
	"strings"
	"testing"
)

// TestAlwaysARow holds that a condition is refused that fits what a query gives of nothing, however the query is written, and no other.
func TestAlwaysARow(t *testing.T) {
	const count, null, none = "result[0].n >= 0", "result[0].n == nil", "len(result) == 2"
	for _, c := range []struct {
		sql, happened string
		refused       bool
	}{
		{"SELECT count(*) AS n FROM t WHERE a = $1", "len(result) > 0", true},
		{"SELECT ALL count(*) FROM t WHERE a = $1", "len(result) > 0", true},
		{"SELECT DISTINCT count(*) FROM t WHERE a = $1", "len(result) > 0", true},
		{"SELECT count(*) AS n FROM t WHERE a = $1 LIMIT 1", "len(result) > 0", true},
		{"SELECT count(*) AS n FROM t WHERE a = $1 ORDER BY 1 LIMIT 1", "len(result) == 1", true},
		{"WITH c AS (SELECT id FROM t WHERE a = $1) SELECT count(*) AS n FROM c", "len(result) > 0", true},
		{"WITH c AS (SELECT count(*) AS n FROM t WHERE a = $1) SELECT n FROM c", "len(result) > 0", true},
		{"WITH c AS (SELECT count(*) AS n FROM t WHERE a = $1) SELECT * FROM c", count, true},
		{"WITH RECURSIVE b(x) AS (SELECT 1), c AS MATERIALIZED (SELECT count(*) AS n FROM t WHERE a = $1) SELECT n FROM c AS d", count, true},
		{"SELECT n FROM (SELECT count(*) AS n FROM t WHERE a = $1) AS x", count, true},
		{"SELECT 'x' AS a, count(*) AS n FROM t WHERE a = $1", "len(result) > 0", true},
		{"SELECT 'x' AS a, count(*) AS n FROM t WHERE a = $1", "result[0].a == 'x'", true},
		{"SELECT coalesce(sum(x),0) AS n FROM t WHERE a = $1", "len(result) > 0", true},
		{"SELECT coalesce(sum(x),0) AS n FROM t WHERE a = $1", count, true},
		{"SELECT 1 + coalesce(max(x), (SELECT min(y) FROM u)) AS n FROM t WHERE a = $1", "len(result) > 0", true},
		{"SELECT (SELECT count(*) FROM t WHERE a = $1) AS n", count, true},
		{"SELECT (SELECT count(*) FROM t WHERE a = $1) AS n", "len(result) != 0", true},
		{"SELECT (SELECT id FROM t WHERE a = $1) AS n", "len(result) > 0", true},
		{"SELECT (SELECT id FROM t WHERE a = $1) AS n", null, true},
		{"SELECT EXISTS(SELECT 1 FROM t WHERE a = $1) AS n", "result[0].n == false", true},
		{"SELECT NOT EXISTS(SELECT 1 FROM t WHERE a = $1) AS n", "result[0].n == false", true}, // either way round
		{"SELECT max(id) AS n FROM t WHERE a = $1", null, true},
		{"SELECT max(id) IS NOT NULL AS n FROM t WHERE a = $1", "result[0].n != true", true},
		{"SELECT count(*) FILTER (WHERE b > 1) AS n FROM t WHERE a = $1", count, true},
		{"SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY b) AS n FROM t WHERE a = $1", "len(result) > 0", true},
		{"WITH c AS (SELECT 1) (SELECT count(*) AS n FROM t WHERE a = $1)", count, true},
		{"SELECT count(*) n FROM t WHERE a = $1", count, true},
		{"SELECT count(*) FROM t WHERE a = $1", "result[0].count >= 0", true},
		{"select /* group by */ count ( * ) as \"n\" from t where a = $1 -- having", count, true},
		{"SELECT count(*) AS n FROM t WHERE b = 'group by' AND a = $1", "len(result) > 0", true},
		{"SELECT count(*) AS n FROM t WHERE a = $1 AND b IN (SELECT b FROM u GROUP BY b)", "len(result) > 0", true},
		{"SELECT count(*) AS n FROM t WHERE a = $1 UNION ALL SELECT id FROM t WHERE a = $1", "len(result) > 0", true},
		{"VALUES ($1)", "len(result) > 0", true},
		{"SELECT count(*) AS n FROM t WHERE a = $1", "len(result) > 0 or result[0].n > 0", true},
		{"SELECT count(*) AS n FROM t WHERE a = $1", "result[0].n > 0", false},
		{"SELECT count(*) AS n FROM t WHERE a = $1", "len(result) > 0 and result[0].n > 0", false},
		{"SELECT count(*) AS n FROM t WHERE a = $1", "any(result, .n > 0)", false},
		{"SELECT count(*) AS n, max(id) AS m FROM t WHERE a = $1", "result[0].m != nil", false},
		{"SELECT max(id) AS n FROM t WHERE a = $1", "result[0].n != nil", false},
		{"SELECT (SELECT id FROM t WHERE a = $1) AS n", "result[0].n != nil", false},
		{"SELECT EXISTS(SELECT 1 FROM t WHERE a = $1) AS n", "result[0].n == true", false},
		{"SELECT count(*) AS n FROM t WHERE a = $1 GROUP BY b", "len(result) > 0", false},
		{"SELECT count(*) AS n FROM t WHERE a = $1 HAVING count(*) > 0", "len(result) > 0", false},
		{"SELECT count(*) OVER () AS n FROM t WHERE a = $1", "len(result) > 0", false},
		{"SELECT count(*) FILTER (WHERE b > 1) OVER (PARTITION BY b) AS n FROM t WHERE a = $1", "len(result) > 0", false},
		{"SELECT (SELECT count(*) FROM u) AS n, id FROM t WHERE a = $1", "len(result) > 0", false},
		{"SELECT max(b, 0) AS n FROM t WHERE a = $1", "len(result) > 0", false},
		{"SELECT id, 'count(*)' AS n FROM t WHERE a = $1", "len(result) > 0", false},
		{"SELECT id FROM t WHERE n = (SELECT count(*) FROM u) AND a = $1", "len(result) > 0", false},
		{"SELECT n FROM (SELECT count(*) AS n FROM t WHERE a = $1) AS x WHERE n > 0", "len(result) > 0", false},
		{"SELECT 1 AS n WHERE EXISTS (SELECT 1 FROM t WHERE a = $1)", "len(result) > 0", false},
		{"SELECT charge_of($1) AS n", "len(result) > 0", false}, // may give none
		{"SELECT coalesce((SELECT id FROM t WHERE a = $1), 0) AS n", "len(result) > 0", true},
		{"SELECT unnest(array_agg(id)) AS n FROM t WHERE a = $1", "len(result) > 0", false}, // gives none of nothing
		{"SELECT count FROM t WHERE a = $1", "len(result) > 0", false},
		{"SELECT id FROM t WHERE a = $1 UNION SELECT id FROM u WHERE a = $1", "len(result) > 0", false},
		{"SELECT count(*) AS n FROM t WHERE a = $1 EXCEPT SELECT 0", "len(result) > 0", false},
		{"SELECT id FROM t WHERE a IS DISTINCT FROM $1", none, false},
		{"SELECT id FROM c, (SELECT count(*) FROM u) AS x", none, false},
	} {
		for _, dsn := range []string{"sqlite:far.db", "postgres://reader@db.internal/shop"} {
			_, faults := Parse("x.yaml", []byte(`{tools: {pay: {base_url: "http://127.0.0.1:1", routes: [{match: "POST /x", key: "{a}", reconcile: {dsn: "`+dsn+`",
  sql: '`+strings.ReplaceAll(c.sql, "'", "''")+`', happened: "`+c.happened+`"}}]}}}`), noEnv)
			if got := slices.ContainsFunc(faults, func(f Fault) bool { return f.Severity == Error && strings.HasSuffix(f.Path, ".happened") }); got != c.refused || !c.refused && Refused(faults) {
				t.Errorf("%s, %s, %.6s: %s", c.sql, c.happened, dsn, lines(faults))
			}
		}
	}
}

// TestDollarText holds that what looks like a parameter in a text is none, in the database that has such texts.
func TestDollarText(t *testing.T) {
	for sql, want := range map[string][]int{
		"SELECT $tag$ $3 $tag$ FROM t WHERE a = $1": {1}, "SELECT $$ $3 $$, $1": {1}, "SELECT $1, $2": {1, 2}, "SELECT a$b$, $3, c$b$, $1": {1, 3},
		`SELECT E'\' $3', $1`: {1}, `SELECT '\', $1`: {1}, "SELECT 1 /* /* $2 */ $3 */, $1": {1}, "SELECT $1$2": {1, 2},
	} {
		r := Reconcile{SQL: sql}
		if got := r.Placeholders(); !slices.Equal(got, want) {
			t.Errorf("%s: %v", sql, got)
		}
	}
}

// TestHostileSQL holds that no query keeps a check busy.
func TestHostileSQL(t *testing.T) {
	deep := strings.Repeat("(", 4000) + "SELECT 1" + strings.Repeat(")", 4000)
	twice := "WITH c0 AS (SELECT count(*) AS n FROM t)"
	for i := range 60 {
		name := func(i int) string { return "c" + strings.Repeat("x", i) }
		twice += ", " + name(i+1) + " AS (SELECT (SELECT n FROM " + name(i) + ") AS n, (SELECT n FROM " + name(i) + ") AS m)"
	}
	for _, sql := range []string{deep, strings.Repeat("(", 1<<20), twice + " SELECT * FROM c" + strings.Repeat("x", 60), "WITH", "WITH c", "WITH c AS", "WITH c AS (", "WITH c AS (SELECT 1)",
		"WITH c AS (SELECT n FROM c) SELECT n FROM c", "SELECT", "SELECT ,", "SELECT count(", "SELECT count(*) filter", "SELECT min(", ")", "(", "()", "SELECT x FROM", "UNION", "SELECT 1 UNION",
		"SELECT count(*) within", "SELECT () AS", "SELECT a b c, . . ., 'x' 'y'", "'", "$", "$$", "E'\\", "/*", "--", "SELECT count(*) OVER"} {
		for _, postgres := range []bool{true, false} {
			_ = emptyRow(sql, postgres)
			_ = writesSQL(sql, postgres)
		}
	}
}
