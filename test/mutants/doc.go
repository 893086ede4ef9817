// Package mutants breaks the program on purpose, one fault at a time, and demands that a named test notices.
package mutants
