//go:build !mutant

package mutant

// Built says whether this build can be broken on purpose.
const Built = false

// On reports whether the named fault is on; without the build tag none ever is.
func On(string) bool { return false }

// Point does nothing in a normal build.
func Point(string) {}

// Crashes reports whether a crash is asked for at the named point.
func Crashes(string) bool { return false }
