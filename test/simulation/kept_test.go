package simulation

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// keptDir holds the histories that once broke an invariant, or break it in a program that is broken on purpose: whole
// plans as data, so that they stay what they were when the generator draws others.
var keptDir = filepath.Join("testdata", "seeds")

// keep writes a plan down.
func (p *plan) keep(name string) (path string, err error) {
	text, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return "", err
	}
	path = filepath.Join(keptDir, name+".json")
	return path, os.WriteFile(path, append(text, '\n'), 0o644)
}

func readPlan(path string) (*plan, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &plan{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return p, d.Decode(p)
}

// TestKept lives through every kept history again.
func TestKept(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(keptDir, "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no kept histories in %s: %v", keptDir, err)
	}
	w := newWorld(t, false)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			p, err := readPlan(path)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if wrong, _ := w.play(t, p); len(wrong) > 0 {
					t.Fatalf("%v\n%s", p, strings.Join(wrong, "\n"))
				}
			}
		})
	}
}

// A plan reads back as what was written.
func TestPlanIsData(t *testing.T) {
	for seed := range uint64(50) {
		p := newPlan(seed + 1)
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q := &plan{}
		if err := json.Unmarshal(text, q); err != nil || p.String() != q.String() {
			t.Fatalf("%v\n%v\n%v", err, p, q)
		}
	}
}
