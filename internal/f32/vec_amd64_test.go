//go:build !noasm

package f32

import "testing"

// A processor without AVX-512 gets the same bits of what has kernels for both.
func TestKernelsWithoutAVX512(t *testing.T) {
	if !wide {
		return // TestKernelsAreTheirTwins has just shown it
	}
	defer func() { wide = true }()
	wide = false
	againstTwins(t, "GELU")
}
