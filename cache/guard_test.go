package cache_test

import (
	"bufio"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/cache"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// pairsOf reads the pairs of a file.
func pairsOf(t testing.TB, file string) (pairs [][2]string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if a, b, ok := strings.Cut(s.Text(), " | "); ok && !strings.HasPrefix(s.Text(), "#") {
			pairs = append(pairs, [2]string{a, b})
		}
	}
	if len(pairs) == 0 {
		t.Fatalf("%s holds no pairs", file)
	}
	return pairs
}

func TestSameQuestions(t *testing.T) {
	for _, p := range pairsOf(t, "testdata/same.txt") {
		if cache.GuardOf(p[0], noon) != cache.GuardOf(p[1], noon) {
			t.Errorf("%q is read as %q, %q as %q", p[0], cache.Reading(p[0], noon), p[1], cache.Reading(p[1], noon))
		}
	}
}

func TestOtherQuestions(t *testing.T) {
	for _, p := range pairsOf(t, "testdata/differ.txt") {
		if cache.GuardOf(p[0], noon) == cache.GuardOf(p[1], noon) {
			t.Errorf("%q and %q are both read as %q", p[0], p[1], cache.Reading(p[0], noon))
		}
	}
}
