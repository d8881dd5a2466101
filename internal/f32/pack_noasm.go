//go:build !amd64 || noasm

package f32

// transpose has no fast form here: it does nothing and says so.
func transpose(dst []float32, ldd int, src []float32, lds, rows, k int) int { return 0 }

func copyRuns(width int, dst []float32, ldd int, src []float32, lds, n, ahead int) {
	copyRunsGo(width, dst, ldd, src, lds, n)
}

func pairsAlong(dst, x []float32)              { pairsAlongGo(dst, x) }
func pairsAcross(dst, first, second []float32) { pairsAcrossGo(dst, first, second) }

func halvesAlong(dst []float32, b []byte)              { halvesAlongGo(dst, b) }
func halvesAcross(dst []float32, first, second []byte) { halvesAcrossGo(dst, first, second) }
