// Package simulation lives through histories of the whole engine in a bubble of fake time: a schedule of clients,
// faults and crashes that one seed names, and what must hold after every one of them.
package simulation
