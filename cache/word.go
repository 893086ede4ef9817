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
	case strings.ContainsAny(text, `/\_=@<>{}[]()|`), strings.HasPrefix(text, "www."), strings.HasPrefix(text, "-") && len(text) > 1, strings.Contains(text, "::"):
		s.add(quoted, text+exact)
	case caseUnits[strings.ToLower(text)]:
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
	case (!starts || s.few) && names[small], acronyms[small] && text == strings.ToUpper(text):
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
			t.text = r.grouped(i)
			r.amount(i)
		case t.kind == word && r.english:
			r.spelt(i)
			r.amount(i)
		}
	}
}

// spelt writes a number that is spelt out in digits. Two that stand side by side are left: "twenty five dollar bills" are two sums.
func (r *reading) spelt(i int) {
	n, ok := spelling(r.at(i))
	if !ok || n == 1 && (r.at(i-1) == "no" || r.at(i+1) == "another") {
		return
	}
	for _, k := range [...]int{i - 1, i + 1} {
		if _, beside := spelling(r.at(k)); beside || k >= 0 && k < len(r.tokens) && r.tokens[k].kind == number {
			return
		}
	}
	r.tokens[i] = token{kind: number, text: strconv.Itoa(n)}
}

// spelling is the number that a word spells.
func spelling(text string) (n int, ok bool) {
	ten, unit, hyphen := strings.Cut(text, "-")
	if n, ok = numbers[ten]; !hyphen || !ok {
		return n, ok
	}
	more := numbers[unit]
	return n + more, n >= 20 && more > 0 && more < 10
}

// grouped takes the commas between thousands out, where a number counts what stands behind it: "100,200" may be two numbers, and in
// other languages than English a single comma is that of a decimal.
func (r *reading) grouped(i int) string {
	text := r.at(i)
	head, rest, ok := strings.Cut(text, ",")
	if !ok || len(head) > 3 || strings.HasPrefix(head, "0") || !digits(head) || !r.counts(i+1) {
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

// counts says that what a number before it counts stands at i.
func (r *reading) counts(i int) bool {
	return i < len(r.tokens) && (r.tokens[i].kind == word || r.tokens[i].kind == quoted) && !afterArticle[r.at(i)]
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
	switch {
	case r.at(i+1) == "percent":
		r.tokens[i+1] = token{kind: mark, text: "%"}
	case r.at(i+1) == "per" && r.at(i+2) == "cent":
		r.tokens[i+1] = token{kind: mark, text: "%"}
		r.cut(i+2, 1)
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
