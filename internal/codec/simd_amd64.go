//go:build !noasm

package codec

import "golang.org/x/sys/cpu"

var simd = cpu.X86.HasAVX2 && cpu.X86.HasF16C

// wide says whether the AVX-512 kernels run, where there are any.
var wide = simd && cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL

// deposited is how many of n words assembly spreads by PDEP, which came with AVX2.
func deposited(n int) int {
	if !simd || !cpu.X86.HasBMI2 {
		return 0
	}
	return n
}

// wideWhole is whole for kernels of AVX-512.
func wideWhole(n, group int) int {
	if !wide {
		return 0
	}
	return n &^ (group - 1)
}

// whole is how many of n elements the assembly takes, in groups of so many, a
// power of two.
func whole(n, group int) int {
	if !simd {
		return 0
	}
	return n &^ (group - 1)
}

//go:generate sh -c "cd ../_gen/codec && go run . -out ../../codec/kernels_amd64.s -stubs ../../codec/kernels_stubs_amd64.go -pkg codec"
