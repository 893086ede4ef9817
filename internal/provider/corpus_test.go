package provider

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-ai/holdfast/internal/provider/wire"
)

const corpus = "testdata/streams"

// indexed is one entry of the corpus's index.
type indexed struct {
	Recording
	Splits    []int    `json:"write_splits"`
	Debatable []string `json:"debatable"`
	fields    map[string]any
}

func readIndex(t testing.TB) []indexed {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(corpus, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	list := make([]indexed, len(raw))
	for i, r := range raw {
		if err := json.Unmarshal(r, &list[i]); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(r, &list[i].fields); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

func readStream(t testing.TB, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(corpus, file))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func toFields(t testing.TB, v any) map[string]any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// Every indexed value, debatable ones too, is what the index says.
func TestCorpus(t *testing.T) {
	entries := readIndex(t)
	i := 0
	err := ExplainIndex(filepath.Join(corpus, "index.json"), func(line any) error {
		e := entries[i]
		i++
		if u, ok := line.(Unsupported); ok {
			if e.Format == "sse" || e.Format == "json_array" || u.Unsupported != e.Format {
				t.Errorf("%s: unsupported %q", e.File, u.Unsupported)
			}
			return nil
		}
		got := toFields(t, line)
		for _, key := range []string{"note", "source_url", "debatable", "write_splits"} {
			delete(e.fields, key)
		}
		if diff := cmp.Diff(e.fields, got); diff != "" {
			t.Errorf("%s (-index +explained):\n%.2000s", e.File, diff)
		}
		return nil
	})
	if err != nil || i != len(entries) {
		t.Fatalf("explained %d of %d: %v", i, len(entries), err)
	}
}

// feed plays b in pieces that end at the offsets.
func feed(t rapid.TB, s Stream, b []byte, splits []int) (End, Progress) {
	from := 0
	for _, to := range append(slices.Clone(splits), len(b)) {
		if err := s.Feed(slices.Clone(b[from:to])); err != nil { // a copy, so that views of it that are kept show
			t.Fatalf("Feed: %v", err)
		}
		from = to
	}
	end := s.Close()
	return end, *s.Progress()
}

// Any cut gives the progress of the whole, on the path with a transcript and on the gateway's without.
func TestCorpusCuts(t *testing.T) {
	for _, e := range readIndex(t) {
		if !e.supported() {
			continue
		}
		t.Run(e.File, func(t *testing.T) {
			b := readStream(t, e.File)
			call := e.call()
			format := SSE
			if e.Format == "json_array" {
				format = JSONArray
			}
			var want wire.Transcript
			wantEnd, wantProgress := feed(t, newTranscribed(&call, e.Format, &want), b, nil)
			check := func(t rapid.TB, how string, splits []int) {
				end, p := feed(t, NewStream(&call, format, Limits{}), b, splits)
				if diff := cmp.Diff(wantProgress, p); diff != "" || end != wantEnd {
					t.Fatalf("%s: ends %s, want %s; progress (-whole +cut):\n%s", how, end, wantEnd, diff)
				}
				var got wire.Transcript
				feed(t, newTranscribed(&call, e.Format, &got), b, splits)
				if string(got.Text) != string(want.Text) || string(got.Reasoning) != string(want.Reasoning) {
					t.Fatalf("%s: another text", how)
				}
			}
			check(t, "whole", nil)
			check(t, "write_splits", e.Splits)
			if len(b) > 100_000 { // once in odd pieces is enough
				var splits []int
				for i := 4093; i < len(b); i += 4093 {
					splits = append(splits, i)
				}
				check(t, "pieces", splits)
				return
			}
			check(t, "single bytes", everyByte(len(b)))
			if len(b) == 0 {
				return
			}
			rapid.Check(t, func(t *rapid.T) {
				splits := rapid.SliceOfN(rapid.IntRange(0, len(b)), 0, 20).Draw(t, "splits")
				slices.Sort(splits)
				check(t, fmt.Sprint(splits), splits)
			})
		})
	}
}

func everyByte(n int) []int {
	all := make([]int, 0, n)
	for i := 1; i < n; i++ {
		all = append(all, i)
	}
	return all
}
