// Package conv opens the AVX2 and AVX-512 kernels of package conv.
package conv

// Kernels opens all of them.
func Kernels() {
	for _, strided := range []bool{false, true} {
		for _, rows := range []int{6, 4} {
			tiles(rows, strided)
		}
	}
	for _, rows := range []int{6, 4} {
		for panels := range 4 {
			wide(rows, panels+1)
		}
	}
	wide(12, 1)
	copies()
	interleave16()
	winograd()
}
