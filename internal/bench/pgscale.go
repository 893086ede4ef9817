package bench

import (
	"context"
	"fmt"
)

const (
	scalingEngines = 3
	scalingCallers = 192 // over all engines
)

// scaling measures several engines on one database beside one, and one engine over several databases beside one. The engines share this
// process's machine with the databases: a database of its own scales better.
func (r *pgRun) scaling(ctx context.Context) error {
	at, err := r.schema(ctx, r.Databases[0])
	if err != nil {
		return err
	}
	var engines []*writer
	for i := range scalingEngines {
		w, err := r.join(uint64(i), at)
		if err != nil {
			return err
		}
		engines = append(engines, w)
	}
	name := fmt.Sprintf("whole intents/s, %d engines", scalingEngines)
	if err := r.beside(ctx, name, "1 engine", engines[:1], engines); err != nil || len(r.Databases) == 1 {
		return err
	}
	one, err := r.open(ctx, r.Databases[0])
	if err != nil {
		return err
	}
	all, err := r.open(ctx, r.Databases...)
	if err != nil {
		return err
	}
	return r.beside(ctx, fmt.Sprintf("whole intents/s, %d databases", len(r.Databases)), "1 database", []*writer{one}, []*writer{all})
}

// beside measures the same callers spread over some writers and over others.
func (r *pgRun) beside(ctx context.Context, name, reference string, few, many []*writer) error {
	r.progress("%s: %s", pgScaling, name)
	var before, after []float64
	for range r.rounds {
		for _, side := range []struct {
			of []*writer
			to *[]float64
		}{{few, &before}, {many, &after}} {
			rates := make([]float64, len(side.of))
			err := parallel(len(side.of), func(i int) (err error) {
				_, rates[i], err = side.of[i].intents(ctx, scalingCallers/len(side.of), r.slice)
				return err
			})
			if err != nil {
				return err
			}
			sum := 0.0
			for _, rate := range rates {
				sum += rate
			}
			*side.to = append(*side.to, sum)
		}
	}
	r.report.add(Figure{Part: pgScaling, Name: name, Unit: "/s", ReferenceName: reference, Direct: Value(unknown), Reference: Value(median(before)),
		Holdfast: Value(median(after)), Ratio: Value(pairwise(after, before, quotient))})
	return nil
}
