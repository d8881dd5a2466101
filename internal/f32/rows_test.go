package f32

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gradlab/gradlab/internal/cpu"
)

// What functions of rows return has the same bits on every kind of processor, emulated ones
// too: no run has them in its golden file yet.
func TestRowsHaveTheSameBits(t *testing.T) {
	cpu.Each(func(kind string) {
		sum, draws := fnv.New64a(), rand.NewPCG(7, 8)
		// Whole numbers over powers of two: what draws them rounds nothing.
		row := func(n int, scale float32) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(int32(draws.Uint64()>>39)-1<<24) * scale
			}
			return x
		}
		keep := func(v float64, rows ...[]float32) {
			sum.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)))
			for _, x := range rows {
				if !AllFinite(x) {
					t.Errorf("%s: not finite, of which bits may differ", kind)
				}
				sum.Write(AppendBytes(nil, x))
			}
		}
		for _, n := range []int{1, 8, 64, 100, 1000, 8192} {
			x, y, z, u := row(n, 0x1p-19), row(n, 0x1p-23), row(n, 0x1p-24), row(n, 0x1p-24)
			keep(ExpSum(u, x, 40), u)
			keep(CrossEntropy(u, x, n/2, 1), u)
			SoftmaxGrad(u, x, y, Max(x))
			keep(0, u)
			SwiGLU(u, y, x)
			keep(0, u)
			Sub(y, u)
			SwiGLUGrad(u, y, x, y, z)
			mean, rstd := LayerNorm(x, x, y, z, 1e-6)
			keep(float64(mean)*float64(rstd), u, y, x)
			LayerNormGrad(u, z, y, u, x, y, mean, rstd)
			keep(float64(RMSNorm(y, x, z, 1e-6)), u, y, z)
			RMSNormGrad(u, z, y, x, z, rstd)
			keep(0, u, z)
		}
		if got, want := sum.Sum64(), uint64(0x7816f18f019d2ded); got != want {
			t.Errorf("%s: %#x, want %#x", kind, got, want)
		}
	})
}

func TestRowsDoNotAllocate(t *testing.T) {
	x, y, z, u, v := randVec(newRand(1), 100), randVec(newRand(2), 100), make([]float32, 100), make([]float32, 100), make([]float32, 100)
	if n := testing.AllocsPerRun(50, func() {
		CrossEntropy(z, x, 1, 1)
		SoftmaxGrad(z, y, z, Max(x))
		SwiGLU(z, x, y)
		SwiGLUGrad(z, u, y, x, y)
		mean, rstd := LayerNorm(z, x, y, y, 1e-6)
		LayerNormGrad(z, u, v, y, x, y, mean, rstd)
		RMSNormGrad(z, u, y, x, y, RMSNorm(v, x, y, 1e-6))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
