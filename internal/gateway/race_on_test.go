//go:build race

package gateway_test

// raceDetector says that everything takes ten times as long, and that order matters more than number.
const raceDetector = true
