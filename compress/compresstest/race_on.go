//go:build race

package compresstest

// raceDetector says that the race detector is on. Checks of laws run on one
// goroutine and ten times slower under it: Family leaves them out then, and
// what is allocated is not counted, as a sync.Pool drops at random what it is given.
const raceDetector = true
