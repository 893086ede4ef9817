//go:build mutant

// Package mutant lets one special build break the program on purpose, so that tests prove they would notice.
package mutant

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var (
	chosen = os.Getenv("HOLDFAST_MUTANT")
	// HOLDFAST_CRASH=point:n kills this process, as kill -9 would, when point is reached for the n-th time.
	crashPoint, crashAt = parseCrash(os.Getenv("HOLDFAST_CRASH"))
	reached             atomic.Int64
)

// On says whether the named defect is switched on (HOLDFAST_MUTANT).
func On(name string) bool { return chosen == name }

// Point is a named place of the program at which a crash can be asked for (HOLDFAST_CRASH).
func Point(name string) {
	if name == crashPoint && reached.Add(1) == crashAt {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // never go past the point while the signal is on its way
	}
}

func parseCrash(s string) (string, int64) {
	point, count, found := strings.Cut(s, ":")
	if !found {
		return point, 1
	}
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		return "", 0
	}
	return point, n
}
