package audit

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

// matching makes a string for a pattern, different for each n; ok is false for one that Go cannot read or that the
// string fails after all.
func matching(pattern string, n int) (s string, ok bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	var b strings.Builder
	g := &patternMaker{out: &b, n: n}
	g.write(re.Simplify(), 0)
	check, err := regexp.Compile(pattern)
	if err != nil || !check.MatchString(b.String()) {
		return "", false
	}
	return b.String(), true
}

const maxMade = 256 // characters made for a pattern

type patternMaker struct {
	out *strings.Builder
	n   int // spent digit by digit on the classes, so that n and n+1 differ
}

func (g *patternMaker) write(re *syntax.Regexp, depth int) {
	if g.out.Len() > maxMade || depth > 50 {
		return
	}
	switch re.Op {
	case syntax.OpLiteral:
		g.out.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		g.class(re.Rune)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		g.class([]rune{'a', 'z'})
	case syntax.OpStar, syntax.OpPlus, syntax.OpRepeat:
		times := max(re.Min, 1)
		if re.Op != syntax.OpRepeat {
			times = 6
		}
		for range times {
			g.write(re.Sub[0], depth+1)
		}
	case syntax.OpQuest:
	case syntax.OpAlternate:
		g.write(re.Sub[0], depth+1)
	default:
		for _, sub := range re.Sub {
			g.write(sub, depth+1)
		}
	}
}

func (g *patternMaker) class(ranges []rune) {
	size := 0
	for i := 0; i+1 < len(ranges); i += 2 {
		size += int(ranges[i+1]-ranges[i]) + 1
	}
	if size <= 0 {
		return
	}
	if size > 1<<16 { // a negated class: a letter is in nearly all of them
		ranges, size = []rune{'a', 'z'}, 26
	}
	at := g.n % size
	g.n /= size
	for i := 0; i+1 < len(ranges); i += 2 {
		span := int(ranges[i+1]-ranges[i]) + 1
		if at < span {
			g.out.WriteRune(ranges[i] + rune(at))
			return
		}
		at -= span
	}
}
