package embed

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// maxVocabulary bounds the tokens of a model: the largest multilingual ones have half a million.
const maxVocabulary = 2 << 20

// tokenizer cuts texts into the tokens of a vocabulary, as tokenizer.json of Hugging Face's library says.
type tokenizer struct {
	normalize []func(string) string
	split     []func([]string) []string
	model     vocabulary
}

// vocabulary cuts one word into tokens.
type vocabulary interface {
	cut(dst []int, word string) []int
	size() int // one more than the highest token
}

func (t *tokenizer) size() int { return t.model.size() }

// maxNormal bounds a text that is being normalized, in bytes: a file may say that each letter becomes two, and again.
const maxNormal = 8 * maxModelText

// encode returns a text's tokens, at most so many. Those that stand for what is unknown are left out, as model2vec leaves them out.
func (t *tokenizer) encode(text string, most int) []int {
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	for _, f := range t.normalize {
		if text = f(text); len(text) > maxNormal {
			text = text[:maxNormal]
		}
	}
	words := []string{text}
	for _, f := range t.split {
		words = f(words)
	}
	var out []int
	for _, w := range words {
		if out = t.model.cut(out, w); len(out) >= most {
			return out[:most]
		}
	}
	return out
}

// part is a normalizer or a splitter as the file has it. Each kind reads its own members.
type part struct {
	Type string `json:"type"`

	Normalizers   []part `json:"normalizers"`
	Pretokenizers []part `json:"pretokenizers"`

	Lowercase    *bool `json:"lowercase"`
	StripAccents *bool `json:"strip_accents"`
	Chinese      *bool `json:"handle_chinese_chars"`

	Pattern struct {
		String *string `json:"String"`
		Regex  *string `json:"Regex"`
	} `json:"pattern"`
	Content  string `json:"content"`
	Prepend  string `json:"prepend"`
	Behavior string `json:"behavior"`

	Replacement    string `json:"replacement"`
	PrependScheme  string `json:"prepend_scheme"`
	AddPrefixSpace *bool  `json:"add_prefix_space"`
	Split          *bool  `json:"split"`
}

