//go:build !noasm

package f32

import "golang.org/x/sys/cpu"

// The kernels of vectors, AVX2 and some AVX-512: each is its twin in plain Go, bit for bit, for
// whole groups of eight elements. The last few are left to the twin. Decided
// once, by the machine.
var (
	simd    = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	simdF16 = simd && cpu.X86.HasF16C
	wide    = simd && cpu.X86.HasAVX512F
)

// whole is how many of n elements the assembly takes.
func whole(n int) int {
	if !simd {
		return 0
	}
	return n &^ 7
}

// sixteens is how many of n elements AVX-512 takes, where what waits for arithmetic, and
// not for memory, gains by it.
func sixteens(n int) int {
	if !wide {
		return 0
	}
	return n &^ 15
}

// wholeF16 is whole for kernels that convert halves.
func wholeF16(n int) int {
	if !simdF16 {
		return 0
	}
	return n &^ 7
}

//go:generate sh -c "cd ../_gen/vec && go run . -out ../../f32/vec_amd64.s -stubs ../../f32/vec_stubs_amd64.go -pkg f32"
