package embed

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// addNormalizer adds what a normalizer of the file does to a text.
func (t *tokenizer) addNormalizer(p *part, depth int) error {
	add := func(f func(string) string) { t.normalize = append(t.normalize, f) }
	switch p.Type {
	case "Sequence":
		if depth == 0 {
			return fmt.Errorf("normalizer: nested deeper than %d", maxParts)
		}
		for i := range p.Normalizers {
			if err := t.addNormalizer(&p.Normalizers[i], depth-1); err != nil {
				return err
			}
		}
	case "BertNormalizer":
		add(bertNormalizer(p))
	case "Lowercase":
		add(strings.ToLower)
	case "NFC":
		add(norm.NFC.String)
	case "NFD":
		add(norm.NFD.String)
	case "NFKC":
		add(norm.NFKC.String)
	case "NFKD":
		add(norm.NFKD.String)
	case "StripAccents":
		add(func(s string) string { return without(s, isMark) })
	case "Strip":
		add(strings.TrimSpace)
	case "Prepend":
		add(func(s string) string { return p.Prepend + s })
	case "Nmt", "Precompiled":
		// The table that sentencepiece ships is NFKC with white space of every kind made spaces and controls left out (nmt_nfkc).
		add(func(s string) string { return norm.NFKC.String(clean(s)) })
	case "Replace":
		f, err := replacer(p)
		if err != nil {
			return err
		}
		add(f)
	default:
		return fmt.Errorf("a normalizer of type %q is not read", p.Type)
	}
	return nil
}

func replacer(p *part) (func(string) string, error) {
	switch {
	case p.Pattern.String != nil && *p.Pattern.String != "":
		return func(s string) string { return strings.ReplaceAll(s, *p.Pattern.String, p.Content) }, nil
	case p.Pattern.Regex != nil:
		re, err := regexp.Compile(*p.Pattern.Regex)
		if err != nil {
			return nil, fmt.Errorf("normalizer: %w", err)
		}
		return func(s string) string { return re.ReplaceAllLiteralString(s, p.Content) }, nil
	}
	return nil, fmt.Errorf("normalizer: a Replace without a pattern")
}

func isMark(r rune) bool { return unicode.Is(unicode.Mn, r) }

func without(s string, f func(rune) bool) string {
	return strings.Map(func(r rune) rune {
		if f(r) {
			return -1
		}
		return r
	}, s)
}

// clean makes white space spaces and leaves out controls.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == 0, r == unicode.ReplacementChar, unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, s)
}

// bertNormalizer is that of BERT's own tokenizer. Accents go where letters become small, unless the file says otherwise.
func bertNormalizer(p *part) func(string) string {
	is := func(b *bool, otherwise bool) bool {
		if b == nil {
			return otherwise
		}
		return *b
	}
	lower, chinese := is(p.Lowercase, true), is(p.Chinese, true)
	accents := is(p.StripAccents, lower)
	return func(s string) string {
		s = clean(s)
		if chinese {
			s = apart(s)
		}
		if accents {
			s = without(norm.NFD.String(s), isMark)
		}
		if lower {
			s = strings.ToLower(s)
		}
		return s
	}
}

// apart puts spaces around Chinese characters.
func apart(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.Is(unicode.Han, r) && r >= 0x3400 {
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// addSplitter adds how a pre-tokenizer of the file cuts a text into words.
func (t *tokenizer) addSplitter(p *part, depth int) error {
	add := func(f func(dst []string, word string) []string) {
		t.split = append(t.split, func(words []string) []string {
			var out []string
			for _, w := range words {
				out = f(out, w)
			}
			return out
		})
	}
	switch p.Type {
	case "Sequence":
		if depth == 0 {
			return fmt.Errorf("pre_tokenizer: nested deeper than %d", maxParts)
		}
		for i := range p.Pretokenizers {
			if err := t.addSplitter(&p.Pretokenizers[i], depth-1); err != nil {
				return err
			}
		}
	case "BertPreTokenizer":
		add(atSpaces)
		add(aroundPunctuation)
	case "WhitespaceSplit":
		add(atSpaces)
	case "Whitespace":
		add(atSpaces)
		add(byClass)
	case "Punctuation":
		if p.Behavior != "" && p.Behavior != "Isolated" {
			return fmt.Errorf("pre_tokenizer: Punctuation of behavior %q is not read", p.Behavior)
		}
		add(aroundPunctuation)
	case "Metaspace":
		add(metaspace(p))
	default:
		return fmt.Errorf("a pre_tokenizer of type %q is not read", p.Type)
	}
	return nil
}

func atSpaces(dst []string, word string) []string { return append(dst, strings.Fields(word)...) }

// isPunctuation is BERT's: all of ASCII that is neither letter nor digit, and Unicode's P.
func isPunctuation(r rune) bool {
	if r < 0x80 {
		return r > ' ' && r < 0x7f && !(r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z')
	}
	return unicode.Is(unicode.P, r)
}

// aroundPunctuation makes each mark a word.
func aroundPunctuation(dst []string, word string) []string {
	from := 0
	for i, r := range word {
		if !isPunctuation(r) {
			continue
		}
		if from < i {
			dst = append(dst, word[from:i])
		}
		from = i + len(string(r))
		dst = append(dst, word[i:from])
	}
	if from < len(word) {
		dst = append(dst, word[from:])
	}
	return dst
}

// byClass cuts between runs of word characters and runs of others.
func byClass(dst []string, word string) []string {
	from, last := 0, false
	for i, r := range word {
		is := r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.M, r)
		if i > 0 && is != last {
			dst, from = append(dst, word[from:i]), i
		}
		last = is
	}
	if from < len(word) {
		dst = append(dst, word[from:])
	}
	return dst
}

// metaspace makes spaces a visible mark and cuts before each.
func metaspace(p *part) func([]string, string) []string {
	mark := p.Replacement
	if mark == "" {
		mark = "▁"
	}
	prepend := p.PrependScheme != "never" && (p.PrependScheme != "" || p.AddPrefixSpace == nil || *p.AddPrefixSpace)
	whole := p.Split != nil && !*p.Split
	return func(dst []string, word string) []string {
		word = strings.ReplaceAll(word, " ", mark)
		if prepend && !strings.HasPrefix(word, mark) && word != "" {
			word = mark + word
		}
		for !whole && word != "" {
			next := strings.Index(word[1:], mark)
			if next < 0 {
				break
			}
			dst, word = append(dst, word[:next+1]), word[next+1:]
		}
		if word != "" {
			dst = append(dst, word)
		}
		return dst
	}
}
