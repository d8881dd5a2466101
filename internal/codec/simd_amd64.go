//go:build !noasm

package codec

import "golang.org/x/sys/cpu"

var simd = cpu.X86.HasAVX2 && cpu.X86.HasF16C

// whole is how many of n elements the assembly takes, in groups of so many, a
// power of two.
func whole(n, group int) int {
	if !simd {
		return 0
	}
	return n &^ (group - 1)
}

//go:generate sh -c "cd ../_gen/codec && go run . -out ../../codec/kernels_amd64.s -stubs ../../codec/kernels_stubs_amd64.go -pkg codec"
