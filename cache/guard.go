package cache

import (
	"crypto/sha256"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Guard is a hash of a text's reading: two texts with one guard ask the same.
type Guard [32]byte

// GuardOf is the guard of a text that is asked at a time.
//
// A reading is the text's every word, number, sign and quotation in order, but for the few differences of which it is known
// that they ask nothing else: white space, width and case of letters (but for names that are words too, US and us), marks at the end,
// contractions, British spelling, greetings and thanks, some articles, an English number below a hundred written out, how a
// percentage or an amount of euros is written. Whatever is not known to make no difference makes one: so negations, opposites,
// numbers, units, names, roles, languages and scripts need no list. A wrong answer is a defect, a missed one costs a call.
//
// What "today" or "the latest" asks changes with the clock: a text with such a word has another guard in every hour.
func GuardOf(text string, at time.Time) Guard {
	var h []byte
	for _, word := range read(text, at) {
		h = appendField(h, word)
	}
	return sha256.Sum256(h)
}

// Reading shows people what of a text counts.
func Reading(text string, at time.Time) string { return strings.Join(read(text, at), " ") }

// reading is a text on its way to its words.
type reading struct {
	tokens  []token
	english bool // it has words that only English has
	lines   bool // it is more than one line: where they end, and how they are indented, counts
	asks    bool // it began with the mark of a Spanish question
}

// read is the list of what is done to a text. Each step takes out or writes otherwise what asks nothing else.
func read(text string, at time.Time) []string {
	r := split(text)
	if !utf8.ValidString(text) || r.aboutWords(text) {
		return r.verbatim(text, at)
	}
	r.expand()
	r.english = r.isEnglish()
	r.numbers()
	r.spell()
	r.polite()
	r.front()
	r.end()
	r.between()
	r.plurals()
	r.articles()
	return r.words(text, at)
}

// verbatim is the reading of a text in which every character may be what is asked about: only spaces do not count, nor the case
// of its first letter.
func (r *reading) verbatim(text string, at time.Time) []string {
	out := []string{exact}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		body := strings.TrimLeft(line, " \t")
		if i > 0 {
			out = append(out, "\n"+line[:len(line)-len(body)])
		}
		out = append(out, strings.Fields(body)...)
	}
	if len(out) > 1 {
		first, n := utf8.DecodeRuneInString(out[1])
		out[1] = string(unicode.ToLower(first)) + out[1][n:]
	}
	return r.dated(out, text, at)
}

// words is the outcome: what the tokens say.
func (r *reading) words(text string, at time.Time) []string {
	out := make([]string, 0, len(r.tokens)+1)
	for i := range r.tokens {
		out = append(out, r.tokens[i].text)
	}
	return r.dated(out, text, at)
}

// dated adds the hour where a text is about its time.
func (r *reading) dated(words []string, text string, at time.Time) []string {
	if r.aboutNow(text) {
		words = append(words, exact+at.UTC().Format("2006-01-02T15"))
	}
	return words
}

// isEnglish asks for words that no other language of the Latin script is likely to hold.
func (r *reading) isEnglish() bool {
	for i := range r.tokens {
		if t := &r.tokens[i]; t.kind == word && englishOnly[t.text] {
			return true
		}
	}
	return false
}

// at is the text of the i-th token, "" beyond the ends.
func (r *reading) at(i int) string {
	if i < 0 || i >= len(r.tokens) {
		return ""
	}
	return r.tokens[i].text
}

// says reports whether a phrase stands at i, and of how many words it is.
func (r *reading) says(i int, p phrase) (n int, ok bool) {
	if i < 0 || i+len(p) > len(r.tokens) {
		return 0, false
	}
	for k, w := range p {
		if t := &r.tokens[i+k]; t.text != w || t.kind == quoted {
			return 0, false
		}
	}
	return len(p), true
}

// cut takes out n tokens at i.
func (r *reading) cut(i, n int) { r.tokens = append(r.tokens[:i], r.tokens[i+n:]...) }
