package eval

import (
	"bytes"
	_ "embed" // for the pairs of our own
	"errors"
	"fmt"
	"io"
	"strings"
)

// Pair is two questions, with what a person says of them.
type Pair struct {
	Line int    `json:"line"` // from 1
	A    string `json:"a"`
	B    string `json:"b"`
	Same bool   `json:"same"` // an answer to one may answer the other
}

// OwnPairs names the pairs that ReadPairs reads where no file is named.
const OwnPairs = "pairs of our own"

// own are questions of a help desk, a shop and a developer's day, opposites, numbers, names and negations among them.
//
//go:embed pairs.jsonl
var own []byte

const (
	pairForm = `it is not {"a": "…", "b": "…", "same": true|false}: %w`
	maxPair  = 1 << 20 // bytes of a line
)

// ReadPairs reads pairs, one in a line. Its error is a *LinesError where lines cannot be used: all of them.
func ReadPairs(file string, in io.Reader) (all []Pair, err error) {
	err = readLines(file, in, maxPair, func(number int, text []byte) error {
		var l struct {
			A, B *string
			Same *bool
		}
		switch err := strict(text, &l); {
		case err != nil:
			return fmt.Errorf(pairForm, err)
		case l.A == nil || l.B == nil || strings.TrimSpace(*l.A) == "" || strings.TrimSpace(*l.B) == "":
			return fmt.Errorf(pairForm, errors.New("a and b are two texts"))
		case l.Same == nil:
			return fmt.Errorf(pairForm, errors.New("same says whether an answer to one may answer the other"))
		}
		all = append(all, Pair{number, *l.A, *l.B, *l.Same})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// BuiltInPairs are OwnPairs.
func BuiltInPairs() ([]Pair, error) { return ReadPairs(OwnPairs, bytes.NewReader(own)) }

// Texts are how many different ones stand in pairs, and about how many tokens they have.
func Texts(pairs []Pair) (texts int, tokens int64) {
	given := map[string]bool{}
	for i := range pairs {
		for _, text := range []string{pairs[i].A, pairs[i].B} {
			if !given[text] {
				given[text] = true
				tokens += int64(len(text)/bytesPerToken + 1)
			}
		}
	}
	return len(given), tokens
}
