package policy

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// node converts a parsed value, following aliases and merges within maxNodes.
func (r *reader) node(n ast.Node, depth int) *node {
	out := &node{pos: r.pos(n), size: 1}
	if depth > maxDepth {
		r.fault(out.pos, "nests too deeply", fmt.Sprintf("at most %d levels", maxDepth))
		return out
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		r.mapping(out, n.Values, depth)
	case *ast.MappingValueNode:
		r.mapping(out, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		out.kind = list
		for _, v := range n.Values {
			out.add(r.node(v, depth+1))
		}
	case *ast.AnchorNode:
		return r.anchor(n, depth)
	case *ast.AliasNode:
		return r.alias(n, out)
	case *ast.TagNode:
		r.fault(out.pos, "the tag "+quote(n.Start.Value)+" has no meaning here", "remove it; quote the value to make it text")
	default:
		r.scalar(out, n)
	}
	if out.size > maxNodes {
		r.fault(out.pos, fmt.Sprintf("holds more than %d values with its aliases written out", maxNodes), "use fewer aliases")
		return &node{pos: out.pos, size: 1}
	}
	return out
}

func (n *node) add(child *node) {
	n.items = append(n.items, child)
	n.size = min(n.size+child.size, maxNodes+1)
	n.depth = max(n.depth, child.depth+1)
}

func (r *reader) scalar(out *node, n ast.Node) {
	t := n.GetToken()
	switch n := n.(type) {
	case *ast.NullNode:
		return
	case *ast.LiteralNode:
		out.kind, out.text = scalar, n.Value.Value
	case *ast.StringNode:
		out.kind, out.text = scalar, n.Value
		out.plain = t.Type != token.SingleQuoteType && t.Type != token.DoubleQuoteType
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text, out.plain = scalar, t.Value, true
	default:
		r.fault(out.pos, "is not understood", "write a plain mapping, list or value")
	}
}

func (r *reader) anchor(n *ast.AnchorNode, depth int) *node {
	name := n.Name.GetToken().Value
	if n.Value == nil {
		return &node{pos: r.pos(n), size: 1}
	}
	out := r.node(n.Value, depth+1)
	// Registered only now: an alias inside its own anchor is unknown, so no value contains itself.
	r.anchors[name] = out
	return out
}

func (r *reader) alias(n *ast.AliasNode, out *node) *node {
	name := ""
	if n.Value != nil {
		name = n.Value.GetToken().Value
	}
	target, ok := r.anchors[name]
	if !ok {
		r.fault(out.pos, "the alias *"+name+" has no anchor before it", "write &"+name+" at the value it means, or write the value out")
		return out
	}
	return target
}

// mapping fills a mapping. Keys of << are added after all others, where they are not written already.
func (r *reader) mapping(out *node, values []*ast.MappingValueNode, depth int) {
	out.kind = mapping
	var merged []*node
	first := map[string]Pos{}
	for _, mv := range values {
		pos := r.pos(mv.Key)
		if _, ok := mv.Key.(*ast.MergeKeyNode); ok {
			merged = append(merged, r.node(mv.Value, depth+1))
			continue
		}
		name, ok := r.key(mv.Key)
		if !ok {
			r.fault(pos, "this key is not a plain word", "write a name before the colon")
			continue
		}
		if at, dup := first[name]; dup {
			r.fault(pos, fmt.Sprintf("%s is written twice, first in line %d", quote(name), at.Line), "keep one of them")
			continue
		}
		first[name] = pos
		out.keys = append(out.keys, key{name, pos})
		out.add(r.node(mv.Value, depth+1))
	}
	for _, m := range merged {
		r.merge(out, first, m)
	}
}

func (r *reader) merge(out *node, first map[string]Pos, m *node) {
	sources := []*node{m}
	if m.kind == list {
		sources = m.items
	}
	for _, s := range sources {
		if s.kind != mapping {
			r.fault(s.pos, "<< merges a mapping, and this is "+s.kind.String(), "write an alias of a mapping")
			continue
		}
		for i, k := range s.keys {
			if _, has := first[k.name]; !has {
				first[k.name] = k.pos
				out.keys = append(out.keys, k)
				out.add(s.items[i])
			}
		}
	}
}

func (r *reader) key(k ast.MapKeyNode) (string, bool) {
	switch k := k.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return k.GetToken().Value, true
	}
	return "", false
}
