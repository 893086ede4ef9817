// Package mutant switches on deliberate faults, so that a test can prove that it would notice them.
//
// A normal build has no faults: On is constant false there and the compiler removes what it guards. With the
// build tag "mutant" the environment variable HOLDFAST_MUTANT names the one fault that is on.
package mutant

// Env is the variable that names the fault of a mutant build.
const Env = "HOLDFAST_MUTANT"
