package policy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"
	"github.com/expr-lang/expr/vm/runtime"
)

// An expression over evidence has three outcomes: it fits, it does not, or the answer has not the shape that the expression
// was written for. expr by itself knows two: to it a missing member is nil, "1" is merely unequal to 1, and text has a length
// like a list. So what decides about an effect is compiled a second time, with its operators replaced by ones that refuse
// (semantics 8: an absence is believed of evidence alone).

// ErrShape is an answer that has not the form that an expression reads. Its text names places of the expression, and nothing of
// the answer.
var ErrShape = errors.New("the answer has another shape than is asked for")

func shape(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrShape}, args...)...)
}

// Names of the operators; none can be written in an expression.
const (
	strictMember = "\x00member"
	strictEqual  = "\x00equal"
	strictOrder  = "\x00order"
	strictIn     = "\x00in"
	strictList   = "\x00list"
	strictObject = "\x00object"
	strictText   = "\x00text"
)

// compileStrict compiles an expression in which a surprise is an error.
func compileStrict(src string) (*vm.Program, error) {
	lenient := lenience{}
	options := []expr.Option{expr.Env(Answer{}), expr.Patch(lenient), expr.Patch(strictly{lenient}),
		expr.Function("fromJSON", func(p ...any) (any, error) {
			text, ok := p[0].(string)
			if !ok {
				return nil, shape("fromJSON is given %s where text is expected", kindOf(p[0]))
			}
			return Document([]byte(text))
		}, new(func(any) any))}
	three := new(func(any, any, string) any)
	for name, f := range map[string]func(...any) (any, error){strictMember: memberOf, strictIn: isWithin} {
		options = append(options, expr.Function(name, f, three))
	}
	options = append(options, expr.Function(strictEqual, isEqual, new(func(any, any, string) bool)),
		expr.Function(strictOrder, orderOf, new(func(any, any, string) int)))
	for name, kind := range map[string]string{strictList: aList, strictObject: anObject, strictText: aText} {
		options = append(options, expr.Function(name, only(kind), new(func(any, string) any)))
	}
	return expr.Compile(src, options...)
}

// lenience collects the members of which the author says that they may be missing: a?.b, and what stands before ??.
type lenience map[ast.Node]bool

// Visit implements ast.Visitor.
func (l lenience) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.ChainNode:
		for m, ok := n.Node.(*ast.MemberNode); ok; m, ok = m.Node.(*ast.MemberNode) {
			l[m] = true
		}
	case *ast.BinaryNode:
		if m, ok := n.Left.(*ast.MemberNode); ok && n.Operator == "??" {
			l[m] = true
		}
	case *ast.CallNode:
		l[n.Callee] = true // a method, or nothing that can be called
	}
}

// strictly replaces operators.
type strictly struct{ lenient lenience }

// Visit implements ast.Visitor.
func (s strictly) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.MemberNode:
		if !s.lenient[n] {
			ast.Patch(node, call(strictMember, n.Node, n.Property, named(n)))
		}
	case *ast.BinaryNode:
		s.binary(node, n)
	case *ast.BuiltinNode:
		if len(n.Arguments) > 0 {
			s.builtin(n)
		}
	}
}

func (s strictly) binary(node *ast.Node, n *ast.BinaryNode) {
	switch n.Operator {
	case "==", "!=":
		var same ast.Node = call(strictEqual, n.Left, n.Right, named(n))
		if isNil(n.Left) || isNil(n.Right) {
			return // asks in so many words whether there is a value
		}
		if n.Operator == "!=" {
			same = &ast.UnaryNode{Operator: "not", Node: same}
		}
		ast.Patch(node, same)
	case "<", ">", "<=", ">=":
		n.Left, n.Right = call(strictOrder, n.Left, n.Right, named(n)), &ast.IntegerNode{}
	case "in":
		ast.Patch(node, call(strictIn, n.Left, n.Right, named(n)))
	case "contains", "startsWith", "endsWith", "matches":
		n.Left, n.Right = checked(strictText, n.Left), checked(strictText, n.Right)
	}
}

var (
	ofLists = []string{"all", "none", "any", "one", "filter", "map", "find", "findIndex", "findLast", "findLastIndex", "count", "sum", "groupBy",
		"sortBy", "reduce", "len", "first", "last", "take", "reverse", "uniq", "flatten", "sort", "join"}
	ofObjects = []string{"keys", "values", "toPairs"}
	ofText    = []string{"trim", "trimPrefix", "trimSuffix", "upper", "lower", "split", "splitAfter", "replace", "repeat", "indexOf", "lastIndexOf",
		"hasPrefix", "hasSuffix"}
)

