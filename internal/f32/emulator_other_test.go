//go:build !amd64 || noasm

package f32

// flushesEarly is about assembly for amd64.
func flushesEarly() bool { return false }
