package sqlite

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ai/holdfast/ledger"
)

// The intents of testdata/schema1.db.gz, a store that the first schema's program wrote: inserted in another order
// than that of their ids, two of which share their time.
const (
	oldOpen    = "019f3a00-0000-7005-8000-00000000000e"
	oldSmall   = "019f3a00-0000-7001-8000-00000000000a"
	oldLarge   = "019f3a00-0000-7001-8000-00000000000b"
	oldDerived = "019f3a00-0000-7003-8000-00000000000c"
	oldUnknown = "019f3a00-0000-7002-8000-00000000000d"
)

func oldStore(t *testing.T) string {
	t.Helper()
	packed, err := os.Open(filepath.Join("testdata", "schema1.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	r, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	path := tempPath(t)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMigration: a store of the first schema loses nothing on its way to the present one.
func TestMigration(t *testing.T) {
	path := oldStore(t)
	if _, err := OpenReadOnly(t.Context(), path); !errors.Is(err, ledger.ErrUnavailable) || !strings.Contains(err.Error(), "store migrate") {
		t.Errorf("read as it is: %v", err)
	}
	if from, to, err := Migrate(t.Context(), Config{Path: path}); from != 1 || to != SchemaVersion() || err != nil {
		t.Fatalf("Migrate = %d, %d, %v", from, to, err)
	}
	if found, err := Verify(t.Context(), path); err != nil || len(found) > 0 {
		t.Fatalf("Verify = %v, %v", found, err)
	}
	l := mustOpen(t, Config{Path: path})
	list, err := l.List(t.Context(), ledger.Filter{})
	if err != nil || len(list) != 5 {
		t.Fatalf("List = %d, %v", len(list), err)
	}
	for i, id := range []string{oldOpen, oldDerived, oldUnknown, oldLarge, oldSmall} {
		if list[i].ID != id {
			t.Errorf("%d: %s, want %s", i, list[i].ID, id)
		}
	}
	for _, c := range []struct {
		id, key string
		state   ledger.State
		kind    ledger.BodyKind
		body    string
		events  int
	}{
		{oldOpen, "open-key", ledger.Dispatched, ledger.BodyRequest, strings.Repeat(`{"asked":"often"}`, 300), 4},
		{oldSmall, "small-key", ledger.Settled, ledger.BodyAnswer, "small answer", 6},
		{oldLarge, "large-key", ledger.Settled, ledger.BodyAnswer, strings.Repeat("large answer ", 2000), 6},
		{oldDerived, "derived-key", ledger.Settled, ledger.BodyAnswer, "derived answer", 6},
		{oldUnknown, "unknown-key", ledger.Unknown, 0, "", 5},
	} {
		rec, err := l.Get(t.Context(), c.id)
		if err != nil || rec.State != c.state || rec.Key != c.key {
			t.Errorf("%s: %+v, %v", c.id, rec, err)
		}
		if events, err := l.History(t.Context(), c.id); err != nil || len(events) != c.events {
			t.Errorf("%s: %d events, %v", c.id, len(events), err)
		}
		if c.kind == 0 {
			continue
		}
		if b, err := l.Body(t.Context(), c.id, c.kind); err != nil || string(b.Data) != c.body {
			t.Errorf("%s: body %v, %v", c.id, b, err)
		}
	}
	migratedWrites(t, l)
}

// migratedWrites goes on with what the first schema's program began, and sweeps what it kept.
func migratedWrites(t *testing.T, l *Ledger) {
	for _, key := range []string{"open-key", "unknown-key"} {
		w := dispatchedWrite(l, key)
		if <-l.Enqueue(w); !errors.Is(w.Err, ledger.ErrClaimed) {
			t.Errorf("%s was taken: %v", key, w.Err)
		}
	}
	if recs, err := l.Derived(t.Context(), "derived-key", 9); err != nil || len(recs) != 1 || recs[0].ID != oldDerived {
		t.Errorf("Derived = %v, %v", recs, err)
	}
	if cool, err := l.Cooldowns(t.Context()); err != nil || len(cool) != 1 {
		t.Errorf("Cooldowns = %v, %v", cool, err)
	}
	rec, err := l.Get(t.Context(), oldOpen)
	if err != nil {
		t.Fatal(err)
	}
	c := confirmedWrite(l, &ledger.Write{Insert: &rec.Intent, ClaimKey: rec.Key, Status: rec.Status})
	s := settledWrite(l, c, "at last")
	for _, w := range []*ledger.Write{c, s} {
		if <-l.Enqueue(w); w.Err != nil {
			t.Fatal(w.Err)
		}
	}
	var sum ledger.Swept
	for more := true; more; {
		var s ledger.Swept
		if s, more, err = l.Sweep(t.Context(), ledger.Retention{Now: l.Now().Add(2 * time.Hour), Answers: time.Minute, Rows: 1000 * time.Hour}); err != nil {
			t.Fatal(err)
		}
		sum.Claims, sum.Bodies, sum.Intents = sum.Claims+s.Claims, sum.Bodies+s.Bodies, sum.Intents+s.Intents
	}
	if sum != (ledger.Swept{Claims: 3, Bodies: 5}) {
		t.Errorf("Swept = %+v", sum)
	}
	if _, err := l.Get(t.Context(), oldUnknown); err != nil {
		t.Error(err)
	}
}

// TestPlaces: a place is the time of an id, and of any text.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		id   string
		want int64
	}{
		{"", 1},
		{"00000000-0000-7000-8000-000000000000", 1},
		{"00000000-0000-7001-8000-000000000000", 1},
		{"00000000-0000-7002-8000-000000000000", 2},
		{"019f3a00-0001-7abc-8000-ffffffffffff", 0x019f3a000001abc},
		{"FFFFFFFF-FFFF-7FFF-BFFF-FFFFFFFFFFFF", 1<<60 - 1},
		{"019f", 0x019f << 44},
		{"019f-x", 0x019f << 44},
	} {
		if got := placeOf(c.id); got != c.want {
			t.Errorf("placeOf(%q) = %x, want %x", c.id, got, c.want)
		}
	}
}

// TestSharedPlaces: makers that count alike share a place, and everything is found all the same.
func TestSharedPlaces(t *testing.T) {
	path := tempPath(t)
	l := mustOpen(t, Config{Path: path})
	const same = probes
	writes := make([]*ledger.Write, same+1)
	var done <-chan struct{}
	for i := range writes {
		w := dispatchedWrite(l, "key-"+benchID())
		w.Insert.ID = "019f3a00-0000-7001-8000-" + benchID()[24:]
		w.Relaxed = i%3 > 0
		writes[i], done = w, l.Enqueue(w)
	}
	<-done
	after := dispatchedWrite(l, "next")
	after.Insert.ID = "019f3a00-0000-7002-8000-000000000000" // its place is taken by the crowd before it
	<-l.Enqueue(after)
	refused := 0
	for _, w := range append(writes, after) {
		if w.Err != nil {
			refused++
			continue
		}
		rec, err := l.Get(t.Context(), w.Insert.ID)
		if err != nil || rec.ID != w.Insert.ID {
			t.Errorf("Get(%s) = %v, %v", w.Insert.ID, rec, err)
		}
		if h, err := l.Holder(t.Context(), w.ClaimKey); err != nil || h.ID != w.Insert.ID {
			t.Errorf("Holder(%s) = %v, %v", w.ClaimKey, h, err)
		}
		c := confirmedWrite(l, w)
		s := settledWrite(l, c, w.Insert.ID)
		l.Enqueue(c)
		if <-l.Enqueue(s); s.Err != nil {
			t.Fatal(s.Err)
		}
		if b, err := l.Body(t.Context(), w.Insert.ID, ledger.BodyAnswer); err != nil || string(b.Data) != w.Insert.ID {
			t.Errorf("Body(%s) = %v, %v", w.Insert.ID, b, err)
		}
	}
	if refused != 1 {
		t.Errorf("%d were refused, want the one beyond %d", refused, probes)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if found, err := Verify(t.Context(), path); err != nil || len(found) > 0 {
		t.Errorf("Verify = %v, %v", found, err)
	}
}
