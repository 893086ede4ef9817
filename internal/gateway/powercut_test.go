package gateway_test

import (
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/holdfast-ai/holdfast/internal/gateway"
	"github.com/holdfast-ai/holdfast/ledger/sqlite/faultdisk"
)

// TestBR078PowerCut is run D of BR-078: the power goes in the moment in which the far side has the request. Whatever
// else the disk forgets, after the restart the call is there as unknown, and its repeat is not dispatched. Runs A to C
// are in ledger/sqlite.
func TestBR078PowerCut(t *testing.T) {
	disk := faultdisk.New(t.TempDir())
	r := newRig(t, func(c *rigConfig) { c.disk = disk })
	r.script("pay", `{"hold":"far-side"}`)
	q := chat("pay").workflow("external").key("p-1")
	first := make(chan *answered)
	go func() { first <- r.do(q) }()
	if err := r.sim.WaitHeld(t.Context(), "far-side", 1); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(8) {
		left := disk.Clone(t.TempDir())
		left.Cut(rand.New(rand.NewPCG(seed, 78)))
		left.Boot()
		again := &rig{t: t, sim: r.sim, path: r.path, policy: r.policy}
		again.start(rigConfig{disk: left})
		for range 2 {
			if a := again.must(q, http.StatusConflict); a.code() != string(gateway.CodeOutcomeUnknown) {
				t.Errorf("seed %d: %v", seed, a.header)
			}
		}
		again.close()
	}
	r.sim.Release("far-side")
	<-first
	r.calls("pay", 1)
}
