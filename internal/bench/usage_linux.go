package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of /proc/PID/stat: USER_HZ is 100 on every platform that Go knows (proc(5)).
const tick = 10 * time.Millisecond

// cpuOf is what a process has used so far, its dead threads included. On a shared machine this says more than the
// wall clock.
func cpuOf(pid int) (time.Duration, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // the name before it may hold anything
	if len(f) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f))
	}
	user, err1 := strconv.ParseInt(string(f[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(f[12]), 10, 64)
	return time.Duration(user+system) * tick, errors.Join(err1, err2)
}

// ownCPU is what this process has used so far, to the microsecond.
func ownCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// rssOf is the memory that a process holds now, in bytes.
func rssOf(pid int) (int64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(b, []byte("VmRSS:"))
	value, _, ok := bytes.Cut(rest, []byte("kB"))
	if !ok {
		return 0, fmt.Errorf("/proc/%d/status has no VmRSS", pid)
	}
	kb, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
	return kb << 10, err
}

// datasync is the sync that SQLite uses, so that the reference row pays what the ledger pays.
func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// preciseSleep makes this goroutine's thread wake on time: timers of the runtime may be a millisecond late while
// nothing else goes on. Call the result when done.
func preciseSleep() (release func()) {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // without it: 50 µs late
	return func() {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // 0: the default again
		runtime.UnlockOSThread()
	}
}

func sleepUntil(t time.Time) {
	for d := time.Until(t); d > 0; d = time.Until(t) {
		ts := unix.NsecToTimespec(int64(d))
		_ = unix.Nanosleep(&ts, nil) // a signal ends it early: the loop goes on
	}
}

// cores splits the processors that this process may use: one for the process in the middle, the others for all
// that drives it. ok is false on a single core.
func cores() (middle, rest *unix.CPUSet, ok bool) {
	var all unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil || all.Count() < 2 {
		return nil, nil, false
	}
	middle, rest = &unix.CPUSet{}, &unix.CPUSet{}
	for i, left := 0, all.Count(); left > 0; i++ {
		if !all.IsSet(i) {
			continue
		}
		if left--; left == 0 {
			middle.Set(i)
		} else {
			rest.Set(i)
		}
	}
	return middle, rest, true
}

// placement says where processes run.
type placement struct{ middle, rest *unix.CPUSet }

// place keeps this process, its threads to come and its children off the core of the process in the middle.
func place() (*placement, func()) {
	middle, rest, ok := cores()
	if !ok {
		return nil, func() {}
	}
	var all unix.CPUSet
	_ = unix.SchedGetaffinity(0, &all) // cores has just done it
	confine(rest)
	return &placement{middle, rest}, func() { confine(&all) }
}

// confine moves all threads of this process; those to come inherit it.
func confine(set *unix.CPUSet) {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			_ = unix.SchedSetaffinity(tid, set) // a thread that has ended needs no place
		}
	}
}

// inTheMiddle starts a process on the core that is kept free for it: a child inherits its thread's place.
func (p *placement) inTheMiddle(start func() error) error {
	if p == nil {
		return start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.SchedSetaffinity(0, p.middle); err != nil {
		return fmt.Errorf("choose a core: %w", err)
	}
	return errors.Join(start(), unix.SchedSetaffinity(0, p.rest))
}

// openFiles asks for n open files in this process and its children, and returns how many there may be.
func openFiles(n uint64) uint64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	want := unix.Rlimit{Cur: max(n, l.Cur), Max: max(n, l.Max)}
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &want) == nil {
		return want.Cur
	}
	l.Cur = l.Max // only root may go beyond
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return l.Cur
}
