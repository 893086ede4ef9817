package policy

import "strings"

// sqlKind is what a stretch of a statement is.
type sqlKind uint8

const (
	sqlCode sqlKind = iota
	sqlString
	sqlName // in double quotes
	sqlComment
)

// sqlPiece is one stretch of a statement, as it is written.
type sqlPiece struct {
	kind   sqlKind
	text   string
	closed bool
}

// sqlPieces takes a statement apart into code, and what is none. Postgres has text in dollar quotes, text with escapes (E'…') and
// comments within comments (PostgreSQL, Lexical Structure), SQLite has none of them.
func sqlPieces(sql string, postgres bool) []sqlPiece {
	var all []sqlPiece
	code := 0
	for i := 0; i < len(sql); {
		kind, n, closed := noCode(sql, i, postgres)
		if n == 0 {
			i += nameLength(sql[i:], postgres)
			continue
		}
		if i > code {
			all = append(all, sqlPiece{sqlCode, sql[code:i], true})
		}
		all = append(all, sqlPiece{kind, sql[i : i+n], closed})
		i += n
		code = i
	}
	if code < len(sql) {
		all = append(all, sqlPiece{sqlCode, sql[code:], true})
	}
	return all
}

// nameLength is the length of the word at the begin of text, else 1. To Postgres a$b$ is one name, and no text.
func nameLength(text string, postgres bool) int {
	n := 1
	for inName(text[0]) && n < len(text) && (inName(text[n]) || text[n] == '$' && postgres) {
		n++
	}
	return n
}

// noCode is the length of what begins at i and is no code, 0 if code goes on.
func noCode(sql string, i int, postgres bool) (kind sqlKind, n int, closed bool) {
	rest := sql[i:]
	switch {
	case rest[0] == '\'':
		escapes := postgres && i > 0 && sql[i-1]|0x20 == 'e' && (i == 1 || !inName(sql[i-2]) && sql[i-2] != '$')
		n, closed = quoted(rest, escapes)
		return sqlString, n, closed
	case rest[0] == '"':
		n, closed = quoted(rest, false)
		return sqlName, n, closed
	case strings.HasPrefix(rest, "--"):
		if n = strings.IndexByte(rest, '\n'); n < 0 {
			n = len(rest)
		}
		return sqlComment, n, true
	case strings.HasPrefix(rest, "/*"):
		n, closed = comment(rest, postgres)
		return sqlComment, n, closed
	case rest[0] == '$' && postgres:
		tag := dollarTag(rest)
		if tag == "" {
			return sqlCode, 0, true
		}
		if end := strings.Index(rest[len(tag):], tag); end >= 0 {
			return sqlString, end + 2*len(tag), true
		}
		return sqlString, len(rest), false
	}
	return sqlCode, 0, true
}

// quoted is the length of what stands in quotes; a doubled one stands for itself.
func quoted(text string, escapes bool) (n int, closed bool) {
	for i := 1; i < len(text); i++ {
		switch {
		case escapes && text[i] == '\\':
			i++
		case text[i] != text[0]:
		case i+1 < len(text) && text[i+1] == text[0]:
			i++
		default:
			return i + 1, true
		}
	}
	return len(text), false
}

func comment(text string, nested bool) (n int, closed bool) {
	depth := 0
	for i := 0; i+1 < len(text); i++ {
		switch text[i : i+2] {
		case "/*":
			if depth == 0 || nested {
				depth++
				i++
			}
		case "*/":
			depth--
			i++
			if depth == 0 {
				return i + 1, true
			}
		}
	}
	return len(text), false
}

// dollarTag is $$ or $tag$ at the begin of text, empty if there is none: $1 is a parameter.
func dollarTag(text string) string {
	end := strings.IndexByte(text[1:], '$')
	if end < 0 {
		return ""
	}
	tag := text[1 : 1+end]
	for i := range len(tag) {
		if !inName(tag[i]) || i == 0 && tag[0] >= '0' && tag[0] <= '9' {
			return ""
		}
	}
	return text[:end+2]
}

// inName says that c is of a name, or of a keyword.
func inName(c byte) bool {
	return c == '_' || c >= 0x80 || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// outsideText applies f to what is neither text, nor a quoted name, nor a comment.
func outsideText(sql string, postgres bool, f func(string) string) string {
	var b strings.Builder
	for _, p := range sqlPieces(sql, postgres) {
		if p.kind == sqlCode {
			p.text = f(p.text)
		}
		b.WriteString(p.text)
	}
	return b.String()
}

// sqlToken is a word in lower case, a number, a text, a quoted name or a sign of one byte.
type sqlToken struct {
	kind sqlKind
	text string // of texts and names what is in the quotes
	raw  string // as written
}

func (t sqlToken) is(code ...string) bool {
	for _, c := range code {
		if t.kind == sqlCode && t.text == c {
			return true
		}
	}
	return false
}

// sqlTokens reads a statement's tokens. A text with escapes or in dollar quotes keeps them: nobody looks at it.
func sqlTokens(sql string, postgres bool) []sqlToken {
	var all []sqlToken
	for _, p := range sqlPieces(sql, postgres) {
		switch p.kind {
		case sqlString, sqlName:
			q := p.text[:1]
			text := strings.TrimSuffix(strings.TrimPrefix(p.text, q), q)
			all = append(all, sqlToken{p.kind, strings.ReplaceAll(text, q+q, q), p.text})
		case sqlCode:
			all = appendTokens(all, p.text)
		}
	}
	return all
}

func appendTokens(all []sqlToken, code string) []sqlToken {
	for i := 0; i < len(code); {
		n := 1
		if inName(code[i]) {
			number := code[i] >= '0' && code[i] <= '9'
			for i+n < len(code) && (inName(code[i+n]) || number && code[i+n] == '.') {
				n++
			}
		}
		if word := code[i : i+n]; strings.TrimSpace(word) != "" {
			all = append(all, sqlToken{sqlCode, strings.ToLower(word), word})
		}
		i += n
	}
	return all
}
