package reconcile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-ai/holdfast/intent"
	"github.com/holdfast-ai/holdfast/internal/mutant"
	"github.com/holdfast-ai/holdfast/internal/policy"
)

// answer is what a source said, as it is judged.
type answer struct {
	policy.Answer
	// named says that the last segment of the address is this one operation: then nothing being there is an absence. Where another
	// segment, or a query, names it, nothing may be there because the address is wrong.
	named bool
	plain bool // an answer of the form that a read has when it succeeds
}

// judge reads an answer by the two expressions. An absence comes of an answer alone that has the shape which the expressions
// are written for: everything else cannot tell (semantics 8).
func judge(r *policy.Reconcile, a answer) (intent.Found, string) {
	happened, err := decide(r.Happened, a)
	if mutant.On("absent-of-any-shape") {
		happened, _ = r.Happened.Match(a.Answer)
		err = nil
	}
	absent, whyNot := decide(r.NotHappened, a)
	switch {
	case happened && absent:
		return intent.CannotTell, "the answer fits happened and not_happened alike"
	case absent && isGone(a.Status) && !a.named && !r.NotHappened.Reads("status"):
		return intent.CannotTell, ofAddress(a.Status)
	case happened:
		return intent.Happened, "the answer shows the effect (happened)"
	case absent:
		return intent.DidNotHappen, "the answer shows that there is no effect (not_happened)"
	case !r.NotHappened.IsZero():
		return intent.CannotTell, "the answer fits neither happened nor not_happened" + because(a, errors.Join(err, whyNot))
	case isGone(a.Status) && a.named:
		return intent.DidNotHappen, fmt.Sprintf("the far side knows nothing of it (%d)", a.Status)
	case isGone(a.Status):
		return intent.CannotTell, ofAddress(a.Status)
	case err != nil:
		return intent.CannotTell, "the answer has not what happened asks for" + because(a, err)
	case a.plain:
		return intent.DidNotHappen, "the answer does not show the effect (happened)"
	}
	return intent.CannotTell, fmt.Sprintf("the far side answered %d", a.Status)
}

// ofAddress is why a status that says that there is nothing says nothing of the operation.
func ofAddress(status int) string {
	return fmt.Sprintf("the far side answered %d, which may be said of the address and not of what is asked for: "+
		"name it in the last segment of the path, or write not_happened: \"status == %d\"", status, status)
}

// decide is what an expression says of an answer. Where there is no document, or one that can be read in two ways, the status alone
// is sure to be the far side's: a proxy's own answer has no body and no header that was asked for, which must not pass for a "no".
func decide(e policy.Expr, a answer) (bool, error) {
	if a.Fault != nil && e.Reads("headers") {
		return false, a.Fault
	}
	return e.Decide(a.Answer)
}

// because says why an expression could not be decided: what is wrong with the document, else with its shape.
func because(a answer, err error) string {
	switch {
	case err == nil:
		return ""
	case a.Fault != nil:
		return ": " + a.Fault.Error()
	case errors.Is(err, policy.ErrShape):
		text := err.Error()
		_, text, _ = strings.Cut(text, policy.ErrShape.Error()+": ")
		text, _, _ = strings.Cut(text, "\n")
		text, _, _ = strings.Cut(text, " (1:") // the place in the expression, which is named already
		return ": " + text
	}
	return ""
}

// isPage recognises what is made for people: a page says something of the server in between, and nothing of what was asked for.
// Other XML is data, of which status and headers can speak.
func isPage(contentType string, body []byte) bool {
	begin := bytes.ToLower(bytes.TrimSpace(body[:min(len(body), 512)]))
	return strings.Contains(strings.ToLower(contentType), "html") || bytes.HasPrefix(begin, []byte("<!doctype html")) ||
		bytes.HasPrefix(begin, []byte("<html")) || contentType == "" && bytes.HasPrefix(begin, []byte("<"))
}

// judgeError reads what a tool reports as an error: an absence where not_happened says so in so many words, and nothing
// otherwise.
func judgeError(r *policy.Reconcile, a answer) (intent.Found, string) {
	absent, err := decide(r.NotHappened, a)
	if absent {
		return intent.DidNotHappen, "the tool reports an error that shows that there is no effect (not_happened)"
	}
	return intent.CannotTell, "the tool reports an error" + because(a, err)
}
