//go:build !noasm

package f32

import "testing"

// A processor without AVX-512 gets the same bits.
func TestKernelsWithoutAVX512(t *testing.T) {
	if !wide {
		return // TestKernelsAreTheirTwins has just shown it
	}
	defer func() { wide = true }()
	wide = false
	TestKernelsAreTheirTwins(t)
}
