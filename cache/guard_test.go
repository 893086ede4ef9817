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

// TestMissed keeps account of what the guard's certainty costs: pairs that a reader would take for one question.
func TestMissed(t *testing.T) {
	missed := pairsOf(t, "testdata/missed.txt")
	for _, p := range missed {
		if cache.GuardOf(p[0], noon) == cache.GuardOf(p[1], noon) {
			t.Errorf("%q and %q are now read as one: move them to same.txt", p[0], p[1])
		}
	}
	found := len(pairsOf(t, "testdata/same.txt"))
	t.Logf("%d of %d pairs that ask the same are read as one; of %d that do not, none", found, found+len(missed), len(pairsOf(t, "testdata/differ.txt")))
}

// TestEveryWordCounts puts a word in the place of every other: none is passed over, but for those that politeness and grammar need.
func TestEveryWordCounts(t *testing.T) {
	silent := map[string]bool{}
	for _, w := range strings.Fields("please thanks hey") {
		silent[w] = true
	}
	for _, file := range []string{"testdata/same.txt", "testdata/differ.txt"} {
		for _, p := range pairsOf(t, file) {
			words := strings.Fields(p[0])
			for i, w := range words {
				bare := strings.ToLower(strings.Trim(w, `.,!?¿"“”'`))
				if bare == "" || silent[bare] {
					continue
				}
				other := append([]string(nil), words...)
				other[i] = strings.Replace(w, strings.Trim(w, `.,!?¿"“”'`), "zebra", 1)
				if cache.GuardOf(p[0], noon) == cache.GuardOf(strings.Join(other, " "), noon) {
					t.Errorf("%q: %q does not count", p[0], w)
				}
				if less := append(append([]string(nil), words[:i]...), words[i+1:]...); cache.GuardOf(p[0], noon) == cache.GuardOf(strings.Join(less, " "), noon) {
					t.Errorf("%q: without %q it is the same", p[0], w)
				}
			}
		}
	}
}

func TestQuestionsOfTheDay(t *testing.T) {
	for _, text := range []string{"what is the weather today", "Latest news on Go?", "events this week", "who won last night", "Was ist heute los?", "quelle heure est-il maintenant", "¿qué pasa hoy?", "今日の天気は？", "今天天气怎么样", "오늘 날씨", "translate the news of today"} {
		if cache.GuardOf(text, noon) != cache.GuardOf(text, noon.Add(59*time.Minute)) {
			t.Errorf("%q is another question within the hour", text)
		}
		if cache.GuardOf(text, noon) == cache.GuardOf(text, noon.Add(time.Hour)) {
			t.Errorf("%q is the same question an hour later", text)
		}
	}
	if text := "what is the capital of France"; cache.GuardOf(text, noon) != cache.GuardOf(text, noon.Add(1000*time.Hour)) {
		t.Errorf("%q is another question later", text)
	}
}

func TestLinesCount(t *testing.T) {
	same := []string{"explain:\nif x:\n    y\nz", "explain:\r\nif x:\r\n    y\r\nz", "\n  \nexplain:\nif x:\n    y\nz  \n"}
	for _, text := range same {
		if cache.GuardOf(text, noon) != cache.GuardOf(same[0], noon) {
			t.Errorf("%q is another text than %q", text, same[0])
		}
	}
	for _, text := range []string{"  explain:\nif x:\n    y\nz", "explain:\n\nif x:\n    y\nz", "explain:\nif x:\n    y  \nz", "explain:\nif x:\n    y\n    z", "explain:\nif x:\ny\nz", "explain: if x: y z"} {
		if cache.GuardOf(text, noon) == cache.GuardOf(same[0], noon) {
			t.Errorf("%q is the same text as %q", text, same[0])
		}
	}
}

func FuzzGuard(f *testing.F) {
	for _, p := range pairsOf(f, "testdata/differ.txt") {
		f.Add(p[0], p[1])
	}
	f.Add("```\n", "\xff\"'")
	f.Add("«»", "please, thanks.")
	f.Fuzz(func(t *testing.T, a, b string) {
		g := cache.GuardOf(a, noon)
		front := "  "
		if strings.Contains(strings.TrimSpace(a), "\n") {
			front = " \n" // the first of several lines may be indented
		}
		if g != cache.GuardOf(front+a+" \n", noon) {
			t.Errorf("%q: space around it counts", a)
		}
		// A long word more is never passed over, whatever stands beside it.
		if with := cache.GuardOf(a+" "+b+" zebrafish", noon); with == cache.GuardOf(a+" "+b, noon) {
			t.Errorf("%q and %q: a word more does not count: %q", a, b, cache.Reading(a+" "+b+" zebrafish", noon))
		}
	})
}