func parseTokenizer(text []byte) (*tokenizer, error) {
	var file struct {
		Normalizer   *part           `json:"normalizer"`
		PreTokenizer *part           `json:"pre_tokenizer"`
		Model        json.RawMessage `json:"model"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	t := &tokenizer{}
	var err error
	if t.model, err = parseVocabulary(file.Model); err != nil {
		return nil, err
	}
	if file.Normalizer != nil {
		if err := t.addNormalizer(file.Normalizer, maxParts); err != nil {
			return nil, err
		}
	}
	if file.PreTokenizer != nil {
		if err := t.addSplitter(file.PreTokenizer, maxParts); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// maxParts bounds how deep sequences stand in sequences.
const maxParts = 4

func parseVocabulary(raw []byte) (vocabulary, error) {
	var m struct {
		Type         string          `json:"type"`
		Unknown      string          `json:"unk_token"`
		UnknownID    *int            `json:"unk_id"`
		Prefix       *string         `json:"continuing_subword_prefix"`
		MaxChars     int             `json:"max_input_chars_per_word"`
		Vocab        json.RawMessage `json:"vocab"`
		ByteFallback bool            `json:"byte_fallback"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	switch m.Type {
	case "WordPiece":
		w := &wordPiece{prefix: "##", most: m.MaxChars, unknown: -1}
		if m.Prefix != nil {
			w.prefix = *m.Prefix
		}
		if w.most <= 0 {
			w.most = 100
		}
		if err := json.Unmarshal(m.Vocab, &w.ids); err != nil {
			return nil, fmt.Errorf("model.vocab: %w", err)
		}
		if id, ok := w.ids[m.Unknown]; ok {
			w.unknown = id
		}
		return w, w.check()
	case "Unigram":
		u := &unigram{unknown: -1, bytes: m.ByteFallback}
		if m.UnknownID != nil {
			u.unknown = *m.UnknownID
		}
		return u, u.read(m.Vocab)
	}
	return nil, fmt.Errorf("a model of type %q is not read; WordPiece and Unigram are", m.Type)
}

// wordPiece cuts a word into the longest pieces that it knows, from the left.
type wordPiece struct {
	ids     map[string]int
	prefix  string // of a piece that does not begin a word
	most    int    // a word of more characters is unknown
	unknown int
	top     int
	longest int // in bytes
}

func (w *wordPiece) check() error {
	for piece, id := range w.ids {
		if id < 0 || id >= maxVocabulary {
			return fmt.Errorf("model.vocab: token %d is none", id)
		}
		w.top, w.longest = max(w.top, id+1), max(w.longest, len(piece))
	}
	if w.top == 0 {
		return errors.New("model.vocab is empty")
	}
	return nil
}

func (w *wordPiece) size() int { return w.top }

func (w *wordPiece) cut(dst []int, word string) []int {
	if utf8.RuneCountInString(word) > w.most {
		return dst
	}
	mark := len(dst)
	for at := 0; at < len(word); {
		prefix := ""
		if at > 0 {
			prefix = w.prefix
		}
		id, end := -1, min(len(word), at+w.longest)
		for ; end > at; end-- {
			if end < len(word) && !utf8.RuneStart(word[end]) {
				continue
			}
			if n, ok := w.ids[prefix+word[at:end]]; ok {
				id = n
				break
			}
		}
		if id < 0 || id == w.unknown {
			return dst[:mark] // one unknown piece makes the word unknown
		}
		dst, at = append(dst, id), end
	}
	return dst
}

// unigram cuts a text into the pieces of which it is likeliest made.
type unigram struct {
	ids     map[string]int
	scores  []float64
	unknown int
	bytes   bool // what is unknown is its bytes, as <0x41>
	longest int  // in bytes
	penalty float64
}

// unknownPenalty is how much less likely than the least likely piece a character is that no piece has (sentencepiece's kUnkPenalty).
const unknownPenalty = 10

func (u *unigram) read(raw []byte) error {
	var pieces [][2]any
	if err := json.Unmarshal(raw, &pieces); err != nil {
		return fmt.Errorf("model.vocab: %w", err)
	}
	if len(pieces) == 0 || len(pieces) > maxVocabulary {
		return fmt.Errorf("model.vocab has %d tokens", len(pieces))
	}
	u.ids, u.scores = make(map[string]int, len(pieces)), make([]float64, len(pieces))
	least := math.Inf(1)
	for i, p := range pieces {
		piece, ok := p[0].(string)
		score, scored := p[1].(float64)
		if !ok || !scored {
			return fmt.Errorf("model.vocab: token %d is no piece with a score", i)
		}
		if piece != "" {
			u.ids[piece] = i
		}
		u.scores[i], u.longest, least = score, max(u.longest, len(piece)), min(least, score)
	}
	u.penalty = least - unknownPenalty
	return nil
}

func (u *unigram) size() int { return len(u.scores) }

// maxPiece bounds a piece that is looked for, in bytes, and with it the time that a hostile vocabulary can take.
const maxPiece = 128

// cut finds the best way to each character's end from those before it (Viterbi).
func (u *unigram) cut(dst []int, word string) []int {
	type way struct {
		score float64
		from  int // where the last piece begins, -1: no way leads here
		id    int // of the last piece, -1: unknown
	}
	ways := make([]way, len(word)+1)
	for i := range ways {
		ways[i].from = -1
	}
	ways[0].from = 0
	for at, r := range word {
		if ways[at].from < 0 {
			continue
		}
		try := func(end, id int, score float64) {
			if score += ways[at].score; ways[end].from < 0 || score > ways[end].score {
				ways[end] = way{score, at, id}
			}
		}
		first := at + utf8.RuneLen(r)
		for end := first; end <= min(len(word), at+min(u.longest, maxPiece)); end++ {
			if end < len(word) && !utf8.RuneStart(word[end]) {
				continue
			}
			if id, ok := u.ids[word[at:end]]; ok && id != u.unknown {
				try(end, id, u.scores[id])
			}
		}
		try(first, -1, u.penalty)
	}
	mark := len(dst)
	for end := len(word); end > 0; end = ways[end].from {
		dst = u.piece(dst, ways[end].id, word[ways[end].from:end])
	}
	for i, j := mark, len(dst)-1; i < j; i, j = i+1, j-1 {
		dst[i], dst[j] = dst[j], dst[i]
	}
	return dst
}

// piece appends a piece, backwards: what is unknown is its bytes, or nothing.
func (u *unigram) piece(dst []int, id int, text string) []int {
	if id >= 0 {
		return append(dst, id)
	}
	if !u.bytes {
		return dst
	}
	mark := len(dst)
	for i := len(text) - 1; i >= 0; i-- {
		id, ok := u.ids[fmt.Sprintf("<0x%02X>", text[i])]
		if !ok {
			return dst[:mark]
		}
		dst = append(dst, id)
	}
	return dst
}
