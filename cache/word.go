package cache

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// exact ends the text of what counts letter by letter, so that no other word is taken for it. No text holds it unquoted.
const exact = "\x03"

// word adds what stands between two spaces, without the marks around it.
func (s *splitter) word(text string) {
	starts := !s.begun
	s.begun = true
	last := len(s.r.tokens) - 1
	switch {
	case last >= 0 && s.r.tokens[last].kind == number && units[text]:
		s.add(quoted, text+exact)
	case strings.ContainsAny(text, `/\_=@<>{}[]|`) || strings.HasPrefix(text, "www."), strings.Contains(text, "::"):
		s.add(quoted, text+exact)
	case strings.ContainsFunc(text, unicode.IsDigit):
		s.figure(text)
	default:
		s.r.tokens = append(s.r.tokens, s.plain(text, starts))
	}
}

// plain is a word of letters. Case counts where it makes another word.
func (s *splitter) plain(text string, starts bool) token {
	small := strings.ToLower(text)
	t := token{kind: word, text: small}
	if text == small || s.loud {
		return t
	}
	t.capital = !starts
	first, n := utf8.DecodeRuneInString(text)
	switch {
	case n == len(text) && first != 'I' && first != 'A', n == len(text) && first == 'A' && !starts:
		t.text = text + exact // C, R, K, vitamin A
	case !starts && names[small], acronyms[small] && text == strings.ToUpper(text):
		t.text = text + exact
	}
	return t
}

// figure adds a text with digits: a number with the signs and the unit that stand close to it, or a code.
func (s *splitter) figure(text string) {
	if sign, n := utf8.DecodeRuneInString(text); unicode.Is(unicode.Sc, sign) && len(text) > n {
		s.add(mark, string(sign))
		text = text[n:]
	}
	end := strings.IndexFunc(text, func(c rune) bool { return !unicode.IsDigit(c) && !strings.ContainsRune(",.+-:", c) })
	if end <= 0 {
		end = len(text)
	}
	tail := text[end:]
	if sign, n := utf8.DecodeRuneInString(tail); tail == "%" || unicode.Is(unicode.Sc, sign) && n == len(tail) || units[tail] {
		s.add(number, text[:end])
		k := mark
		if units[tail] {
			k, tail = quoted, tail+exact
		}
		s.add(k, tail)
		return
	}
	if small := strings.ToLower(text); small != text && strings.ToUpper(text) != text {
		s.add(number, text+exact) // aB3x and Ab3x are two codes, 2FA and 2fa one word
	} else {
		s.add(number, small)
	}
}

// expand writes contractions out.
func (r *reading) expand() {
	out := make([]token, 0, len(r.tokens)+4)
	for i, t := range r.tokens {
		full, ok := "", false
		if t.text == "i'd" && r.at(i+1) == "like" {
			full, ok = "i would", true // elsewhere it may be "had"
		} else if t.kind == word {
			full, ok = writtenOut(t.text)
		}
		if !ok {
			out = append(out, t)
			continue
		}
		for w := range strings.FieldsSeq(full) {
			out = append(out, token{kind: word, text: w})
		}
	}
	r.tokens = out
}

// writtenOut is what a contraction stands for.
func writtenOut(text string) (full string, ok bool) {
	if full, ok = contractions[text]; ok {
		return full, true
	}
	if verb, ok := strings.CutSuffix(text, "n't"); ok && verb != "" {
		return verb + " not", true
	}
	for _, ending := range [...][2]string{{"'re", " are"}, {"'ve", " have"}, {"'ll", " will"}, {"'m", " am"}} {
		if who, ok := strings.CutSuffix(text, ending[0]); ok && pronouns[who] {
			return who + ending[1], true
		}
	}
	return "", false
}

// numbers writes English numbers below a hundred in digits, and without the commas between thousands; and percentages and amounts
// of euros and pounds in one way. Dollars are left: there are many.
func (r *reading) numbers() {
	for i := 0; i < len(r.tokens); i++ {
		t := &r.tokens[i]
		switch {
		case t.kind == number:
			t.text = r.grouped(t.text)
			r.amount(i)
		case t.kind == word && r.english:
			r.spelt(i)
			r.amount(i)
		}
	}
}

// spelt writes a number that is spelt out in digits.
func (r *reading) spelt(i int) {
	text, more, hyphen := strings.Cut(r.at(i), "-")
	n, ok := numbers[text]
	if !ok || text == "one" && (r.at(i-1) == "no" || r.at(i+1) == "another") {
		return
	}
	if n >= 20 && hyphen {
		unit, ok := numbers[more]
		if !ok || unit > 9 {
			return
		}
		n += unit
	} else if hyphen {
		return
	} else if unit, ok := numbers[r.at(i+1)]; ok && n >= 20 && unit < 10 && unit > 0 {
		n += unit
		r.cut(i+1, 1)
	}
	r.tokens[i] = token{kind: number, text: strconv.Itoa(n)}
}

// grouped takes the commas between thousands out: those of two groups or more anywhere, a single one in English, where it
// is none of a decimal.
func (r *reading) grouped(text string) string {
	head, rest, ok := strings.Cut(text, ",")
	if !ok || len(head) == 0 || len(head) > 3 || head[0] == '0' || !digits(head) {
		return text
	}
	whole, decimals, point := strings.Cut(rest, ".")
	groups := strings.Split(whole, ",")
	for _, g := range groups {
		if len(g) != 3 || !digits(g) {
			return text
		}
	}
	if len(groups) < 2 && !r.english || point && !digits(decimals) {
		return text
	}
	text = head + strings.Join(groups, "")
	if point {
		text += "." + decimals
	}
	return text
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// amount writes a number's percent sign or currency behind it.
func (r *reading) amount(i int) {
	if r.tokens[i].kind != number {
		return
	}
	if n, ok := r.says(i+1, "percent"); ok {
		r.tokens[i+n] = token{kind: mark, text: "%"}
	} else if n, ok := r.says(i+1, "per cent"); ok {
		r.tokens[i+1] = token{kind: mark, text: "%"}
		r.cut(i+n, 1)
	}
	if name, ok := unitNames[r.at(i+1)]; ok {
		r.tokens[i+1] = token{kind: quoted, text: name + exact}
	}
	if name, ok := currencies[r.at(i+1)]; ok {
		r.tokens[i+1] = token{kind: word, text: name}
	} else if name, ok := currencies[r.at(i-1)]; ok && r.tokens[i-1].kind == mark {
		n := r.tokens[i]
		r.tokens[i-1], r.tokens[i] = n, token{kind: word, text: name}
	}
}

// spell writes words of one meaning and one sound in one way.
func (r *reading) spell() {
	for i := range r.tokens {
		t := &r.tokens[i]
		switch same, ok := spellings[t.text]; {
		case t.kind == word && ok:
			t.text = same
		case t.kind == word && strings.Contains(t.text, "is"):
			if stem, rest, ok := cutIse(t.text); ok && iseStems[stem] {
				t.text = stem + "iz" + rest
			}
		case t.kind == word && t.text == "&" && i > 0 && i+1 < len(r.tokens):
			t.text = "and"
		}
	}
}

// cutIse splits a word before its ending -ise, -ised, -ising, -isation.
func cutIse(text string) (stem, rest string, ok bool) {
	at := strings.LastIndex(text, "is")
	switch rest = text[at+2:]; rest {
	case "e", "ed", "es", "er", "ers", "ing", "ation", "ations":
		return text[:at], rest, true
	}
	return "", "", false
}
