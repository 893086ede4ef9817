package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of one file. A configuration near any of them is a mistake or an attack.
const (
	maxFile   = 512 << 10
	maxTokens = 30000  // the parser is quadratic in the keys of one block: 10,000 keys take it a second
	maxDepth  = 32     // of blocks and brackets
	maxNodes  = 100000 // values with every alias written out
)

type kind uint8

const (
	null kind = iota
	scalar
	list
	mapping
)

// String is what a fault calls a value of this kind.
func (k kind) String() string {
	return [...]string{"empty", "a single value", "a list", "a mapping"}[k]
}

// node is one YAML value. Aliases share nodes, so it is never changed after it was built.
type node struct {
	kind  kind
	text  string // of a scalar
	plain bool   // without quotes: may be a number or a boolean
	pos   Pos
	items []*node
	keys  []key // of a mapping, beside items
	size  int   // nodes in it, itself included
	depth int
}

type key struct {
	name string
	pos  Pos
}

// reader turns a file into nodes.
type reader struct {
	file    string
	anchors map[string]*node
	faults  []Fault
}

// readYAML parses one document. A file that is no YAML gives one fault and no node.
func readYAML(file string, data []byte) (root *node, faults []Fault) {
	r := &reader{file: file, anchors: map[string]*node{}}
	if f := r.screen(data); f != nil {
		return nil, []Fault{*f}
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	doc, fault := r.parse(text)
	if fault != nil {
		return nil, []Fault{*fault}
	}
	if doc == nil {
		return &node{pos: Pos{file, 1, 1}}, nil
	}
	root = r.node(doc, 0)
	return root, r.faults
}

// screen refuses what the parser should not see.
func (r *reader) screen(data []byte) *Fault {
	if len(data) > maxFile {
		return r.at(1, 1, fmt.Sprintf("the file has %d bytes", len(data)), fmt.Sprintf("split it with policies:; at most %d", maxFile))
	}
	for n, line := range strings.Split(string(data), "\n") {
		if !utf8.ValidString(line) {
			return r.at(n+1, invalidAt(line)+1, "is not UTF-8", "save the file as UTF-8")
		}
		if i := strings.IndexFunc(line, isControl); i >= 0 && line[i] != '\r' {
			return r.at(n+1, i+1, "contains a control character", "remove it")
		}
	}
	return nil
}

func invalidAt(line string) int {
	for i, c := range line {
		if c == utf8.RuneError && !strings.HasPrefix(line[i:], "\ufffd") {
			return i
		}
	}
	return 0
}

func (r *reader) at(line, col int, what, remedy string) *Fault {
	return &Fault{Pos: Pos{r.file, line, col}, What: what, Remedy: remedy}
}

// parse runs the YAML library, whose panics on hostile input are faults like any other.
func (r *reader) parse(text string) (doc ast.Node, fault *Fault) {
	defer func() {
		if p := recover(); p != nil {
			doc, fault = nil, r.at(1, 1, "could not be read as YAML", "simplify it: plain mappings, lists and scalars are enough")
		}
	}()
	if f := r.tabs(text, 0); f != nil {
		return nil, f
	}
	tokens := lexer.Tokenize(text)
	if f := r.nesting(tokens); f != nil {
		return nil, f
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, r.syntax(text, err)
	}
	for _, d := range file.Docs {
		switch {
		case d.Body == nil || d.Body.Type() == ast.DirectiveType:
		case doc != nil:
			p := r.pos(d.Body)
			return nil, r.at(p.Line, p.Col, "a second document begins here", "remove the --- line, or use policies: for more files")
		default:
			doc = d.Body
		}
	}
	return doc, nil
}

// tabs finds a tab that indents a line, from the given line on.
func (r *reader) tabs(text string, only int) *Fault {
	for n, line := range strings.Split(text, "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		i := strings.IndexByte(indent, '\t')
		if i < 0 || strings.TrimSpace(line) == "" || i > 0 && n+1 != only {
			continue
		}
		return r.at(n+1, i+1, "a tab indents this line", "write spaces; YAML has no tabs")
	}
	return nil
}

// nesting bounds what the recursive parser will meet.
func (r *reader) nesting(tokens token.Tokens) *Fault {
	if len(tokens) > maxTokens {
		p := tokens[maxTokens].Position
		return r.at(p.Line, p.Column, fmt.Sprintf("more than %d words and signs", maxTokens), "split the file with policies:")
	}
	depth, run, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			run, line = 0, t.Position.Line
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth = max(depth-1, 0)
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType, token.MappingValueType:
			run++
		}
		if depth > maxDepth || depth == 0 && run > maxDepth || t.Position.Column > 1<<14 && depth == 0 && run > 2 {
			return r.at(t.Position.Line, t.Position.Column, "nests too deeply", fmt.Sprintf("at most %d levels", maxDepth))
		}
	}
	return nil
}

func (r *reader) syntax(text string, err error) *Fault {
	var bad *yaml.SyntaxError
	if !errors.As(err, &bad) || bad.Token == nil {
		return r.at(1, 1, "is not YAML: "+firstLine(err.Error()), "see https://yaml.org for the syntax")
	}
	line := bad.Token.Position.Line
	for _, l := range []int{line, line + 1, line - 1} {
		if f := r.tabs(text, l); f != nil {
			return f
		}
	}
	return r.at(line, bad.Token.Position.Column, "is not YAML: "+firstLine(bad.Message), "check indentation, colons, quotes and brackets here")
}

func (r *reader) pos(n ast.Node) Pos {
	t := n.GetToken()
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		t = m.Values[0].Key.GetToken()
	}
	if t == nil || t.Position == nil {
		return Pos{r.file, 1, 1}
	}
	return Pos{r.file, t.Position.Line, t.Position.Column}
}

func (r *reader) fault(p Pos, what, remedy string) {
	if len(r.faults) < maxFaults {
		r.faults = append(r.faults, Fault{Pos: p, What: what, Remedy: remedy})
	}
}
