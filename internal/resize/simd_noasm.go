//go:build !amd64 || noasm

package resize

// whole is how many of n are for the assembly: there is none here.
func whole(int, int) int { return 0 }

// What follows is not called.

func coloursAVX2(dst *float64, luma, cb, cr *uint8, n int)     {}
func coloursHalfAVX2(dst *float64, luma, cb, cr *uint8, n int) {}
func acrossAVX2(dst, src *float64, from *int, weights, full *float64, n, taps int) {
}
func downAVX2(red, green, blue *uint8, rows, w *float64, n, taps, stride int, most, inverse float64) {
}
