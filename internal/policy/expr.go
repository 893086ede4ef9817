package policy

import (
	"fmt"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"
)

// maxExpr bounds an expression's source; expr itself bounds its nodes and its memory.
const maxExpr = 4096

// Answer is what an expression sees of an answer.
type Answer struct {
	Status  int               `expr:"status"`  // HTTP status, 0 for MCP
	Body    any               `expr:"body"`    // decoded JSON, nil if it is none
	Result  any               `expr:"result"`  // MCP: the tool's structured result, else its text
	Headers map[string]string `expr:"headers"` // lower-case names
	// Fault is why there is no document (an ErrDocument): then nothing that reads body or result can be decided, because what
	// they would show is nil, as if the answer had said so.
	Fault error `expr:"-"`
}

// Expr is a compiled boolean expression over an Answer. Its zero value never matches.
type Expr struct {
	Source   string
	program  *vm.Program
	strict   *vm.Program
	document bool // it reads body or result
}

// CompileExpr compiles a boolean expression over status, body, result and headers.
func CompileExpr(src string) (Expr, error) {
	if len(src) > maxExpr {
		return Expr{}, fmt.Errorf("policy: expression of %d bytes; at most %d", len(src), maxExpr)
	}
	program, err := expr.Compile(src, expr.Env(Answer{}), expr.AsBool())
	if err != nil {
		return Expr{}, fmt.Errorf("policy: expression %q: %w", src, err)
	}
	strict, err := compileStrict(src)
	if err != nil {
		return Expr{}, fmt.Errorf("policy: expression %q: %w", src, err)
	}
	e := Expr{Source: src, program: program, strict: strict}
	if e.Reads("$env") { // behind it nobody sees what is read
		return Expr{}, fmt.Errorf("policy: expression %q: $env is not known here; name status, body, result or headers", src)
	}
	e.document = e.Reads("body") || e.Reads("result")
	return e, nil
}

// IsZero reports whether there is no expression.
func (e Expr) IsZero() bool { return e.program == nil }

// Reads says whether the expression reads one of status, body, result and headers.
func (e Expr) Reads(name string) bool {
	if e.program == nil {
		return false
	}
	found := mention{name: name}
	node := e.program.Node()
	ast.Walk(&node, &found)
	return found.yes
}

type mention struct {
	name string
	yes  bool
}

// Visit implements ast.Visitor.
func (r *mention) Visit(node *ast.Node) {
	if id, ok := (*node).(*ast.IdentifierNode); ok && id.Value == r.name {
		r.yes = true
	}
}

// Equal compares the sources.
func (e Expr) Equal(o Expr) bool { return e.Source == o.Source }

// Match evaluates the expression. An answer that lacks what the expression reads is no match, with the reason.
func (e Expr) Match(a Answer) (bool, error) {
	if e.program == nil {
		return false, nil
	}
	if err := e.unread(a); err != nil {
		return false, err
	}
	out, err := expr.Run(e.program, a)
	if err != nil {
		return false, fmt.Errorf("policy: expression %q: %w", e.Source, err)
	}
	return out == true, nil
}

// Decide is Match of evidence: an answer that has another shape than the expression reads — a missing member, text where a
// number is compared, no list where one is counted — is an error, mostly ErrShape, and neither true nor false.
func (e Expr) Decide(a Answer) (bool, error) {
	if e.strict == nil {
		return false, nil
	}
	if err := e.unread(a); err != nil {
		return false, err
	}
	out, err := expr.Run(e.strict, a)
	if err != nil {
		return false, fmt.Errorf("policy: expression %q: %w", e.Source, err)
	}
	is, ok := out.(bool)
	if !ok {
		return false, fmt.Errorf("policy: expression %q: %w", e.Source, shape("it is %s, neither true nor false", kindOf(out)))
	}
	return is, nil
}

// unread is the fault of a document that the expression would read.
func (e Expr) unread(a Answer) error {
	if a.Fault == nil || !e.document {
		return nil
	}
	return fmt.Errorf("policy: expression %q: %w", e.Source, a.Fault)
}

// Conditions is a list of statuses and expressions; any of them suffices. The zero value has none.
type Conditions struct {
	Statuses []int
	Exprs    []Expr
	Not      []int // of definite: "!503", statuses of which the opposite is said
}

// IsZero reports whether nothing is asked.
func (c Conditions) IsZero() bool {
	return len(c.Statuses) == 0 && len(c.Exprs) == 0 && len(c.Not) == 0
}

// Denies reports whether a status, whatever is usually thought of it, is said to prove nothing.
func (c Conditions) Denies(status int) bool { return slices.Contains(c.Not, status) }

// Match reports whether any status or expression fits. An error of one expression does not hide the others' match.
func (c Conditions) Match(a Answer) (bool, error) { return c.any(a, Expr.Match) }

// Decide is Match of evidence, as Expr.Decide is. false without an error: the answer has the shape that every expression reads, and
// fits none.
func (c Conditions) Decide(a Answer) (bool, error) { return c.any(a, Expr.Decide) }

func (c Conditions) any(a Answer, fits func(Expr, Answer) (bool, error)) (bool, error) {
	if slices.Contains(c.Statuses, a.Status) {
		return true, nil
	}
	var first error
	for _, e := range c.Exprs {
		ok, err := fits(e, a)
		if ok {
			return true, nil
		}
		if first == nil {
			first = err
		}
	}
	return false, first
}
