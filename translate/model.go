package translate

import (
	"strconv"
	"strings"
)

// What a model takes goes by its public name. A name that is not understood gets the careful answer, no.

// claude is the version in a name such as claude-opus-4-7-20260416, claude-3-5-sonnet-latest or anthropic.claude-sonnet-5:
// 407, 305 and 500. It is 0 where the name says none.
func claude(name string) int {
	_, rest, ok := strings.Cut(name, "claude-")
	if !ok {
		return 0
	}
	words := strings.FieldsFunc(rest, func(r rune) bool { return r == '-' || r == '@' || r == ':' })
	for i, word := range words {
		major, ok := small(word)
		if !ok {
			continue
		}
		if i+1 < len(words) {
			if minor, ok := small(words[i+1]); ok {
				return 100*major + minor
			}
		}
		return 100 * major
	}
	return 0
}

// small reads a part of a version: one or two digits, and so no date.
func small(word string) (int, bool) {
	n, err := strconv.Atoi(word)
	return n, err == nil && n >= 0 && len(word) <= 2
}

// gemini is the version in a name such as models/gemini-2.5-flash: 205. It is 0 where the name says none.
func gemini(name string) int {
	_, rest, ok := strings.Cut(name, "gemini-")
	if !ok {
		return 0
	}
	rest, _, _ = strings.Cut(rest, "-")
	whole, part, _ := strings.Cut(rest, ".")
	major, ok := small(whole)
	minor, _ := small(part)
	if !ok {
		return 0
	}
	return 100*major + minor
}

// reasons reports whether a model of OpenAI's always reasons before it answers: those refuse sampling and stop sequences
// (https://platform.openai.com/docs/guides/reasoning; openai-go, ChatCompletionNewParams.Stop), and take a reasoning effort.
func reasons(name string) bool {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	if strings.Contains(name, "-chat") {
		return false
	}
	for _, family := range []string{"o1", "o3", "o4", "gpt-5", "gpt-6"} {
		if rest, ok := strings.CutPrefix(name, family); ok && (rest == "" || rest[0] == '-' || rest[0] == '.') {
			return true
		}
	}
	return false
}
