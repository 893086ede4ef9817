package cache

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Guard is a hash of a text's reading: two texts with one guard ask the same.
type Guard [32]byte

// GuardOf is the guard of a text that is asked at a time.
//
// A reading is the text as it stands, but for the few differences of which it is certain that they ask nothing else: the white space
// of one line of plain words, the capital it begins with, capitals throughout, a typographic apostrophe, a few contractions,
// a greeting or a plea that frames a request, and the mark at its end where its first words already ask. A text with anything of code,
// quotations or several lines in it, or that is about words, is read letter by letter. Whatever is not known to make no
// difference makes one: so negations, opposites, numbers, units, names, articles, spellings, languages and scripts need no list.
// A wrong answer is a defect, a missed one costs a call.
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

// exact begins what is no word of a text's: the mark of a text that counts letter by letter, and the hour of one that is about its time.
const exact = "\x03"

// read is what of a text counts. Each step takes out or writes otherwise what asks nothing else.
func read(text string, at time.Time) []string {
	text = trim(strings.ReplaceAll(text, "\r\n", "\n"))
	words := []string{exact, text}
	switch {
	case !isProse(text):
	case isAboutWords(text):
		if !containsAny(strings.ToLower(text), spacing) {
			words = append(words[:1], strings.Fields(text)...)
		}
	default:
		words = unmarked(unframed(writtenOut(small(openQuestion(strings.Fields(apart(straight(text))))))))
	}
	if isAboutNow(text) {
		words = append(words, exact+at.UTC().Format("2006-01-02T15"))
	}
	return words
}

// trim takes off the space around a text. How the first of several lines is indented counts as with the others.
func trim(text string) string {
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	bare := strings.TrimLeftFunc(text, unicode.IsSpace)
	if first := strings.LastIndexByte(text[:len(text)-len(bare)], '\n') + 1; strings.Contains(bare, "\n") {
		return text[first:]
	}
	return bare
}

// isProse says that a text is one line of words, numbers and the plainest marks. Any other sign may be code, a quotation or a formula,
// of which every character may be what is asked about.
func isProse(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	odd := func(c rune) bool {
		return c != '\t' && !unicode.In(c, unicode.L, unicode.M, unicode.Nd, unicode.Zs) && !strings.ContainsRune("-–—,.…;!?¡¿'’%$€£&、。！？，؟،", c)
	}
	return !strings.ContainsFunc(text, odd) && !strings.Contains(text, "\t\t") && !isQuoting(text) // an empty cell stands between two tabs
}

// isQuoting says that an apostrophe stands elsewhere than between two letters: it may begin a quotation, or be a sign of code.
func isQuoting(text string) bool {
	for i, c := range text {
		if c != '\'' && c != '’' {
			continue
		}
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(c):])
		if !unicode.IsLetter(before) || !unicode.IsLetter(after) {
			return true
		}
	}
	return false
}

// isAboutWords says that a text is about words: how it is written may be what it asks about, or what is to be worked on.
func isAboutWords(text string) bool {
	return slices.ContainsFunc(partsOf(text), func(w string) bool { return wording[w] }) || containsAny(text, wordingSigns)
}

// isAboutNow says that what a text asks changes with the clock.
func isAboutNow(text string) bool {
	words := partsOf(text)
	for i, w := range words {
		if nowWords[w] || nowWhich[w] && i+1 < len(words) && nowUnits[words[i+1]] {
			return true
		}
	}
	return containsAny(text, nowSigns)
}

// partsOf is the words of a text in small letters, without what stands around them.
func partsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(strings.ReplaceAll(text, "’", "'")), func(c rune) bool {
		return c != '\'' && !unicode.IsLetter(c) && !unicode.IsMark(c) && !unicode.IsDigit(c)
	})
}

func containsAny(text string, signs []string) bool {
	return slices.ContainsFunc(signs, func(s string) bool { return strings.Contains(text, s) })
}

// straight writes apostrophes in one way: all that stand in prose stand between letters.
func straight(text string) string { return strings.ReplaceAll(text, "’", "'") }

// apart puts a space between the letters of scripts with and without spaces, where one may stand or not, and writes the wide forms
// of Latin letters and digits as narrow ones if the text has no narrow ones that it could tell them from.
func apart(text string) string {
	if !strings.ContainsFunc(text, isSpaceless) {
		return text
	}
	if !strings.ContainsFunc(text, func(c rune) bool { return c < utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c)) }) {
		text = strings.Map(narrow, text)
	}
	var out strings.Builder
	before := ' '
	for _, c := range text {
		if isSpaceless(before) && isLatin(c) || isLatin(before) && isSpaceless(c) {
			out.WriteByte(' ')
		}
		if c == '？' {
			c = '?'
		}
		out.WriteRune(c)
		before = c
	}
	return out.String()
}

// narrow is the narrow form of a wide Latin letter or digit.
func narrow(c rune) rune {
	if c >= '０' && c <= '９' || c >= 'Ａ' && c <= 'Ｚ' || c >= 'ａ' && c <= 'ｚ' {
		return c - '！' + '!'
	}
	return c
}

func isSpaceless(c rune) bool {
	return unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana) || c == 'ー'
}

func isLatin(c rune) bool { return c < utf8.RuneSelf && unicode.IsLetter(c) }
