package signal

import (
	"strings"
	"unicode/utf8"
)

// maxMessage bounds the words that are kept, maxMatch those that the rules read.
const (
	maxMessage = 512
	maxMatch   = 8 << 10
)

// keyPrefixes begin words that may be credentials (semantics 45); providers echo them in 401s.
var keyPrefixes = []string{"sk-", "sk_", "AIza", "Bearer ", "gsk_", "xai-", "pplx-", "hf_", "r8_", "AKIA", "ASIA", "ya29."}

func bounded(s string) string {
	s = strings.TrimSpace(clip(s, maxMessage))
	for _, p := range keyPrefixes {
		s = mask(s, p)
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// mask replaces what follows prefix up to the end of its word.
func mask(s, prefix string) string {
	from := 0
	for {
		i := strings.Index(s[from:], prefix)
		if i < 0 {
			return s
		}
		start := from + i + len(prefix)
		if at := from + i; at > 0 && isWord(s[at-1]) {
			from = start
			continue
		}
		end := start
		for end < len(s) && (isWord(s[end]) || strings.IndexByte("*-.", s[end]) >= 0) {
			end++
		}
		if end > start {
			s = s[:start] + "…" + s[end:]
		}
		from = start
	}
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// clip cuts s to at most n bytes at a rune's start.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func containsAny(s string, words []string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// routeKey is provider, method and path without its query, which may carry a key (semantics 16).
func routeKey(a *Answer) string {
	if a.Route != "" {
		return a.Route
	}
	path, _, _ := strings.Cut(a.Endpoint, "?")
	switch {
	case a.Provider == "":
		return path
	case path == "":
		return a.Provider
	}
	return a.Provider + " " + path
}
