package embed

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/holdfast-ai/holdfast/cache"
)

// ngramDimensions is enough that two texts of some hundred characters share few places by accident: 1/√512 is 0.04.
const ngramDimensions = 512

// The lengths of the runs of characters that are counted.
const shortest, longest = 2, 4

// maxNGramText bounds what of a text is counted, in bytes.
const maxNGramText = 32 << 10

// NGram finds near duplicates, and no meaning: a text is where the runs of two to four characters of its reading (see
// [cache.Reading]) fall among 512 places, by FNV-1a, each run as often as one more than the logarithm of its count, with a sign of its
// own so that what falls together by accident cancels out. It takes no model and no call, and is the same everywhere.
type NGram struct{}

// Space implements [Embedder].
func (NGram) Space() string { return "ngram 1" }

// Local implements [Embedder].
func (NGram) Local() bool { return true }

// Embed implements [Embedder].
func (NGram) Embed(ctx context.Context, text string) ([]float32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(text) > maxNGramText {
		text = text[:maxNGramText]
	}
	counts := map[uint64]int{}
	// Spaces at the ends, so that where words begin and end counts there too. The time is none: it is no part of a text.
	runes := []rune(" " + strings.ToValidUTF8(cache.Reading(text, time.Time{}), "") + " ")
	for from := range runes {
		h := uint64(fnvOffset)
		for n := 0; n < longest && from+n < len(runes); n++ {
			if h = fnv(h, runes[from+n]); n+1 >= shortest {
				counts[h]++
			}
		}
	}
	v := make([]float32, ngramDimensions)
	for h, n := range counts {
		weight := float32(1 + math.Log(float64(n)))
		if h>>63 == 1 {
			weight = -weight
		}
		v[h%ngramDimensions] += weight
	}
	return unit(v)
}

const fnvOffset, fnvPrime = 14695981039346656037, 1099511628211

// fnv adds a character to a hash, byte by byte (FNV-1a).
func fnv(h uint64, r rune) uint64 {
	for shift := 0; shift < 32; shift += 8 {
		h = (h ^ uint64(r>>shift&0xff)) * fnvPrime
	}
	return h
}
