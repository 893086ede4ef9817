//go:build !race

package office_test

const raceDetector = false
