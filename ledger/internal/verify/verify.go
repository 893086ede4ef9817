// Package verify is what checks of a log have in common in every driver: what is wrong with a row, and the law that each history is held to.
package verify

// Violation is one row that breaks an invariant of the log.
type Violation struct {
	Rule   string `json:"rule"`   // the invariant's name
	Intent string `json:"intent"` // id of the intent, or what else names the row
	Detail string `json:"detail"`
}

// String is the violation as a line for people.
func (v Violation) String() string { return v.Rule + ": " + v.Intent + ": " + v.Detail }

// most bounds the violations that are returned: a store that is broken throughout is told by its first ones.
const most = 1000

// Report gathers violations.
type Report struct{ Found []Violation }

// Add notes one.
func (r *Report) Add(rule, id, detail string) {
	if len(r.Found) < most {
		r.Found = append(r.Found, Violation{rule, id, detail})
	}
}
