package policy

import (
	"fmt"
	"slices"
)

// conditions holds succeeded, failed and definite to what they are for. What says that nothing happened frees the key for a second
// effect, so it may not be what is left over of something else (semantics 3, 4).
func (k *checker) conditions(path string, succeeded, failed, definite Conditions, place reconcilePlace) {
	k.definite(path+".definite", definite)
	answers := statuses(200, 299)
	if place == reconcileMCP {
		answers = []int{0} // a result has no status
	}
	const none, example = "fits no answer that may be a success: each would count as a failure without an effect", `write e.g. "body.ok == true"`
	good := func(status int) bool { return slices.Contains(answers, status) }
	if len(succeeded.Statuses) > 0 && len(succeeded.Exprs) == 0 && !slices.ContainsFunc(succeeded.Statuses, good) {
		k.fail(path+".succeeded", none, example)
	}
	k.each(path+".succeeded", succeeded, func(e Expr) (what, remedy string) {
		if e.fits(answers) == 0 {
			return none, example
		}
		return "", ""
	})
	k.each(path+".failed", failed, func(e Expr) (what, remedy string) {
		if e.fits(answers) == len(answers) {
			return "fits every answer: each would count as a failure without an effect", `write e.g. "body.ok == false"`
		}
		return "", ""
	})
	k.each(path+".definite", definite, func(e Expr) (what, remedy string) {
		const list = `name the statuses that prove it, e.g. [500, 502]; "!503" says of one that it proves nothing`
		switch failures := statuses(400, 599); {
		case e.fits(statuses(200, 299)) > 0:
			return "fits successes too, so that it names what is left over, and not what proves that nothing happened", list
		case e.fits(failures) == len(failures):
			return "fits every failure, and a failure after the effect is common", list
		}
		return "", ""
	})
}

// each looks at the expressions that can be judged without an answer: those that read nothing of one, and those that read its status
// alone, which a check decides.
func (k *checker) each(path string, c Conditions, check func(Expr) (what, remedy string)) {
	for _, e := range c.Exprs {
		if e.IsZero() {
			continue // has a fault already
		}
		if !e.readsAny("status", "body", "result", "headers") {
			k.fail(path, quote(e.Source)+" reads nothing of the answer, so that it says the same of each", `write a status, or a condition over status, body and headers`)
		} else if e.ofStatus() {
			if what, remedy := check(e); what != "" {
				k.fail(path, quote(e.Source)+" "+what, remedy)
			}
		}
	}
}

// definite refuses what says both.
func (k *checker) definite(path string, c Conditions) {
	for _, status := range c.Not {
		if slices.Contains(c.Statuses, status) {
			k.fail(path, fmt.Sprintf("says of %d that it proves that nothing happened, and that it does not", status), "keep one of the two")
		}
	}
}

func (e Expr) readsAny(names ...string) bool { return slices.ContainsFunc(names, e.Reads) }

// ofStatus says that the expression reads the status, and nothing else.
func (e Expr) ofStatus() bool { return e.Reads("status") && !e.readsAny("body", "result", "headers") }

// fits counts the statuses that an expression of the status fits.
func (e Expr) fits(all []int) int {
	n := 0
	for _, status := range all {
		if ok, err := e.Match(Answer{Status: status}); ok && err == nil {
			n++
		}
	}
	return n
}

func statuses(from, to int) []int {
	var all []int
	for s := from; s <= to; s++ {
		all = append(all, s)
	}
	return all
}
