package f32

import (
	"time"

	"github.com/gradlab/gradlab/internal/cpu"
)

// families are the kernels of products, by instruction set, the fastest first. Products
// choose from the first family that the processor can run. All give the same bits.
var families = [][]*kernel{{avx512x32, avx512x48}, {avx2}, {plain}}

// usable are the kernels that products choose from.
func usable() []*kernel { return firstUsable(families) }

func firstUsable(families [][]*kernel) []*kernel {
	for _, f := range families {
		if cpu.Has(f[0].needs) {
			return f
		}
	}
	panic("f32: no kernel runs here, not even one in plain Go")
}

// pairFamilies are the same for pairs of bfloat16.
var pairFamilies = [][]*kernel{{bf16x32}, {plainPairs}}

// paired says whether products of rounded operands read pairs: decided once, by the machine.
var paired = cpu.Has(bf16x32.needs) && pairsPay()

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
			kr.multiply(12, &x)
			took[i] = min(took[i], time.Since(begin))
		}
	}
	return took[1] < took[0]
}

// avx2 has 12 accumulators, 2 registers for B and 2 for A: all 16 there are.
var avx2 = &kernel{
	name: "avx2-6x16", needs: avx2x16x6Needs, rows: 6, cols: 16, heights: []int{6, 5, 4, 3, 2, 1}, twin: microGo,
	run: func(rows int, x *call) bool {
		switch rows {
		case 6:
			return avx2x16x6(&x.k)
		case 5:
			return avx2x16x5(&x.k)
		case 4:
			return avx2x16x4(&x.k)
		case 3:
			return avx2x16x3(&x.k)
		case 2:
			return avx2x16x2(&x.k)
		}
		return avx2x16x1(&x.k)
	},
}

var avx512x32 = &kernel{
	name: "avx512-12x32", needs: avx512x32x12Needs, rows: 12, cols: 32, heights: []int{12, 10, 8, 6, 4, 3, 2, 1}, twin: microGo,
	run: func(rows int, x *call) bool {
		switch rows {
		case 12:
			return avx512x32x12(&x.k)
		case 10:
			return avx512x32x10(&x.k)
		case 8:
			return avx512x32x8(&x.k)
		case 6:
			return avx512x32x6(&x.k)
		case 4:
			return avx512x32x4(&x.k)
		case 3:
			return avx512x32x3(&x.k)
		case 2:
			return avx512x32x2(&x.k)
		}
		return avx512x32x1(&x.k)
	},
}

// bf16x32 has the tiles of avx512x32.
var bf16x32 = &kernel{
	name: "bf16-12x32", needs: bf16x32x12Needs, rows: 12, cols: 32, heights: []int{12, 10, 8, 6, 4, 3, 2, 1}, twin: pairsGo,
	run: func(rows int, x *call) bool {
		switch rows {
		case 12:
			return bf16x32x12(&x.k)
		case 10:
			return bf16x32x10(&x.k)
		case 8:
			return bf16x32x8(&x.k)
		case 6:
			return bf16x32x6(&x.k)
		case 4:
			return bf16x32x4(&x.k)
		case 3:
			return bf16x32x3(&x.k)
		case 2:
			return bf16x32x2(&x.k)
		}
		return bf16x32x1(&x.k)
	},
}

var avx512x48 = &kernel{
	name: "avx512-8x48", needs: avx512x48x8Needs, rows: 8, cols: 48, heights: []int{8, 6, 5, 4, 3, 2, 1}, twin: microGo,
	run: func(rows int, x *call) bool {
		switch rows {
		case 8:
			return avx512x48x8(&x.k)
		case 6:
			return avx512x48x6(&x.k)
		case 5:
			return avx512x48x5(&x.k)
		case 4:
			return avx512x48x4(&x.k)
		case 3:
			return avx512x48x3(&x.k)
		case 2:
			return avx512x48x2(&x.k)
		}
		return avx512x48x1(&x.k)
	},
}

// plain is the kernel of machines without one of their own.
var plain = &kernel{name: "plain", rows: 4, cols: 16, heights: []int{4, 3, 2, 1}, twin: microGo}

// plainPairs is the kernel of pairs of machines without one of their own.
var plainPairs = &kernel{name: "plain-pairs", rows: 4, cols: 16, heights: []int{4, 3, 2, 1}, twin: pairsGo}
