//go:build !amd64 || noasm

package conv

// fused says whether assembly kernels run: there are none in this build.
var fused = false

// abreast is how many panels it pays to give to one job.
func abreast() int { return 1 }

func tiles(t *job) { tilesGo(t) }

func (g *winograd) inputsIn(tiles, first int, x, v []float32, plane, row, c int, _ *Space) {
	scatterGo(inputLine, winoSide, winoSide, tiles, g.from.of(first), x, v, plane, row, c)
}

func (g *winograd) weightsIn(offs []int32, w, v []float32, plane, c int, _ *Space) {
	scatterGo(g.form.weights, g.form.taps, winoSide, 1, offs, w, v, plane, 0, c)
}

func (g *winograd) stridedWeightsIn(_ []int32, _, _ []float32, _, _, _ int) bool { return false }

func (g *winograd) outputsOut(tiles, first int, y, m []float32, plane, row, c int, _ *Space, bias []float32, relu bool) {
	gatherGo(g.form.outputs, winoSide, g.form.side, tiles, g.to.of(first), y, m, plane, row, c, bias, relu)
}

func (g *winograd) gradientsIn(tiles, first int, dy, v []float32, plane, row, c int, _ *Space) {
	scatterGo(g.form.gradients, g.form.side, winoSide, tiles, g.to.of(first), dy, v, plane, row, c)
}

func (g *winograd) slopesOut(tiles int, offs []int32, dw, m []float32, plane, row, c int, _ *Space) {
	gatherGo(g.form.slopes, winoSide, g.form.taps, tiles, offs, dw, m, plane, row, c, nil, false)
}

// transpose has no fast form here: it does nothing and says so.
func transpose(dst, src []float32, ld, n int) int { return 0 }

func copySixteen(dst, src []float32, channels, n int) { copySixteenGo(dst, src, channels, n) }

func copySix(dst []float32, next int, src []float32, step, channels, n, pieces int) {
	copySixGo(dst, next, src, step, channels, n, pieces)
}
