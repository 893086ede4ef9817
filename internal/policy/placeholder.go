package policy

import (
	"regexp"
	"slices"
	"strconv"
)

var (
	dollarNumber = regexp.MustCompile(`\$([0-9]+)`)
	questionMark = regexp.MustCompile(`[$?]([0-9]+)|\?`) // SQLite's; to Postgres a question mark is an operator
)

// postgres says which of the two databases a query is written for.
func (r *Reconcile) postgres() bool { return r.DSN.Scheme() != "sqlite" }

// Placeholders are the numbers of $1, $2, … in r.SQL, each once and in order.
func (r *Reconcile) Placeholders() []int {
	form := dollarNumber
	if !r.postgres() {
		form = questionMark
	}
	var all []int
	last := 0
	outsideText(r.SQL, r.postgres(), func(code string) string {
		for _, m := range form.FindAllStringSubmatch(code, -1) {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				n = last + 1 // ? is the one behind the last
			}
			last = max(last, n)
			all = append(all, n)
		}
		return code
	})
	slices.Sort(all)
	return slices.Compact(all)
}

// NumberPlaceholders writes $1 as ?1. To SQLite $1 is a name, which gets its number by where it first stands: values would go to
// other places than their numbers say (SQLite, Binding Values To Prepared Statements).
func NumberPlaceholders(sql string) string {
	return outsideText(sql, false, func(code string) string { return dollarNumber.ReplaceAllString(code, "?$1") })
}
