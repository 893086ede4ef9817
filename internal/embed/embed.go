// Package embed makes vectors of texts.
package embed

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/holdfast-ai/holdfast/cache"
)

// Why a text has no vector. Match with errors.Is.
var (
	ErrVector      = errors.New("embed: no vector: empty, zero, not finite, or of another length than before")
	ErrUnavailable = errors.New("embed: the embedder does not answer")
	ErrModel       = errors.New("embed: no model2vec model")
)

// Embedder turns a text into a unit vector. It is safe for concurrent use, and bounds its own time.
type Embedder interface {
	// Embed returns a vector of length 1, always of as many dimensions. The error is one of this package's, or the context's.
	Embed(ctx context.Context, text string) ([]float32, error)
	// Space names what made a vector, with its version: those of two spaces have nothing to say to each other.
	Space() string
	// Local says that a vector takes no call, only microseconds of this process: it may be made where somebody waits.
	Local() bool
}

// unit scales a vector to length 1, in place.
func unit(v []float32) ([]float32, error) {
	if len(v) == 0 || len(v) > cache.MaxDimensions {
		return nil, fmt.Errorf("%w (%d dimensions)", ErrVector, len(v))
	}
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	length := math.Sqrt(sum)
	if !(length > 0) || math.IsInf(length, 0) {
		return nil, fmt.Errorf("%w (its length is %v)", ErrVector, length)
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / length)
	}
	return v, nil
}
