package cache_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-ai/holdfast/cache"
)

func entries(t testing.TB) []*cache.Entry {
	q := cache.Ask(&chat, []byte("rest"), "the text of the question")
	return []*cache.Entry{
		{Intent: "0198", Tenant: "a", Workflow: "chat", Kind: cache.Semantic, Key: q.SemanticKey("s", noon), Partition: q.Partition, Vector: vector(t, 0.5), Made: noon, Expires: noon.Add(time.Hour)},
		{Intent: "0199", Workflow: "chat", Kind: cache.Template, Key: q.TemplateKey(&cache.Match{}), Partition: q.Partition, Template: "charm", Made: noon, Expires: noon.Add(time.Hour)},
	}
}

func TestEntryRoundTrip(t *testing.T) {
	for _, e := range entries(t) {
		row := cache.AppendEntry([]byte("before"), e)[len("before"):]
		back, err := cache.DecodeEntry(row)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(e, back); d != "" {
			t.Error(d)
		}
		if bytes.Contains(row, []byte("question")) {
			t.Error("the text is in the row")
		}
		for n := range row {
			if _, err := cache.DecodeEntry(row[:n]); !errors.Is(err, cache.ErrEntry) {
				t.Errorf("%d bytes of %d are an entry: %v", n, len(row), err)
			}
		}
		if _, err := cache.DecodeEntry(append(row, 0)); !errors.Is(err, cache.ErrEntry) {
			t.Errorf("a byte too many: %v", err)
		}
		row[0]++
		if _, err := cache.DecodeEntry(row); !errors.Is(err, cache.ErrEntry) {
			t.Errorf("another version: %v", err)
		}
	}
}

func FuzzDecodeEntry(f *testing.F) {
	for _, e := range entries(f) {
		f.Add(cache.AppendEntry(nil, e))
	}
	f.Fuzz(func(t *testing.T, row []byte) {
		e, err := cache.DecodeEntry(row)
		if err != nil {
			if !errors.Is(err, cache.ErrEntry) {
				t.Error(err)
			}
			return
		}
		again, err := cache.DecodeEntry(cache.AppendEntry(nil, e))
		if d := cmp.Diff(e, again); d != "" || err != nil {
			t.Error(d, err)
		}
	})
}
