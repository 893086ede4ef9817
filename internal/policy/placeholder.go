package policy

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	dollarNumber = regexp.MustCompile(`\$([0-9]+)`)
	questionMark = regexp.MustCompile(`[$?]([0-9]+)|\?`) // SQLite's; to Postgres a question mark is an operator
)

// Placeholders are the numbers of $1, $2, … in r.SQL, each once and in order.
func (r *Reconcile) Placeholders() []int {
	form := dollarNumber
	if r.DSN.Scheme() == "sqlite" {
		form = questionMark
	}
	var all []int
	last := 0
	outsideText(r.SQL, func(code string) string {
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
	return outsideText(sql, func(code string) string { return dollarNumber.ReplaceAllString(code, "?$1") })
}

// outsideText applies f to what is neither text, nor a quoted name, nor a comment.
func outsideText(sql string, f func(string) string) string {
	var b strings.Builder
	at := 0
	for _, noise := range sqlNoise.FindAllStringIndex(sql, -1) {
		b.WriteString(f(sql[at:noise[0]]))
		b.WriteString(sql[noise[0]:noise[1]])
		at = noise[1]
	}
	b.WriteString(f(sql[at:]))
	return b.String()
}
