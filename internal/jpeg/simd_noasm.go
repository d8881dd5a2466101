//go:build !amd64 || noasm

package jpeg

const simd = false

// What follows is not called.

func idct8AVX2(f *[64]int32, to *uint8, stride int)  {}
func exact8AVX2(f *[64]int32, to *uint8, stride int) {}
