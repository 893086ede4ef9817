package ledgertest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/holdfast-ai/holdfast/ledger"
)

// RunReplicas runs what the contract says of claims over two ledgers that are open on one store, as two processes have them. open returns
// them on a new, empty store; the suite closes them.
func RunReplicas(t *testing.T, open func(t *testing.T) (ledger.Ledger, ledger.Ledger)) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *fixture)
	}{
		{"OneOfFifty", oneOfFifty},
		{"Linearizable", linearizable},
		{"KeptUntil", claimKept},
		{"TakeoverOfExpired", claimTakeover},
		{"LateSettleLeavesSuccessor", lateSettleLeavesSuccessor},
		{"StaleChangesNothing", staleChangesNothing},
		{"Lease", leasedTogether},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := open(t)
			l := &replicas{Ledger: a, other: b}
			c.test(t, newFixture(t, l))
			if err := l.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

// replicas asks one ledger, then the other.
type replicas struct {
	ledger.Ledger
	other ledger.Ledger
	turn  atomic.Uint64
}

func (r *replicas) next() ledger.Ledger {
	if r.turn.Add(1)%2 == 0 {
		return r.other
	}
	return r.Ledger
}

func (r *replicas) Enqueue(w *ledger.Write) <-chan struct{} { return r.next().Enqueue(w) }

func (r *replicas) Get(ctx context.Context, id string) (*ledger.Record, error) {
	return r.next().Get(ctx, id)
}

func (r *replicas) Holder(ctx context.Context, key string) (*ledger.Record, error) {
	return r.next().Holder(ctx, key)
}

func (r *replicas) Close() error { return errors.Join(r.Ledger.Close(), r.other.Close()) }

// leasedTogether: of leases that replicas ask for at once, one is given.
func leasedTogether(t *testing.T, f *fixture) {
	for range 10 {
		w := f.commit(f.created(""))
		const many = 16
		var leases [many]*ledger.Write
		var done [many]<-chan struct{}
		for i := range leases {
			leases[i] = f.lease(w, "owner-"+string(rune('a'+i)))
			done[i] = f.Enqueue(leases[i])
		}
		given := ""
		for i, l := range leases {
			<-done[i]
			switch {
			case l.Err == nil && given != "":
				t.Fatal("two leases of one intent were given")
			case l.Err == nil:
				given = l.Status.LeaseOwner
			case !errors.Is(l.Err, ledger.ErrStale):
				t.Fatal(l.Err)
			}
		}
		if got := f.get(w.Insert.ID).LeaseOwner; got != given {
			t.Errorf("the lease is %q's, given to %q", got, given)
		}
	}
}
