//go:build !amd64 || noasm

package f32

// fused says whether assembly kernels run: there are none in this build.
var fused = false

func micro(rows, k int, a, b []float32, alpha float32, c []float32, ldc int, add bool) {
	microGo(rows, k, a, b, alpha, c, ldc, add)
}

// transpose has no fast form here: it does nothing and says so.
func transpose(dst []float32, width int, src []float32, ld, rows, k int) int { return 0 }

func copyRows(dst []float32, width int, src []float32, ld, cnt, n int) {
	copyRowsGo(dst, width, src, ld, cnt, n)
}
