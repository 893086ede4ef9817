package stored

import (
	"bytes"
	"encoding/json"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-ai/holdfast/ledger"
)

// TestEventsAreJSON: the quick encoder writes what encoding/json reads, field for field.
func TestEventsAreJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		event := rapid.Custom(func(t *rapid.T) ledger.Event {
			return ledger.Event{
				At:   time.UnixMicro(rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(0, 4e15)).Draw(t, "at")).UTC(),
				Kind: rapid.String().Draw(t, "kind"), From: ledger.State(rapid.IntRange(0, 5).Draw(t, "from")),
				To: ledger.State(rapid.IntRange(0, 5).Draw(t, "to")), Actor: rapid.SampledFrom([]string{"", "engine", "ada"}).Draw(t, "actor"),
				Reason: rapid.String().Draw(t, "reason"), Rule: rapid.String().Draw(t, "rule"),
				Attempt: rapid.Int().Draw(t, "attempt"), Route: rapid.String().Draw(t, "route"),
				Tier: rapid.String().Draw(t, "tier"), End: ledger.AttemptEnd(rapid.IntRange(0, 4).Draw(t, "end")),
				Status: rapid.Int().Draw(t, "status"), Billed: rapid.Bool().Draw(t, "billed"),
				Error:    rapid.String().Draw(t, "error"),
				Evidence: rapid.SampledFrom([]json.RawMessage{nil, []byte(`{"a":[1,null]}`), []byte(`"x"`)}).Draw(t, "evidence"),
			}
		})
		events := rapid.SliceOfN(event, 1, 4).Draw(t, "events")
		text, err := AppendEvents(nil, events)
		if err != nil {
			t.Fatal(err)
		}
		// What the first says for all is left out; of the rest nothing differs from encoding/json.
		for i := range events {
			alone, err := AppendEvents(nil, events[i:i+1])
			if err != nil {
				t.Fatal(err)
			}
			oracle, err := json.Marshal(events[i : i+1])
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if json.Unmarshal(alone, &got) != nil || json.Unmarshal(oracle, &want) != nil || !cmp.Equal(got, want) {
				t.Fatalf("wrote %s, encoding/json writes %s", alone, oracle)
			}
		}
		back, err := DecodeEvents(nil, text)
		if err != nil || !cmp.Equal(events, back) {
			t.Fatalf("read back %v, %v", cmp.Diff(events, back), err)
		}
	})
}

// TestHeadersAreJSON: the same of an answer's headers.
func TestHeadersAreJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.MapOf(rapid.String(), rapid.SliceOfN(rapid.String(), 1, 3)).Draw(t, "header")
		var got map[string][]string
		if err := json.Unmarshal(AppendHeader(nil, want), &got); err != nil || !cmp.Equal(got, want) {
			t.Fatalf("wrote %s: %v", AppendHeader(nil, want), err)
		}
	})
}

// TestChecksum: the digest is what the schema says, so that another program can check a store.
func TestChecksum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind, data := rapid.String().Draw(t, "type"), rapid.SliceOf(rapid.Byte()).Draw(t, "data")
		want := int64(crc32.Checksum(slices.Concat([]byte(kind), []byte{0}, data), crc32.MakeTable(crc32.Castagnoli))) | 1<<32
		if got := Checksum(kind, data); got != want {
			t.Fatalf("%x, want %x", got, want)
		}
	})
}

func TestBodiesArePacked(t *testing.T) {
	for name, c := range map[string]struct {
		data   []byte
		packed bool
	}{
		"empty": {nil, false}, "small": {bytes.Repeat([]byte("a"), PackOver), false},
		"large": {bytes.Repeat([]byte("a"), PackOver+1), true}, "noise": {randomBytes(50_000), false},
	} {
		p := Pack(&ledger.Body{Kind: ledger.BodyAnswer, Data: c.data})
		if p.Packed != c.packed {
			t.Errorf("%s: packed = %t", name, p.Packed)
		}
		if b, err := Unpack(p); err != nil || !bytes.Equal(b.Data, c.data) {
			t.Errorf("%s: came back as %d bytes, %v", name, len(b.Data), err)
		}
	}
	p := Pack(&ledger.Body{Kind: ledger.BodyAnswer, Data: bytes.Repeat([]byte("a"), 10_000)})
	p.Data = p.Data[:len(p.Data)/2]
	if _, err := Unpack(p); err == nil {
		t.Error("half a body was unpacked")
	}
}

// randomBytes do not compress.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it never fails
	return b
}
