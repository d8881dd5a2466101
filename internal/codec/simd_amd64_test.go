//go:build !noasm

package codec

import (
	"testing"

	"pgregory.net/rapid"
)

// Where there are kernels of AVX-512, those of AVX2 are tried too.
func TestNarrowKernelsAreTheirTwins(t *testing.T) {
	if !wide {
		t.Skip("no AVX-512: TestKernelsAreTheirTwins has tried them")
	}
	wide = false
	defer func() { wide = true }()
	for i, k := range kernels {
		t.Run(k.name, rapid.MakeCheck(func(t *rapid.T) { agree(t, i) }))
	}
	t.Run("Cosines", rapid.MakeCheck(cosinesAreTheRecursion))
}
