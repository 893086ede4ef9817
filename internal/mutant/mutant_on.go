//go:build mutant

package mutant

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Built says whether this build can be broken on purpose.
const Built = true

var (
	crashPoint, crashAt = parseCrash(os.Getenv("HOLDFAST_CRASH"))
	crashArmed          = os.Getenv("HOLDFAST_CRASH_ARMED")
	reached             atomic.Int64
)

// On reports whether the named fault is on.
func On(name string) bool { return os.Getenv(Env) == name }

// Point is a named place at which HOLDFAST_CRASH=name:n asks for a crash, as by kill -9, when it is reached for
// the n-th time. HOLDFAST_CRASH_ARMED names a file without which no reaching counts, for who cannot tell how often
// a process passes the point before the test begins.
func Point(name string) {
	if name == crashPoint && armed() && reached.Add(1) == crashAt {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // never go past the point while the signal is on its way
	}
}

// Beat is the interval of heartbeats: HOLDFAST_TEST_BEAT, so that tests of leases that run out need not wait for real ones,
// else the given one.
func Beat(real time.Duration) time.Duration {
	if d, err := time.ParseDuration(os.Getenv("HOLDFAST_TEST_BEAT")); err == nil && d > 0 {
		return d
	}
	return real
}

// Crashes reports whether a crash is asked for at the named point.
func Crashes(name string) bool { return name == crashPoint }

func armed() bool {
	if crashArmed == "" {
		return true
	}
	_, err := os.Stat(crashArmed)
	return err == nil
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
