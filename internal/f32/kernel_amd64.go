//go:build !noasm

package f32

import (
	"time"

	"golang.org/x/sys/cpu"
)

// fused says that the machine has AVX2 and fused multiply-adds.
var fused = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// hasPairs says that it has products of pairs of bfloat16 too.
var hasPairs = fused && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512BF16 && cpu.X86.HasBMI2

func init() {
	if hasPairs {
		availablePairs = []*kernel{bf16x32, plainPairs}
		usablePairs, paired = availablePairs[:1], pairsPay()
	}
	switch {
	case fused && cpu.X86.HasAVX512F:
		available = []*kernel{avx512x32, avx512x48, avx2, plain}
		usable = available[:2]
	case fused:
		available = []*kernel{avx2, plain}
		usable = available[:1]
	}
}

// pairsPay tries whether a tile of pairs takes less time than one of as many floats: twice
// as much is done by an instruction, and Xeons take four times as long for it. It takes some
// 50 µs. Bits do not depend on the answer.
func pairsPay() bool {
	const k = 128
	a, b, c := make([]float32, 12*k), make([]float32, 32*k), make([]float32, 12*32)
	took := [2]time.Duration{time.Hour, time.Hour}
	for range 12 {
		for i, kr := range [2]*kernel{avx512x32, bf16x32} {
			x := call{k: k >> i, tiles: 1, a: a, aRow: 1, aStep: 12, b: b, bStep: 32, c: c, cRow: 32, alpha: 1, flush: true, width: 32}
			begin := time.Now()
			kr.run(12, &x)
			took[i] = min(took[i], time.Since(begin))
		}
	}
	return took[1] < took[0]
}

// avx2 has 12 accumulators, 2 registers for B and 2 for A: all 16 there are.
var avx2 = &kernel{
	name: "avx2-6x16", rows: 6, cols: 16, heights: []int{6, 5, 4, 3, 2, 1},
	run: func(rows int, x *call) {
		x.check(rows, 16)
		switch rows {
		case 6:
			avx2x16x6(&x.k)
		case 5:
			avx2x16x5(&x.k)
		case 4:
			avx2x16x4(&x.k)
		case 3:
			avx2x16x3(&x.k)
		case 2:
			avx2x16x2(&x.k)
		case 1:
			avx2x16x1(&x.k)
		}
	},
}

var avx512x32 = &kernel{
	name: "avx512-12x32", rows: 12, cols: 32, heights: []int{12, 10, 8, 6, 4, 3, 2, 1},
	run: func(rows int, x *call) {
		x.check(rows, 32)
		switch rows {
		case 12:
			avx512x32x12(&x.k)
		case 10:
			avx512x32x10(&x.k)
		case 8:
			avx512x32x8(&x.k)
		case 6:
			avx512x32x6(&x.k)
		case 4:
			avx512x32x4(&x.k)
		case 3:
			avx512x32x3(&x.k)
		case 2:
			avx512x32x2(&x.k)
		case 1:
			avx512x32x1(&x.k)
		}
	},
}

// bf16x32 has the tiles of avx512x32.
var bf16x32 = &kernel{
	name: "bf16-12x32", rows: 12, cols: 32, heights: []int{12, 10, 8, 6, 4, 3, 2, 1},
	run: func(rows int, x *call) {
		x.check(rows, 32)
		switch rows {
		case 12:
			bf16x32x12(&x.k)
		case 10:
			bf16x32x10(&x.k)
		case 8:
			bf16x32x8(&x.k)
		case 6:
			bf16x32x6(&x.k)
		case 4:
			bf16x32x4(&x.k)
		case 3:
			bf16x32x3(&x.k)
		case 2:
			bf16x32x2(&x.k)
		case 1:
			bf16x32x1(&x.k)
		}
	},
}

var avx512x48 = &kernel{
	name: "avx512-8x48", rows: 8, cols: 48, heights: []int{8, 6, 5, 4, 3, 2, 1},
	run: func(rows int, x *call) {
		x.check(rows, 48)
		switch rows {
		case 8:
			avx512x48x8(&x.k)
		case 6:
			avx512x48x6(&x.k)
		case 5:
			avx512x48x5(&x.k)
		case 4:
			avx512x48x4(&x.k)
		case 3:
			avx512x48x3(&x.k)
		case 2:
			avx512x48x2(&x.k)
		case 1:
			avx512x48x1(&x.k)
		}
	},
}

//go:generate sh -c "cd ../_gen/gemm && go run . -out ../../f32/kernel_amd64.s -stubs ../../f32/kernel_stubs_amd64.go -pkg f32"
