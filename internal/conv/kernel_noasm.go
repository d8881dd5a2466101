//go:build !amd64 || noasm

package conv

// fused says whether assembly kernels run: there are none in this build.
var fused = false

// abreast is how many panels it pays to give to one job.
func abreast() int { return 1 }

func tiles(t *job) { tilesGo(t) }

func inputsIn(tiles int, offs []int32, x, v []float32, plane, row, c int, _ *Space) {
	scatterGo(inputLine, 6, 6, tiles, offs, x, v, plane, row, c)
}

func weightsIn(tiles int, offs []int32, x, v []float32, plane, row, c int, _ *Space) {
	scatterGo(weightLine, 3, 6, tiles, offs, x, v, plane, row, c)
}

func outputsOut(tiles int, offs []int32, y, m []float32, plane, row, c int, _ *Space, bias []float32, relu bool) {
	gatherGo(outputLine, 6, 4, tiles, offs, y, m, plane, row, c, bias, relu)
}

func gradientsIn(tiles int, offs []int32, dy, v []float32, plane, row, c int, _ *Space) {
	scatterGo(gradientLine, 4, 6, tiles, offs, dy, v, plane, row, c)
}

func slopesOut(tiles int, offs []int32, dw, m []float32, plane, row, c int, _ *Space) {
	gatherGo(slopeLine, 6, 3, tiles, offs, dw, m, plane, row, c, nil, false)
}

// transpose has no fast form here: it does nothing and says so.
func transpose(dst, src []float32, ld, n int) int { return 0 }

func copySixteen(dst, src []float32, channels, n int) { copySixteenGo(dst, src, channels, n) }

func copySix(dst []float32, next int, src []float32, step, channels, n, pieces int) {
	copySixGo(dst, next, src, step, channels, n, pieces)
}
