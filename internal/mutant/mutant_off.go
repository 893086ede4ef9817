//go:build !mutant

// Package mutant lets one special build break the program on purpose, so that tests prove they would notice.
package mutant

// On is false in every ordinary build; the compiler removes what depends on it.
func On(string) bool { return false }

// Point does nothing in an ordinary build.
func Point(string) {}
