package policy

import "strings"

// Nearest is the word among known that a misspelt one most likely means, empty if none is close. Known words are in
// lower case.
func Nearest(word string, known []string) string { return nearest(word, known) }

// nearest returns the known name that a misspelt one most likely means, empty if none is close.
func nearest(name string, known []string) string {
	if len(name) > 64 {
		return ""
	}
	lower := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	best, at := "", min(max(2, len(name)/3), len(name)/2)+1
	for _, k := range known {
		if len(name) >= 4 && strings.HasPrefix(k, lower) {
			return k
		}
		if d := distance(lower, k); d < at {
			best, at = k, d
		}
	}
	return best
}

// suggest is the remedy for a word that is not among the known ones.
func suggest(text string, known []string) string {
	if n := nearest(text, known); n != "" {
		return "did you mean " + n + "?"
	}
	if len(known) > 12 {
		return "see docs/configuration.md for what is known here"
	}
	return "write one of " + strings.Join(known, ", ")
}

// distance is the Damerau-Levenshtein distance (adjacent letters swapped count once), case ignored by the caller.
func distance(a, b string) int {
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
