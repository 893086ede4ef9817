//go:build !mutant

package mutant

import "time"

// Built says whether this build can be broken on purpose.
const Built = false

// On reports whether the named fault is on; without the build tag none ever is.
func On(string) bool { return false }

// Point does nothing in a normal build.
func Point(string) {}

// Beat is the interval of heartbeats: the given one.
func Beat(real time.Duration) time.Duration { return real }

// Crashes reports whether a crash is asked for at the named point.
func Crashes(string) bool { return false }
