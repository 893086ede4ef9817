// Package crash kills real gateways, at random and at every named point, and asks a far side with a log of its own
// what happened. docs/crash.md says what is checked and how a failure is run again.
package crash
