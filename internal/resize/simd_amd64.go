//go:build !noasm

package resize

import "golang.org/x/sys/cpu"

var simd = cpu.X86.HasAVX2

// whole is how many of n are for the assembly, in groups of so many, a power of two.
func whole(n, group int) int {
	if !simd {
		return 0
	}
	return n &^ (group - 1)
}

//go:generate sh -c "cd ../_gen/resize && go run . -out ../../resize/kernels_amd64.s -stubs ../../resize/kernels_stubs_amd64.go -pkg resize"
