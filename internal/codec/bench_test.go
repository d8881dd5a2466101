package codec

import (
	"fmt"
	"testing"

	"github.com/gradlab/gradlab/internal/rng"
)

// BenchmarkKernel is MB/s of float32 on vectors that the first cache holds.
func BenchmarkKernel(b *testing.B) {
	const n = 2048
	key := rng.New(1, "bench")
	x, codes, packed := make([]float32, n), make([]byte, n), make([]byte, 4*n)
	y, idx, stairs := make([]float32, n), make([]uint32, n), NewStairs([]int{-15, -11, -8, -6, -4, -2, -1, 1, 2, 4, 6, 8, 11, 15})
	for i := range x {
		x[i] = float32(key.Norm(uint64(i)))
	}
	run := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(4 * n)
			for b.Loop() {
				f()
			}
		})
	}
	run("Levels", func() { Levels(codes, x, Scale{1, 1 << 24}, 7, key, 0) })
	run("Steps", func() { Steps(codes, x, -9, Scale{1, 1 << 22}, 15, key, 0) })
	run("NearestSteps", func() { NearestSteps(codes, x, -9, 0.8, 15) })
	run("Extent", func() { Extent(x) })
	run("Exponents", func() { Exponents(codes, x, key, 0) })
	run("NearestBF16", func() { NearestBF16(packed[:2*n], x) })
	run("RandomBF16", func() { RandomBF16(packed[:2*n], x, key, 0) })
	run("Signs", func() { Signs(packed[:n/8], x) })
	run("Ternary", func() { Ternary(codes, x, 2) })
	for _, width := range []int{1, 4, 7} {
		p := packed[:PackedLen(n, width)]
		run(fmt.Sprintf("Pack/%d", width), func() { Pack(p, codes, width) })
		run(fmt.Sprintf("MaxCode/%d", width), func() { MaxCode(p, n, width) })
		run(fmt.Sprintf("Unpack/%d", width), func() { Unpack(codes, p, width) })
	}
	run("PackTrits", func() { PackTrits(packed[:TritLen(n)], codes) })
	run("UnpackTrits", func() { UnpackTrits(codes, packed[:TritLen(n)]) })
	run("MaxByte", func() { MaxByte(codes) })
	run("AddLevels/8", func() { AddLevels(x, 0, codes, 8, 7, 0, 1) })
	run("AddLevels/4", func() { AddLevels(x, 0, codes, 4, 7, 0, 1) })
	run("AddExponents", func() { AddExponents(x, 0, codes, packed[:n/8]) })
	run("AtLeast", func() { AtLeast(packed[:n/8], x, 1<<29) })
	run("Reaching", func() { Reaching(idx, y, x, 1<<29, 0) })
	run("Pick", func() { Pick(y, x, codes) })
	run("Stairs", func() { stairs.Round(codes, x, 4, key, 0) })
	run("Hadamard", func() { Hadamard(x); clear(x) })
	run("Flip", func() { Flip(x, key, 0) })
	c := NewCentroids([]float32{0.1, 0.4, 0.7, 0.9, 1.3, 1.6, 2.1, 2.7})
	run("Nearest/1", func() { c.Nearest(codes, x, 1, 1) })
	run("Nearest/4", func() { c.Nearest(codes, x, 1, 4) })
	run("Lookup", func() { Lookup(x, codes, (*[16]float32)(c)) })
}
