package cache

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is what a token is.
type kind uint8

const (
	word   kind = iota
	number      // it begins with a digit, or with a sign before one
	mark        // punctuation, or the end of a line
	quoted      // as it stands: quotations, code, addresses, paths, identifiers
)

// token is one thing that a text says.
type token struct {
	kind    kind
	text    string
	capital bool // a word with a capital that does not stand there because a sentence begins
}

// split cuts a text into tokens.
func split(text string) *reading {
	r := &reading{}
	text = strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"))
	r.lines = strings.Contains(text, "\n")
	few := len(strings.Fields(text)) <= fewWords
	s := splitter{r: r, few: few, loud: !few && isLoud(text)}
	for line := range strings.SplitSeq(fence(text), "\n") {
		s.line(strings.ReplaceAll(line, fenced, "\n"))
	}
	return r
}

// fenced stands for a line break within quoted code, which is no end of a line of the text. It is no character of any text: what
// holds it is not UTF-8.
const fenced = "\xff"

// fence marks the line breaks within ``` fences, so that a block of code is one quotation.
func fence(text string) string {
	parts := strings.Split(text, "```")
	if len(parts) < 3 {
		return text
	}
	for i := 1; i < len(parts)-1; i += 2 {
		parts[i] = strings.ReplaceAll(parts[i], "\n", fenced)
	}
	return strings.Join(parts, "```")
}

// fewWords are so few that "Turkey" and "turkey", "US" and "us" are two questions, wherever they stand.
const fewWords = 2

// isLoud says that a text has no small letter: its capitals say nothing then.
func isLoud(text string) bool {
	capital := false
	for _, c := range text {
		if unicode.IsLower(c) {
			return false
		}
		capital = capital || unicode.IsUpper(c)
	}
	return capital
}

// splitter cuts lines into tokens.
type splitter struct {
	r     *reading
	few   bool // so few words that each one's capital tells
	loud  bool // its capitals tell nothing
	begun bool // a word of this sentence has come
}

func (s *splitter) add(k kind, text string) {
	s.r.tokens = append(s.r.tokens, token{kind: k, text: text})
}

func (s *splitter) line(line string) {
	if s.r.lines {
		body := strings.TrimLeft(line, " \t")
		if body == "" {
			return // empty lines part nothing that a line's end does not part
		}
		if len(s.r.tokens) > 0 {
			s.add(mark, "\n"+line[:len(line)-len(body)])
		}
		s.begun, line = false, body
	}
	for line != "" {
		line = s.next(line)
	}
}

// next takes one quotation or one run without spaces off the front of a line.
func (s *splitter) next(line string) string {
	c, n := utf8.DecodeRuneInString(line)
	switch {
	case isSpace(c), invisible(c):
		return line[n:]
	}
	if text, after, ok := quotation(line); ok {
		s.add(quoted, "\""+text)
		s.begun = true
		return after
	}
	end := len(line)
	for i, c := range line {
		if i > 0 && (isSpace(c) || closing[c] != 0 && startsQuote(line, i)) {
			end = i
			break
		}
	}
	s.chunk(line[:end])
	return line[end:]
}

// closing has the mark that ends the quotation which a mark begins.
var closing = map[rune]rune{'`': '`', '"': '"', '“': '”', '„': '“', '«': '»', '»': '«', '「': '」', '『': '』', '《': '》', '‘': '’', '\'': '\'', '‹': '›'}

// startsQuote says that the mark at i can begin a quotation: an apostrophe stands within a word, or behind one.
func startsQuote(line string, i int) bool {
	c, _ := utf8.DecodeRuneInString(line[i:])
	if c != '\'' && c != '‘' && c != '"' {
		return true
	}
	before, _ := utf8.DecodeLastRuneInString(line[:i])
	return i == 0 || !unicode.IsLetter(before) && !unicode.IsDigit(before)
}

