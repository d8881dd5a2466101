package f32

import (
	"fmt"
	"testing"
)

// BenchmarkVector is GB/s of bytes read and written, for vectors of 32 KiB,
// which the second-level cache holds, and for vectors that no cache does. The
// first row, copying, is the measure; "twin" is plain Go.
func BenchmarkVector(b *testing.B) {
	for _, n := range []int{1 << 13, 1 << 24} {
		x, y, z := randVec(newRand(1), 1<<13), randVec(newRand(2), 1<<13), randVec(newRand(3), 1<<13)
		for len(x) < n {
			x, y, z = append(x, x...), append(y, y...), append(z, z...)
		}
		h := make([]byte, 2*n)
		EncodeFP16(h, x)
		run := func(name string, bytes int, f func()) {
			b.Run(fmt.Sprintf("%dKiB/%s", n/256, name), func(b *testing.B) {
				b.SetBytes(int64(bytes * n))
				for b.Loop() {
					f()
				}
			})
		}
		var s lanes
		run("copy", 8, func() { copy(y, x) })
		run("Axpy", 12, func() { Axpy(y, 1e-9, x) })
		run("Axpy/twin", 12, func() { axpyGo(y, 1e-9, x) })
		run("Add", 12, func() { Add(y, x); clear(y[:8]) })
		run("Scale", 8, func() { Scale(y, 1) })
		run("Fill", 4, func() { Fill(z, 1) })
		run("Dot", 8, func() { Dot(x, y) })
		run("Dot/twin", 8, func() { dotGo(&s, x, y) })
		run("Sum", 4, func() { Sum(x) })
		run("MaxAbs", 4, func() { MaxAbs(x) })
		run("AllFinite", 4, func() { AllFinite(x) })
		run("MaxAbs/twin", 4, func() { maxBitsGo(x) })
		run("ReLU", 8, func() { ReLU(y, x) })
		run("ReLU/twin", 8, func() { reluGo(y, x) })
		run("ReLUGrad", 12, func() { ReLUGrad(y, x, z) })
		run("GELU", 8, func() { GELU(y, x) })
		run("GELU/twin", 8, func() { geluGo(y, x) })
		run("GELUGrad", 20, func() { copy(z, y); GELUGrad(z, x) })
		run("GELUGrad/twin", 20, func() { copy(z, y); geluGradGo(z, x) })
		run("EncodeBF16", 6, func() { EncodeBF16(h, x) })
		run("EncodeBF16/twin", 6, func() { encodeBF16Go(h, x) })
		run("DecodeBF16", 6, func() { DecodeBF16(y, h) })
		run("AddBF16", 10, func() { AddBF16(y, 1e-9, h) })
		run("RoundBF16", 8, func() { RoundBF16(y) })
		EncodeFP16(h, x)
		run("EncodeFP16", 6, func() { EncodeFP16(h, x) })
		run("EncodeFP16/twin", 6, func() { encodeFP16Go(h, x) })
		run("DecodeFP16", 6, func() { DecodeFP16(y, h) })
		run("AddFP16", 10, func() { AddFP16(y, 1e-9, h) })
		run("AddFP16/twin", 10, func() { addFP16Go(y, 1e-9, h) })
	}
}

// BenchmarkColumns is the same for kernels over rows of 16 and 512 channels.
func BenchmarkColumns(b *testing.B) {
	for _, n := range []int{1 << 13, 1 << 24} {
		x, y, z := randVec(newRand(1), 1<<13), randVec(newRand(2), 1<<13), randVec(newRand(3), 1<<13)
		for len(x) < n {
			x, y, z = append(x, x...), append(y, y...), append(z, z...)
		}
		for _, cols := range []int{16, 512} {
			p, q, r := make([]float32, cols), make([]float32, cols), make([]float32, cols)
			s, t := make([]float64, cols), make([]float64, cols)
			run := func(name string, bytes int, f func()) {
				b.Run(fmt.Sprintf("%dKiB/%d/%s", n/256, cols, name), func(b *testing.B) {
					b.SetBytes(int64(bytes * n))
					for b.Loop() {
						f()
					}
				})
			}
			run("copy", 8, func() { copy(z, x) })
			run("BiasReLU", 8, func() { BiasReLU(z, p, true) })
			run("ScaleShift", 8, func() { ScaleShift(z, x, p, q, nil, true) })
			run("ScaleShift/plus", 12, func() { ScaleShift(z, x, p, q, y, true) })
			run("ScaleShift/twin", 8, func() { scaleShiftGo(0, z, x, p, q, nil, true) })
			run("NormGrad", 12, func() { NormGrad(z, y, x, p, q, r) })
			run("ColSums", 4, func() { ColSums(s, x) })
			run("ReLUGradColSums", 12, func() { ReLUGradColSums(s, y, x) })
			run("Moments", 4, func() { Moments(s, t, x) })
			run("Moments/twin", 4, func() { momentsGo(0, s, t, x) })
			run("NormGradSums", 8, func() { NormGradSums(s, t, y, x, nil) })
			run("NormGradSums/masked", 16, func() { NormGradSums(s, t, y, x, z) })
		}
	}
}
