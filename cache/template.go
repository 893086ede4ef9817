package cache

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxValue bounds a value of a template, in bytes. What is longer is a text of its own, and no value.
const MaxValue = 512

// maxPattern bounds a pattern, in bytes.
const maxPattern = 1024

// A Pattern is a text with values in it: "Tell me about {product}". {{ and }} stand for braces.
type Pattern struct {
	Name  string
	text  []string // around the values: one more than there are values
	names []string
}

// Match is a text that is a template's, with its values.
type Match struct {
	Template string
	Names    []string // of the pattern; not to be changed
	Values   []string
}

// ParsePattern reads a pattern. The error is [ErrPattern] and says behind a semicolon what to write instead.
func ParsePattern(name, pattern string) (*Pattern, error) {
	p := &Pattern{Name: name}
	fail := func(format string, args ...any) (*Pattern, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{ErrPattern}, args...)...)
	}
	switch {
	case len(pattern) > maxPattern:
		return fail("a pattern of %d bytes; write at most %d", len(pattern), maxPattern)
	case !utf8.ValidString(pattern):
		return fail("the pattern is not UTF-8; save it as UTF-8")
	}
	var text strings.Builder
	for rest := pattern; rest != ""; {
		switch c := rest[0]; {
		case strings.HasPrefix(rest, "{{"), strings.HasPrefix(rest, "}}"):
			text.WriteByte(c)
			rest = rest[2:]
		case c == '}':
			return fail("} closes nothing; write }} for a brace")
		case c == '{':
			name, after, ok := strings.Cut(rest[1:], "}")
			if !ok || strings.Contains(name, "{") {
				return fail("{ is not closed; write {{ for a brace")
			}
			if err := p.value(name, text.String()); err != nil {
				return nil, err
			}
			text.Reset()
			rest = after
		default:
			text.WriteByte(c)
			rest = rest[1:]
		}
	}
	p.text = append(p.text, spaced(text.String()))
	return p, p.check()
}

// value adds a value behind the text before it.
func (p *Pattern) value(name, before string) error {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return fmt.Errorf("%w: {%s} is no name of a value; write {product}", ErrPattern, name)
	}
	for _, n := range p.names {
		if n == name {
			return fmt.Errorf("%w: {%s} stands twice; give each value a name of its own", ErrPattern, name)
		}
	}
	p.text = append(p.text, spaced(before))
	p.names = append(p.names, name)
	return nil
}

// check refuses what would match whatever is asked, or in more ways than one.
func (p *Pattern) check() error {
	if len(p.names) == 0 {
		return fmt.Errorf("%w: it has no value; write values in braces, e.g. \"Tell me about {product}\"", ErrPattern)
	}
	if !strings.ContainsFunc(strings.Join(p.text, ""), func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
		return fmt.Errorf("%w: it has no words of its own, so every text would match; add the words around the values", ErrPattern)
	}
	for _, t := range p.text[1 : len(p.text)-1] {
		if strings.TrimSpace(t) == "" {
			return fmt.Errorf("%w: two values have no text between them, so where one ends is not to be told; put text between them, or make them one", ErrPattern)
		}
	}
	return nil
}

// Skeleton is the pattern without the names of its values: two templates of one skeleton match the same texts.
func (p *Pattern) Skeleton() string { return strings.Join(p.text, "{}") }

// Match says whether a whole text is the pattern's. White space around the text does not count, and as much of it as there
// is within counts as one space. Where the pattern fits in two ways each value ends as early as it can: with the pattern's
// own text the values make up the text in either, so two texts never share their values.
func (p *Pattern) Match(text string) (*Match, bool) {
	if !utf8.ValidString(text) {
		return nil, false // what would stand in for its bytes stands for others too
	}
	text = strings.TrimSpace(spaced(text))
	first, last := strings.TrimLeft(p.text[0], " "), strings.TrimRight(p.text[len(p.text)-1], " ")
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return nil, false
	}
	rest := text[len(first) : len(text)-len(last)]
	m := &Match{Template: p.Name, Names: p.names, Values: make([]string, 0, len(p.names))}
	for _, between := range p.text[1 : len(p.text)-1] {
		value, after, ok := strings.Cut(rest, between)
		if !ok {
			return nil, false
		}
		m.Values, rest = append(m.Values, value), after
	}
	m.Values = append(m.Values, rest)
	for _, v := range m.Values {
		if strings.TrimSpace(v) == "" || len(v) > MaxValue {
			return nil, false
		}
	}
	return m, true
}

// spaced makes every run of white space one space; those at the ends stay.
func spaced(s string) string {
	var b strings.Builder
	gap := false
	for _, r := range s {
		if unicode.IsSpace(r) {
			gap = true
			continue
		}
		if gap {
			b.WriteByte(' ')
			gap = false
		}
		b.WriteRune(r)
	}
	if gap {
		b.WriteByte(' ')
	}
	return b.String()
}
