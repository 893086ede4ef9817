package cache

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// small writes in small letters what has capitals for no other reason than where it stands, or than that all has. Every other capital
// may make another word: Steam, IT, CO.
func small(words []string) []string {
	if len(words) == 0 {
		return words
	}
	opens := isOpening(words)
	switch {
	case opens && isLoud(words):
		for i, w := range words {
			words[i] = smallLoud(w)
		}
	case opens && isTitle(words):
		for i, w := range words {
			words[i] = smallTitle(w)
		}
	case opens && isCapitalised(words[0]):
		words[0] = strings.ToLower(words[0])
	}
	for i := range words {
		words[i] = smallCode(words, i)
	}
	return words
}

// isOpening says that a text's first word is no name: it begins questions or requests, or what makes it such stands behind it.
func isOpening(words []string) bool {
	first := bare(strings.ToLower(words[0]))
	if starters[first] || greetings[first] && strings.HasSuffix(words[0], ",") {
		return true
	}
	if len(words) < 2 {
		return false
	}
	switch next := strings.ToLower(words[1]); first {
	case "who": // a band, the WHO
		return words[0] != strings.ToUpper(words[0]) && (auxiliaries[next] || behindWho[next])
	case "which": // a magazine
		return slices.ContainsFunc(words, func(w string) bool { return auxiliaries[strings.ToLower(w)] })
	case "please", "bitte":
		return isRequest(strings.Fields(strings.ToLower(strings.Join(words[1:], " "))))
	case "price":
		return next == "in" || next == "of" || next == "for"
	default:
		return listers[first] && determiners[next] || persons[next] && utf8.RuneCountInString(first) > 2 && !names[first]
	}
}

// isLoud says that a text of several words has no small letter: its capitals say nothing then, but for a German SS, which may be an ß.
func isLoud(words []string) bool {
	text := strings.Join(words, " ")
	return len(words) > 1 && !strings.ContainsFunc(text, unicode.IsLower) && !(german[strings.ToLower(words[0])] && strings.Contains(text, "SS"))
}

// isTitle says that every word of a text begins with a capital, and that it is a request of a kind that is the name of nothing.
func isTitle(words []string) bool {
	if len(words) < 3 {
		return false
	}
	first, second := strings.ToLower(words[0]), words[1]
	order := orders[first] && (second == "My" || second == "The" || second == "Order")
	if !order && ((first != "can" && first != "can't") || second != "I" || len(words) < 6) {
		return false
	}
	for _, w := range words {
		if w = bare(w); !isCapitalised(w) && w != "I" && !strings.ContainsFunc(w, unicode.IsDigit) {
			return false
		}
	}
	return true
}

// isCapitalised says that the first letter is a capital and no other is.
func isCapitalised(word string) bool {
	first, n := utf8.DecodeRuneInString(word)
	return n < len(word) && unicode.IsUpper(first) && !strings.ContainsFunc(word[n:], unicode.IsUpper)
}

// smallLoud leaves in capitals what is another word by them, and what is so short that it may be: US, MB, CO.
func smallLoud(word string) string {
	s := strings.ToLower(word)
	switch b := bare(s); {
	case strings.ContainsFunc(word, unicode.IsDigit), acronyms[b], names[b], caseUnits[b], !isPlain(strings.ReplaceAll(b, "'", "x")) && !shortWords[b]:
		return word
	case utf8.RuneCountInString(b) <= 2 && !shortWords[b]:
		return word
	}
	return s
}

// smallTitle leaves the capital of what may be a name.
func smallTitle(word string) string {
	s := strings.ToLower(word)
	if names[bare(s)] || strings.ContainsFunc(word, unicode.IsDigit) {
		return word
	}
	return s
}

// smallCode writes what has one meaning in any case in small letters, and so the English "I".
func smallCode(words []string, i int) string {
	word := words[i]
	s := strings.ToLower(word)
	switch b := bare(s); {
	case caseless[b]:
		return s
	case b == "i" && (i > 0 && beforeI[words[i-1]] || i+1 < len(words) && behindI[words[i+1]]):
		return s
	}
	return word
}

// bare is a word without the mark behind it.
func bare(word string) string { return strings.TrimRight(word, ",.?;") }
