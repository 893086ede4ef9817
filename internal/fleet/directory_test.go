package fleet_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ai/holdfast/internal/fleet"
	"github.com/holdfast-ai/holdfast/ledger"
)

// owners is the part of a store that a directory reads: it can be away, and stand still.
type owners struct {
	mu    sync.Mutex
	rows  map[string]ledger.Owner
	away  bool
	still bool
	reads atomic.Int64
}

func (o *owners) Now() time.Time { return time.Now() }

func (o *owners) put(id string, lives time.Duration, i fleet.Info) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rows == nil {
		o.rows = map[string]ledger.Owner{}
	}
	o.rows[id] = ledger.Owner{ID: id, Until: time.Now().Add(lives), Info: i.Encode()}
}

func (o *owners) set(away, still bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away, o.still = away, still
}

func (o *owners) Owners(ctx context.Context) ([]ledger.Owner, error) {
	o.reads.Add(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.still {
		o.mu.Unlock()
		<-ctx.Done()
		o.mu.Lock()
		return nil, ctx.Err()
	}
	if o.away {
		return nil, errors.New("away")
	}
	var all []ledger.Owner
	for _, r := range o.rows {
		all = append(all, r)
	}
	return all, nil
}

func TestDirectoryFinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owners{}
		o.put("a", time.Hour, fleet.Info{Address: "http://10.0.0.1:8787"})
		o.put("dead", -time.Second, fleet.Info{Address: "http://10.0.0.2:8787"})
		o.put("ended", time.Hour, fleet.Info{Address: "http://10.0.0.3:8787", Ended: true})
		o.put("hidden", time.Hour, fleet.Info{})
		o.rows["later"] = ledger.Owner{ID: "later", Until: time.Now().Add(time.Hour), Info: []byte("\x00words of a later version")}
		d := fleet.NewDirectory(o, "self", nil)
		defer d.Close()
		for id, want := range map[string]string{"a": "http://10.0.0.1:8787", "dead": "", "ended": "", "hidden": "", "later": "", "nobody": ""} {
			if got, ok := d.Find(id); got != want || ok != (want != "") {
				t.Errorf("%s: got %q %v, want %q", id, got, ok, want)
			}
		}
		if live := d.Live(); len(live) != 3 {
			t.Errorf("live: %+v", live)
		}
		if all := d.All(); len(all) != 5 {
			t.Errorf("all: %+v", all)
		}
		o.put("new", time.Hour, fleet.Info{Address: "http://10.0.0.4:8787"})
		time.Sleep(100 * time.Millisecond) // of the bubble
		if _, ok := d.Find("new"); !ok {
			t.Error("one that came since the last reading is not found")
		}
	})
}

func TestDirectoryReadsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owners{}
		o.put("a", time.Hour, fleet.Info{Address: "http://10.0.0.1:8787"})
		d := fleet.NewDirectory(o, "self", nil)
		defer d.Close()
		for range 100 {
			d.Find("a")
			d.Live()
			time.Sleep(10 * time.Millisecond) // of the bubble
		}
		if n := o.reads.Load(); n != 1 {
			t.Errorf("%d readings in a second of known ones", n)
		}
		before := o.reads.Load()
		for range 100 {
			d.Find("a stranger")
			time.Sleep(10 * time.Millisecond) // of the bubble
		}
		if n := o.reads.Load() - before; n > 11 {
			t.Errorf("%d readings in a second for a stranger", n)
		}
		o.set(false, true)
		time.Sleep(time.Second) // of the bubble
		before = o.reads.Load()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, ok := d.Find("a"); !ok {
					t.Error("a store that stands still has made somebody unknown")
				}
			})
		}
		all.Wait()
		if n := o.reads.Load() - before; n != 1 {
			t.Errorf("%d readings at one time", n)
		}
	})
}

// TestDirectoryWithoutItsStore goes by what it knew, and by the time that goes on.
func TestDirectoryWithoutItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owners{}
		o.put("a", 15*time.Second, fleet.Info{Address: "http://10.0.0.1:8787"})
		d := fleet.NewDirectory(o, "self", nil)
		defer d.Close()
		d.Live()
		o.set(true, false)
		time.Sleep(10 * time.Second) // of the bubble
		if _, ok := d.Find("a"); !ok {
			t.Error("forgot who lives")
		}
		time.Sleep(6 * time.Second) // of the bubble
		if _, ok := d.Find("a"); ok {
			t.Error("one whose lease is over lives on while the store is away")
		}
		o.put("a", 15*time.Second, fleet.Info{Address: "http://10.0.0.1:8787"})
		o.set(false, false)
		time.Sleep(time.Second) // of the bubble
		if _, ok := d.Find("a"); !ok {
			t.Error("the store is back, and its news is not read")
		}
	})
}
