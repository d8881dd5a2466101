// Package codec holds the kernels of the gradient codecs: packing of codes,
// rounding at random, selection, rotation.
//
// A kernel xxxAVX2 has a twin xxxGo in plain Go, which is its specification and does
// what the kernel does not: all of it where the processor lacks an instruction,
// elsewhere what is left behind the last whole group. Draws are those of internal/rng at the same
// addresses, so bits are the same on every machine.
package codec

import (
	"fmt"

	"github.com/gradlab/gradlab/internal/rng"
)

const magnitude = 1<<31 - 1 // the bits of a float32 without its sign

// same panics unless two lengths agree: a mismatch is the caller's error.
func same(op string, got, want int) {
	if got != want {
		panic(fmt.Sprintf("codec: %s: length %d, want %d", op, got, want))
	}
}

const gamma = 0x9e3779b97f4a7c15 // SplitMix64's, as in rng

// start is what draw i of key is the finaliser of: kernels count on from there.
func start(key rng.Key, i uint64) uint64 { return uint64(key) + (i+1)*gamma }
