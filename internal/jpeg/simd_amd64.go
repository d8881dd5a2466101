//go:build !noasm

package jpeg

import "golang.org/x/sys/cpu"

var simd = cpu.X86.HasAVX2

//go:generate sh -c "cd ../_gen/jpeg && go run . -out ../../jpeg/kernels_amd64.s -stubs ../../jpeg/kernels_stubs_amd64.go -pkg jpeg"
