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

// Match says whether a whole text is the pattern's. White space around the text and between it and a value does not count, and as much
// of it as there is within a line counts as one space; in a value of several lines the lines and what they are indented by count, for
// it may be a program. Where the pattern fits in two ways each value ends as early as it can: with the pattern's own text the values
// make up the text in either, so two texts never share their values.
func (p *Pattern) Match(text string) (*Match, bool) {
	if !utf8.ValidString(text) {
		return nil, false // what would stand in for its bytes stands for others too
	}
	s := space(text)
	first, last := strings.TrimLeft(p.text[0], " "), strings.TrimRight(p.text[len(p.text)-1], " ")
	from, to := len(s.text)-len(strings.TrimLeft(s.text, " ")), len(strings.TrimRight(s.text, " "))
	if to-from < len(first)+len(last) || !strings.HasPrefix(s.text[from:to], first) || !strings.HasSuffix(s.text[from:to], last) {
		return nil, false
	}
	from, to = from+len(first), to-len(last)
	m := &Match{Template: p.Name, Names: p.names, Values: make([]string, 0, len(p.names))}
	for _, between := range p.text[1 : len(p.text)-1] {
		n := strings.Index(s.text[from:to], between)
		if n < 0 {
			return nil, false
		}
		m.Values, from = append(m.Values, s.value(from, from+n)), from+n+len(between)
	}
	m.Values = append(m.Values, s.value(from, to))
	for _, v := range m.Values {
		if strings.TrimSpace(v) == "" || len(v) > MaxValue {
			return nil, false
		}
	}
	return m, true
}

// spacedText is a text with each run of white space as one space.
type spacedText struct {
	raw, text string
	at        []int // where each byte of text stands in raw, and where that ends
}

func space(raw string) *spacedText {
	s := &spacedText{raw: raw, at: make([]int, 0, len(raw)+1)}
	var b strings.Builder
	gap := false
	for i, r := range raw {
		white := unicode.IsSpace(r)
		if white && gap {
			continue
		}
		if gap = white; white {
			r = ' '
		}
		for range utf8.RuneLen(r) {
			s.at = append(s.at, i)
		}
		b.WriteRune(r)
	}
	s.text, s.at = b.String(), append(s.at, len(raw))
	return s
}

// value is a part of the text with what of its white space counts.
func (s *spacedText) value(from, to int) string {
	v := s.raw[s.at[from]:s.at[to]]
	if !strings.Contains(v, "\n") {
		return s.text[from:to]
	}
	if from > 0 && s.text[from-1] == ' ' { // the white space before the first line, which a line may begin in
		before := s.raw[s.at[from-1]:s.at[from]]
		if at := strings.LastIndexByte(before, '\n'); at >= 0 || from == 1 {
			v = before[at+1:] + v
		}
	}
	var b strings.Builder
	for i, line := range strings.Split(v, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		line = strings.TrimRightFunc(line, unicode.IsSpace)
		words := strings.TrimLeftFunc(line, unicode.IsSpace)
		b.WriteString(line[:len(line)-len(words)])
		b.WriteString(spaced(words))
	}
	return b.String()
}

// spaced makes every run of white space one space; those at the ends stay.
func spaced(s string) string { return space(s).text }
