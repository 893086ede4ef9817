package policy

import (
	"slices"
	"strings"
)

// Bounds of what is looked at; a longer query is taken for one that may find nothing.
const (
	maxSQLTokens = 5000
	maxSQLNested = 32  // queries within one another
	maxSQLReads  = 500 // of queries, which names repeat
)

// sqlColumn is a column of a query that gives a row whatever there is.
type sqlColumn struct {
	name  string // empty: the database names it
	empty []any  // what may be in it where nothing was found; none: nobody can tell
}

// sqlRow is what a query gives where nothing was found.
type sqlRow struct {
	columns []sqlColumn
	always  bool // a row
	more    bool // and further ones, where there is something
}

// sqlReader reads queries just as far as it takes to tell one that always gives a row from one that finds nothing: an aggregate
// without GROUP BY, a SELECT without FROM, and what has one of them behind it.
type sqlReader struct {
	named map[string][]sqlToken // WITH name AS (…)
	depth int
	reads int
}

func emptyRow(sql string, postgres bool) sqlRow {
	tokens := sqlTokens(sql, postgres)
	if len(tokens) > maxSQLTokens {
		return sqlRow{}
	}
	return (&sqlReader{named: map[string][]sqlToken{}}).query(tokens)
}

func (q *sqlReader) query(t []sqlToken) sqlRow {
	q.depth++
	q.reads++
	defer func() { q.depth-- }()
	if q.depth > maxSQLNested || q.reads > maxSQLReads {
		return sqlRow{}
	}
	for len(t) > 0 && t[len(t)-1].is(";") {
		t = t[:len(t)-1]
	}
	t = q.with(t)
	if slices.ContainsFunc(atTop(t), func(i int) bool { return t[i].is("except", "intersect") }) {
		return sqlRow{}
	}
	arms, from := [][]sqlToken{}, 0
	for _, i := range atTop(t) {
		if t[i].is("union") {
			arms = append(arms, t[from:i])
			if from = i + 1; from < len(t) && t[from].is("all", "distinct") {
				from++
			}
		}
	}
	arms = append(arms, t[from:])
	for _, arm := range arms {
		if row := q.arm(arm); row.always {
			row.more = row.more || len(arms) > 1
			return row
		}
	}
	return sqlRow{}
}

// with takes the named queries in front off.
func (q *sqlReader) with(t []sqlToken) []sqlToken {
	if len(t) == 0 || !t[0].is("with") {
		return t
	}
	i := 1
	if i < len(t) && t[i].is("recursive") {
		i++
	}
	for i < len(t) {
		name := t[i].text
		for i < len(t) && !t[i].is("as") {
			i++
		}
		for i < len(t) && !t[i].is("(") {
			i++
		}
		end := closing(t, i)
		if end < 0 {
			return nil
		}
		q.named[name] = t[i+1 : end]
		if i = end + 1; i >= len(t) || !t[i].is(",") {
			break
		}
		i++
	}
	return t[min(i, len(t)):]
}

var sqlClauses = []string{"from", "where", "group", "having", "window", "order", "limit", "offset", "fetch", "for"}

// arm reads one SELECT, or VALUES.
func (q *sqlReader) arm(t []sqlToken) sqlRow {
	switch {
	case len(t) > 1 && t[0].is("(") && closing(t, 0) == len(t)-1:
		return q.query(t[1 : len(t)-1])
	case len(t) == 0 || !t[0].is("select"):
		return sqlRow{always: len(t) > 0 && t[0].is("values")}
	}
	clauses := map[string]int{}
	end := len(t)
	for _, i := range atTop(t) {
		if t[i].is(sqlClauses...) && !t[i-1].is("distinct", "within") {
			if _, has := clauses[t[i].text]; !has {
				clauses[t[i].text] = i
			}
			end = min(end, i)
		}
	}
	has := func(name string) bool { _, is := clauses[name]; return is }
	if has("group") || has("having") || has("offset") {
		return sqlRow{}
	}
	list := t[1:end]
	for len(list) > 0 && list[0].is("all", "distinct") {
		list = list[1:]
	}
	row := sqlRow{columns: q.columns(list)}
	switch {
	case aggregates(list), !has("from") && !has("where") && oneEach(list):
		row.always = true
	case has("from") && !has("where"):
		q.behind(&row, t[clauses["from"]+1:])
	}
	return row
}

// behind looks at what a SELECT without a condition reads: one query alone, in brackets or by its name.
func (q *sqlReader) behind(row *sqlRow, t []sqlToken) {
	for _, i := range atTop(t) {
		if t[i].is(sqlClauses...) {
			t = t[:i]
			break
		}
	}
	var inner sqlRow
	end := 0
	switch {
	case len(t) == 0:
		return
	case t[0].is("("):
		if end = closing(t, 0); end < 0 {
			return
		}
		inner = q.query(t[1:end])
	default:
		named := q.named[t[0].text]
		if named == nil {
			return
		}
		inner = q.query(slices.Clone(named))
	}
	if rest := t[end+1:]; len(rest) > 2 || len(rest) == 2 && !rest[0].is("as") { // a join
		return
	}
	row.always, row.more = inner.always, inner.more
	for i := range row.columns {
		c := &row.columns[i]
		at := slices.IndexFunc(inner.columns, func(o sqlColumn) bool { return strings.EqualFold(o.name, c.name) })
		if c.empty == nil && at >= 0 {
			c.empty = inner.columns[at].empty
		}
	}
	if len(row.columns) == 1 && row.columns[0].name == "*" {
		row.columns = inner.columns
	}
}

// closing is the index of the bracket that closes the one at i, -1 if none does.
func closing(t []sqlToken, i int) int {
	for depth := 0; i < len(t); i++ {
		switch {
		case t[i].is("("):
			depth++
		case t[i].is(")"):
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// atTop are the indices of the tokens that stand in no brackets, but for the first.
func atTop(t []sqlToken) []int {
	var all []int
	depth := 0
	for i := range t {
		switch {
		case t[i].is("("):
			depth++
		case t[i].is(")"):
			depth--
		case depth == 0 && i > 0:
			all = append(all, i)
		}
	}
	return all
}
