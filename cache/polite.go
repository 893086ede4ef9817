package cache

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// openQuestion takes out the mark before a Spanish question that is the whole text: the one at its end says it already.
func openQuestion(words []string) []string {
	text := strings.Join(words, " ")
	if rest, ok := strings.CutPrefix(text, "¿"); ok && strings.IndexAny(rest, "¿?") == len(rest)-1 {
		return strings.Fields(rest)
	}
	return words
}

// writtenOut writes the first contraction out, where it is the verb of the text and stands for one thing only. Elsewhere it may be a part
// of a title, or what is asked about; "it's" may be "it has", and "could not only" is not "couldn't only".
func writtenOut(words []string) []string {
	for i := 0; i < min(2, len(words)-1); i++ {
		w, next := words[i], words[i+1]
		full, ok := contractions[w]
		who, is := strings.CutSuffix(w, "'s")
		first, _ := utf8.DecodeRuneInString(next)
		switch {
		case ok && unicode.IsLower(first) && !afterMention[next] && (i == 0 || subjects[words[0]]):
		case i == 0 && is && (who == "what" || who == "where") && (next == "the" || next == "my" || next == "your"):
			full = who + " is"
		default:
			continue
		}
		return slices.Concat(words[:i], strings.Fields(full), words[i+1:])
	}
	return words
}

// unframed takes a greeting and a plea off, where what is left is a request that needs none.
func unframed(words []string) []string {
	rest, asked := words, false
	if len(rest) > 1 && strings.HasSuffix(rest[0], ",") && greetings[bare(rest[0])] {
		rest = rest[1:]
	}
	rest, asked = unpleaded(rest)
	if !isRequest(rest) {
		return words
	}
	rest = slices.Clone(rest)
	if last := len(rest) - 1; asked && isPlain(strings.TrimSuffix(rest[last], "?")) {
		rest[last] = strings.TrimSuffix(rest[last], "?") // the mark of "could you please"
	}
	return unthanked(rest)
}

// unpleaded takes a plea off the front. Asked are those that make a question of a request.
func unpleaded(words []string) (rest []string, asked bool) {
	if len(words) > 3 && (words[0] == "can" || words[0] == "could" || words[0] == "would" || words[0] == "will") &&
		words[1] == "you" && words[2] == "please" && isOrder(words[3:]) {
		return words[3:], true
	}
	if len(words) > 1 && (words[0] == "please" || words[0] == "please," || words[0] == "bitte") {
		return words[1:], false
	}
	return words, false
}

// unthanked takes a plea or thanks off the end, behind the only comma of the text.
func unthanked(words []string) []string {
	text := strings.Join(words, " ")
	head, tail, ok := strings.Cut(text, ", ")
	mark := strings.TrimLeft(tail, "abcdefghijklmnopqrstuvwxyz ")
	if !ok || strings.Contains(tail, ",") || mark != "" && mark != "." && (mark != "?" || tail != "please?") {
		return words
	}
	rest := strings.Fields(head)
	switch strings.TrimSuffix(tail, mark) {
	case "please", "thanks", "thank you":
		if !replies[strings.ToLower(rest[len(rest)-1])] && isRequest(rest) && !slices.ContainsFunc(rest, func(w string) bool { return composing[w] }) {
			rest[len(rest)-1] += mark
			return rest
		}
	}
	return words
}

// isRequest says that a text is a question or an order by its first words.
func isRequest(words []string) bool { return isOrder(words) || isQuestion(words) }

// isOrder says that a text begins with a verb that asks to be told. Those that are nouns too need a word behind them.
func isOrder(words []string) bool {
	return len(words) > 1 && (tellers[words[0]] || listers[words[0]] && determiners[words[1]])
}

// isQuestion says that the first three words can begin nothing but a question: "what is the", not "what goes", "when you" or
// "what is done". A second verb may be that of a statement: "how are you is a greeting".
func isQuestion(words []string) bool {
	if len(words) < 4 || !interrogatives[words[0]] || !auxiliaries[words[1]] {
		return false
	}
	rest := words[2:]
	if rest[0] == "not" {
		rest = rest[1:]
	}
	return determiners[rest[0]] && !slices.ContainsFunc(rest, func(w string) bool { return stating[w] })
}

// unmarked takes the mark off the end where it says nothing: a full stop behind a word of letters, which is none of a number, a code
// or an abbreviation, and a question's mark behind one whose first words ask.
func unmarked(words []string) []string {
	if len(words) == 0 {
		return words
	}
	if k := len(words) - 1; k > 0 && words[k] == "?" && french[words[0]] && isPlain(words[k-1]) {
		words = append(words[:k-1], words[k-1]+"?")
	}
	end := len(words) - 1
	last := words[end]
	for _, mark := range [...]string{"ください。", "ください", "下さい。", "下さい", "。"} {
		stem := strings.TrimSuffix(last, mark)
		if stem != last && (mark == "。" || strings.HasSuffix(stem, "教えて") || strings.HasSuffix(stem, "説明して")) {
			words[end] = stem
			return words
		}
	}
	stem := last[:len(last)-lastLen(last)]
	sentences := slices.ContainsFunc(words[:end], func(w string) bool { return strings.ContainsAny(w[len(w)-1:], ".;!?") })
	switch {
	case !isPlain(stem) || sentences:
	case strings.HasSuffix(last, "."):
		if isAbbreviation(stem) {
			break
		}
		words[end] = stem
	case strings.HasSuffix(last, "?") && isQuestion(words) && !strings.Contains(strings.Join(words, " "), ","):
		words[end] = stem
	case strings.HasSuffix(last, "?") && slices.ContainsFunc(askingEnds, func(s string) bool { return strings.HasSuffix(stem, s) }):
		words[end] = stem
	}
	return words
}

// isAbbreviation says that a full stop may be a part of a word: Mass., fig.
func isAbbreviation(word string) bool {
	first, _ := utf8.DecodeRuneInString(word)
	return utf8.RuneCountInString(word) < 4 || unicode.IsUpper(first) && utf8.RuneCountInString(word) < 6
}

// lastLen is the length of the last character.
func lastLen(text string) int {
	_, n := utf8.DecodeLastRuneInString(text)
	return n
}

// isPlain says that a word is of letters alone, and of more than one.
func isPlain(word string) bool {
	return utf8.RuneCountInString(word) > 1 && !strings.ContainsFunc(word, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsMark(c) })
}
