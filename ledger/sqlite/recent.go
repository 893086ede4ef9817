package sqlite

import (
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/holdfast-ai/holdfast/ledger/internal/stored"
)

// sqlDigest is digest for the queries that check the store.
func sqlDigest(ctx sqlite3.Context, arg ...sqlite3.Value) {
	ctx.ResultBlob(stored.Digest(arg[0].Text()))
}

// sqlPlace is placeOf, likewise.
func sqlPlace(ctx sqlite3.Context, arg ...sqlite3.Value) {
	ctx.ResultInt64(placeOf(arg[0].Text()))
}

// place is where an intent stands in the file, which never changes.
type place struct {
	seq      int64 // 0: no such intent
	claimed  bool
	batch    int64 // in which this process wrote it; 0: it may not have
	answered bool  // this process gave it an answer in a row of its own
}

// recentSize bounds each of the two generations that are remembered.
const recentSize = 8192

// recent remembers where the intents written last stand, so that settling one does not begin with looking for it.
// It may remember one whose insertion was undone: what is done at its place asks for its version, and finds nothing.
type recent struct{ young, old map[string]place }

func (r *recent) find(id string) (place, bool) {
	p, ok := r.young[id]
	if !ok {
		p, ok = r.old[id]
	}
	return p, ok
}

func (r *recent) add(id string, p place) {
	if len(r.young) >= recentSize {
		r.old, r.young = r.young, r.old
		clear(r.young)
	}
	if r.young == nil {
		r.young = make(map[string]place)
	}
	r.young[strings.Clone(id)] = p // not the caller's memory, of which id may be a part
}

// answer notes that an intent has an answer in a row of its own.
func (r *recent) answer(id string) {
	for _, m := range []map[string]place{r.young, r.old} {
		if p, ok := m[id]; ok {
			p.answered = true
			m[id] = p
		}
	}
}

func (r *recent) forget() {
	clear(r.young)
	clear(r.old)
}
