//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package upstream

// quiet cannot look here: a dead connection shows itself when it is written to.
func quiet(uintptr) bool { return true }