// quotation takes a quotation off the front. What stands in it counts to the last space.
func quotation(line string) (text, after string, ok bool) {
	open, n := utf8.DecodeRuneInString(line)
	ends := closing[open]
	if ends == 0 {
		return "", "", false
	}
	mark := string(ends)
	if open == '`' {
		mark = line[:len(line)-len(strings.TrimLeft(line, "`"))]
		n = len(mark)
	}
	for i := n; i < len(line); {
		at := strings.Index(line[i:], mark)
		if at < 0 {
			return "", "", false
		}
		at += i
		next, _ := utf8.DecodeRuneInString(line[at+len(mark):])
		if at > n && (open != '\'' && open != '‘' || !unicode.IsLetter(next) && !unicode.IsDigit(next)) {
			return line[n:at], line[at+len(mark):], true
		}
		i = at + len(mark)
	}
	return "", "", false
}

// marks stand before or behind words, and are no part of them.
const (
	before = "([{<¿¡\"'“„«‘*"
	behind = ")]}>,.;:!?\"'”»’*"
)

// chunk cuts a run without spaces into the marks around it and what stands between.
func (s *splitter) chunk(text string) {
	text = fold(text)
	for text != "" {
		c, n := utf8.DecodeRuneInString(text)
		if !strings.ContainsRune(before, c) {
			break
		}
		s.mark(c)
		text = text[n:]
	}
	core := strings.TrimRight(text, behind)
	if strings.HasSuffix(core, "(") || strings.Count(core, "(") > strings.Count(core, ")") {
		core = text // f(x) and f(): the bracket is a part of it
		for strings.HasSuffix(core, ".") || strings.HasSuffix(core, "?") || strings.HasSuffix(core, ",") || strings.HasSuffix(core, "!") {
			core = core[:len(core)-1]
		}
	}
	s.core(core)
	for _, c := range text[len(core):] {
		s.mark(c)
	}
}

// mark adds a mark; a run of one is one, and where a sentence ends is where the next begins.
func (s *splitter) mark(c rune) {
	switch c {
	case '¿':
		s.r.asks = true
		return
	case '¡':
		return
	case '.', '!', '?':
		s.begun = false
	}
	text := string(c)
	if k := len(s.r.tokens); k > 0 && s.r.tokens[k-1].kind == mark && strings.ContainsRune(".,!?", c) &&
		(s.r.tokens[k-1].text == text || text == "!" && s.r.tokens[k-1].text == "?") {
		return
	}
	s.add(mark, text)
}

// core cuts where scripts without spaces begin and end: each of their characters is a word of its own, so that spaces between
// them do not count.
func (s *splitter) core(text string) {
	from, parts := 0, 0
	for i, c := range text {
		if !spaceless(c) && !strings.ContainsRune(wide, c) {
			continue
		}
		s.chunk(text[from:i])
		if from = i + utf8.RuneLen(c); strings.ContainsRune(wide, c) {
			s.mark([]rune(",.,")[strings.IndexRune(wide, c)/3])
		} else {
			s.add(word, text[i:from])
		}
		parts++
	}
	if parts > 0 {
		s.chunk(text[from:])
	} else if text != "" {
		s.word(text)
	}
}

// wide are the comma, the full stop and the dot between words of scripts without spaces, three bytes each.
const wide = "、。・"

func spaceless(c rune) bool {
	return c >= 0x2E80 && unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana) || c == 'ー' || c == '々'
}

// isSpace leaves out the ends of lines, of which only code has any here.
func isSpace(c rune) bool { return c != '\n' && unicode.IsSpace(c) }

// invisible characters are left behind by editors and by copying. Joiners are not among them: they make other words.
func invisible(c rune) bool { return c == '\u00ad' || c == '\u200b' || c == '\ufeff' || c == '\u2060' }

// fold writes what has several forms of one meaning in one: full width, typographic marks, dashes.
func fold(text string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c < 0x80:
			return c
		case invisible(c):
			return -1
		case c >= 0xFF01 && c <= 0xFF5E:
			return c - 0xFF01 + '!'
		case c == '’' || c == '‘' || c == 'ʼ' || c == '′':
			return '\''
		case c == '‐' || c == '‑' || c == '‒' || c == '–' || c == '—' || c == '−':
			return '-'
		case c == '…':
			return '.'
		case c == '｡':
			return '。'
		case c == '､':
			return '、'
		}
		return c
	}, text)
}
