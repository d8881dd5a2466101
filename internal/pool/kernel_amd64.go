//go:build !noasm

package pool

import "golang.org/x/sys/cpu"

var avx2 = cpu.X86.HasAVX2

// whole is how many of c channels are for the assembly.
func whole(c int) int {
	if !avx2 {
		return 0
	}
	return c &^ 7
}

//go:generate sh -c "cd ../_gen/pool && go run . -out ../../pool/kernel_amd64.s -stubs ../../pool/kernel_stubs_amd64.go -pkg pool"
