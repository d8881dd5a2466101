//go:build !race

package compresstest

const raceDetector = false
