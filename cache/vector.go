package cache

import (
	"fmt"
	"math"
)

// MaxDimensions bounds a vector.
const MaxDimensions = 8192

// Vector is a unit vector in a byte for each dimension: dimension i is Steps[i]/Norm. A byte takes a quarter of the
// memory and of the row that a float32 takes, and moves a cosine by less than 0.001, where thresholds are told apart by
// 0.01.
type Vector struct {
	Steps []int8
	Norm  float32 // length of Steps
}

// Quantize makes a vector of an embedder's. The error is [ErrVector].
func Quantize(v []float32) (Vector, error) {
	if len(v) == 0 || len(v) > MaxDimensions {
		return Vector{}, fmt.Errorf("%w (%d dimensions)", ErrVector, len(v))
	}
	var peak float64
	for _, x := range v {
		// A NaN compares with nothing, so it is asked for by itself.
		if a := math.Abs(float64(x)); a > peak || a != a {
			peak = a
		}
		if peak != peak {
			break
		}
	}
	if !(peak > 0) || math.IsInf(peak, 0) {
		return Vector{}, ErrVector
	}
	steps := make([]int8, len(v))
	for i, x := range v {
		steps[i] = int8(math.Round(float64(x) / peak * 127))
	}
	return Vector{Steps: steps, Norm: norm(steps)}, nil
}

func norm(steps []int8) float32 {
	return float32(math.Sqrt(float64(dot(steps, steps))))
}

func dot(a, b []int8) int64 {
	var s0, s1, s2, s3 int32 // 8192 × 127² is below 2³¹, in each of the four
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += int32(a[i]) * int32(b[i])
		s1 += int32(a[i+1]) * int32(b[i+1])
		s2 += int32(a[i+2]) * int32(b[i+2])
		s3 += int32(a[i+3]) * int32(b[i+3])
	}
	for ; i < len(a); i++ {
		s0 += int32(a[i]) * int32(b[i])
	}
	return int64(s0) + int64(s1) + int64(s2) + int64(s3)
}

// Cosine is the cosine of two vectors, -1 if they are not of one length: those of two models are as far apart as can be.
func (v Vector) Cosine(w Vector) float64 {
	if len(v.Steps) != len(w.Steps) || v.Norm == 0 || w.Norm == 0 {
		return -1
	}
	return min(float64(dot(v.Steps, w.Steps))/(float64(v.Norm)*float64(w.Norm)), 1)
}

// size is the memory of a vector, in bytes.
func (v Vector) size() int { return cap(v.Steps) }
