package policy

import "slices"

var (
	countingAggregates = []string{"count", "total", "regr_count"} // 0 of nothing
	otherAggregates    = []string{"sum", "avg", "min", "max", "every", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor", "array_agg", "string_agg", "group_concat",
		"json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg", "json_group_array", "json_group_object", "jsonb_group_array", "jsonb_group_object", "json_arrayagg",
		"json_objectagg", "xmlagg", "any_value", "mode", "median", "percentile_cont", "percentile_disc", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop",
		"var_samp", "corr", "covar_pop", "covar_samp", "range_agg"}
	ofSets = []string{"unnest", "generate_series", "generate_subscripts", "regexp_split_to_table", "regexp_matches", "string_to_table", "json_array_elements",
		"jsonb_array_elements", "json_array_elements_text", "jsonb_array_elements_text", "json_each", "jsonb_each", "json_each_text", "jsonb_each_text", "json_object_keys",
		"jsonb_object_keys", "jsonb_path_query", "json_to_recordset", "jsonb_to_recordset", "json_populate_recordset", "jsonb_populate_recordset"}
	replacesNull = []string{"coalesce", "ifnull", "nvl"}
)

// aggregates says that a select list has an aggregate of the query's own rows: not one of a query in brackets, and none with OVER,
// which gives a row for each that there is.
func aggregates(list []sqlToken) bool {
	if slices.ContainsFunc(list, func(t sqlToken) bool { return t.is(ofSets...) }) {
		return false // they give no row of nothing
	}
	for i := 0; i+1 < len(list); i++ {
		if list[i].is("(") && list[i+1].is("select", "with", "values") {
			end := closing(list, i)
			if end < 0 {
				return false
			}
			i = end
			continue
		}
		if isAggregate(list, i) {
			return true
		}
	}
	return false
}

// oneEach says that a select list calls nothing that may give several rows, or none, by itself, as Postgres' functions of sets do.
func oneEach(list []sqlToken) bool {
	for i := 0; i+1 < len(list); i++ {
		switch {
		case list[i].is("(") && list[i+1].is("select", "with", "values"):
			end := closing(list, i)
			if end < 0 {
				return false
			}
			i = end
		case list[i+1].is("(") && (list[i].kind == sqlName || list[i].kind == sqlCode && inName(list[i].text[0])) &&
			!list[i].is("exists", "not", "and", "or", "in", "is", "when", "then", "else", "case", "nullif", "cast", "as", "numeric", "varchar", "char") && !list[i].is(replacesNull...):
			return false
		}
	}
	return true
}

func isAggregate(t []sqlToken, i int) bool {
	if !t[i].is(countingAggregates...) && !t[i].is(otherAggregates...) || i+1 >= len(t) || !t[i+1].is("(") {
		return false
	}
	end := closing(t, i+1)
	if end < 0 {
		return false
	}
	arguments := t[i+1 : end] // with the bracket in front, so that the first token is none of them
	if t[i].is("min", "max") && slices.ContainsFunc(atTop(arguments[1:]), func(n int) bool { return arguments[n+1].is(",") }) {
		return false // SQLite's function of several values
	}
	for end+1 < len(t) && t[end+1].is("filter", "within", "group") {
		open := end + 2
		for open < len(t) && !t[open].is("(") {
			open++
		}
		if end = closing(t, open); end < 0 {
			return false
		}
	}
	return end+1 >= len(t) || !t[end+1].is("over")
}

// columns reads a select list.
func (q *sqlReader) columns(list []sqlToken) []sqlColumn {
	var all []sqlColumn
	from := 0
	for _, i := range append(atTop(list), len(list)) {
		if i == len(list) || list[i].is(",") {
			all = append(all, q.column(list[from:i]))
			from = i + 1
		}
	}
	return all
}

func (q *sqlReader) column(t []sqlToken) sqlColumn {
	last := len(t) - 1
	switch {
	case last < 0:
		return sqlColumn{}
	case last == 0 && (t[0].kind == sqlName || t[0].is("*") || t[0].kind == sqlCode && q.constant(t) == nil):
		return sqlColumn{name: t[0].text}
	case last > 0 && t[last-1].is("as"):
		return sqlColumn{t[last].text, q.nothing(t[:last-1])}
	case last == 2 && t[1].is("."):
		return sqlColumn{name: t[2].text}
	case last > 0 && mayName(t[last]) && (t[last-1].is(")") || mayName(t[last-1]) || q.constant(t[:last]) != nil):
		return sqlColumn{t[last].text, q.nothing(t[:last])} // without AS
	}
	return sqlColumn{empty: q.nothing(t)}
}

// mayName says that a token may be a name.
func mayName(t sqlToken) bool {
	return t.kind == sqlName || t.kind == sqlCode && inName(t.text[0]) && (t.text[0] < '0' || t.text[0] > '9') && !t.is("null", "true", "false", "end", "and", "or", "not", "is", "in", "like")
}

// nothing is what an expression may be where nothing was found: a truth value is one to Postgres, and a number to SQLite.
func (q *sqlReader) nothing(t []sqlToken) []any {
	has := func(words ...string) bool {
		return slices.ContainsFunc(t, func(t sqlToken) bool { return t.is(words...) })
	}
	switch {
	case q.constant(t) != nil:
		return q.constant(t)
	case len(t) > 2 && t[0].is("(") && closing(t, 0) == len(t)-1:
		if !t[1].is("select", "with", "values", "(") {
			return q.nothing(t[1 : len(t)-1])
		}
		if row := q.query(t[1 : len(t)-1]); row.always && len(row.columns) == 1 {
			return row.columns[0].empty
		}
		return []any{nil}
	case has("case"):
		return nil
	case has("is", "in", "exists") || has(countingAggregates...) || has(replacesNull...):
		return []any{0, false}
	case has(otherAggregates...) || has("select"):
		return []any{nil}
	}
	return nil
}

// constant is the value of a literal alone, nil if there is none.
func (q *sqlReader) constant(t []sqlToken) []any {
	if len(t) != 1 {
		return nil
	}
	if t[0].kind == sqlString {
		return []any{t[0].text}
	}
	if v, err := Document([]byte(t[0].text)); err == nil && t[0].kind == sqlCode {
		return []any{v}
	}
	return nil
}
