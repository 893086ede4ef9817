//go:build race

package office_test

// raceDetector is on: only calls at once could show it anything, and it makes an office ten times as slow to open.
const raceDetector = true
