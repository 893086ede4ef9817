package replicas

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

// fault is something that happens to a replica, and its end.
type fault struct {
	name string
	do   func(*replica)
	undo func(k *replica, drop bool)
	long bool // beyond the lease
}

var faults = []fault{
	{"killed", (*replica).kill, func(k *replica, _ bool) { k.mustUp() }, false},
	{"killed beyond its lease", (*replica).kill, func(k *replica, _ bool) { k.mustUp() }, true},
	{"stopped beyond its lease", func(k *replica) { k.signal(syscall.SIGSTOP) }, func(k *replica, _ bool) { k.signal(syscall.SIGCONT) }, true},
	{"unheard by the database", func(k *replica) { k.link.set(true, false, false) }, mended, true},
	{"hears nothing of the database", func(k *replica) { k.link.set(false, true, false) }, mended, true},
	{"cut off from the database", func(k *replica) { k.link.set(true, true, false) }, mended, true},
	{"briefly cut off", func(k *replica) { k.link.set(true, true, false) }, mended, false},
	{"its connections reset", func(k *replica) { k.link.set(false, false, true) }, mended, false},
	{"restarted in order", (*replica).stop, func(k *replica, _ bool) { k.mustUp() }, false},
}

func mended(k *replica, drop bool) { k.link.set(false, false, drop) }

// happens lets a fault happen to a random replica, and a second one to another now and then, while meanwhile runs, and for a time
// that the lease says.
func (r *rig) happens(rnd *rand.Rand, f fault, meanwhile func()) {
	r.t.Helper()
	order := rnd.Perm(size)
	k, other := r.replicas[order[0]], r.replicas[order[1]]
	hold := time.Duration(float64(3*r.beat) * (0.1 + 0.5*rnd.Float64()))
	if f.long {
		hold = time.Duration(float64(3*r.beat) * (1.5 + 2*rnd.Float64()))
	}
	second, drop := rnd.IntN(4) == 0, rnd.IntN(2) == 0
	what := fmt.Sprintf("replica %d is %s for %s", k.i, f.name, hold.Round(time.Millisecond))
	if second {
		what += fmt.Sprintf(", replica %d cut off", other.i)
	}
	r.t.Log(what)
	r.alive(k)
	f.do(k)
	if second {
		other.link.set(true, true, false)
	}
	timer, fed := time.NewTimer(hold), make(chan struct{})
	defer timer.Stop()
	go func() { defer close(fed); meanwhile() }()
	<-timer.C
	if second {
		mended(other, drop)
	}
	f.undo(k, drop)
	r.alive(k)
	<-fed
}

// alive fails the test if a replica ended by itself.
func (r *rig) alive(k *replica) {
	r.t.Helper()
	if k.p == nil {
		return
	}
	select {
	case <-k.p.Done():
		r.t.Fatalf("replica %d ended by itself:\n%s", k.i, k.p.Output())
	default:
	}
}