func (s strictly) builtin(n *ast.BuiltinNode) {
	switch first := &n.Arguments[0]; {
	case slices.Contains(ofLists, n.Name):
		*first = checked(strictList, *first)
	case slices.Contains(ofObjects, n.Name):
		*first = checked(strictObject, *first)
	case slices.Contains(ofText, n.Name):
		*first = checked(strictText, *first)
	}
}

func call(name string, args ...ast.Node) *ast.CallNode {
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: args}
}

// checked wraps a value; a literal is what it is.
func checked(name string, n ast.Node) ast.Node {
	switch n.(type) {
	case *ast.StringNode, *ast.ArrayNode, *ast.MapNode:
		return n
	}
	return call(name, n, named(n))
}

func isNil(n ast.Node) bool {
	_, is := n.(*ast.NilNode)
	return is
}

// named is how a place is named to people. Its parts may have been replaced already.
func named(n ast.Node) *ast.StringNode { return &ast.StringNode{Value: place(n)} }

func place(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CallNode:
		if id, ok := n.Callee.(*ast.IdentifierNode); ok && strings.HasPrefix(id.Value, "\x00") {
			return n.Arguments[len(n.Arguments)-1].(*ast.StringNode).Value
		}
	case *ast.MemberNode:
		name, ok := n.Property.(*ast.StringNode)
		switch base := place(n.Node); {
		case ok && base == "#":
			return "." + name.Value
		case ok:
			return base + "." + name.Value
		default:
			return base + "[" + place(n.Property) + "]"
		}
	case *ast.BinaryNode:
		return place(n.Left) + " " + n.Operator + " " + place(n.Right)
	case *ast.BuiltinNode:
		return n.Name + "(…)"
	}
	return n.String()
}

// Kinds of values, as people are told of them.
const (
	aNull    = "null"
	aBool    = "true or false"
	aNumber  = "a number"
	aText    = "text"
	aList    = "a list"
	anObject = "an object"
)

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return aNull
	case time.Time:
		return "a time"
	}
	switch k := reflect.TypeOf(v).Kind(); {
	case k == reflect.Bool:
		return aBool
	case k >= reflect.Int && k <= reflect.Float64:
		return aNumber
	case k == reflect.String:
		return aText
	case k == reflect.Slice || k == reflect.Array:
		return aList
	case k == reflect.Map:
		return anObject
	}
	return "something else"
}

func only(kind string) func(...any) (any, error) {
	return func(p ...any) (any, error) {
		if is := kindOf(p[0]); is != kind {
			return nil, shape("%s is %s where %s is expected", p[1], is, kind)
		}
		return p[0], nil
	}
}

// memberOf is p[0].p[1], which has to be there.
func memberOf(p ...any) (any, error) {
	is, has := kindOf(p[0]), reflect.ValueOf(p[0])
	switch name := p[1].(type) {
	case string:
		if is != anObject {
			return nil, shape("%s is looked for in %s", p[2], is)
		}
		if v := has.MapIndex(reflect.ValueOf(name)); v.IsValid() {
			return v.Interface(), nil
		}
		return nil, shape("%s is not there", p[2])
	case int:
		if is != aList {
			return nil, shape("%s is looked for in %s", p[2], is)
		}
		if name < 0 {
			name += has.Len()
		}
		if name >= 0 && name < has.Len() {
			return has.Index(name).Interface(), nil
		}
	}
	return nil, shape("%s is not there", p[2])
}

func isEqual(p ...any) (any, error) {
	if a, b := kindOf(p[0]), kindOf(p[1]); a != b {
		return nil, shape("%s compares %s with %s", p[2], a, b)
	}
	return runtime.Equal(p[0], p[1]), nil
}

func orderOf(p ...any) (any, error) {
	a, b := kindOf(p[0]), kindOf(p[1])
	switch {
	case a != b || a == aBool || a == aNull || a == aList || a == anObject:
		return nil, shape("%s compares %s with %s", p[2], a, b)
	case runtime.Equal(p[0], p[1]):
		return 0, nil
	case runtime.Less(p[0], p[1]):
		return -1, nil
	}
	return 1, nil
}

// isWithin is p[0] in p[1]: of a list, or the name of a member of an object.
func isWithin(p ...any) (any, error) {
	needle, is, in := kindOf(p[0]), kindOf(p[1]), reflect.ValueOf(p[1])
	switch {
	case is == anObject && needle == aText:
		return in.MapIndex(reflect.ValueOf(p[0])).IsValid(), nil
	case is != aList:
		return nil, shape("%s looks for %s in %s", p[2], needle, is)
	}
	for i := range in.Len() {
		v := in.Index(i).Interface()
		if k := kindOf(v); k != needle {
			return nil, shape("%s looks for %s in a list with %s", p[2], needle, k)
		}
		if runtime.Equal(v, p[0]) {
			return true, nil
		}
	}
	return false, nil
}
