package conv

import "github.com/gradlab/gradlab/internal/cpu"

// abreast is how many panels it pays to give to one job.
func abreast() int {
	if cpu.Has(wideTiles6x1Needs) {
		return maxPanels
	}
	return 1
}

// wideTiles are the kernels of tiles of 4 and of 6 rows, in 1 panel or more.
var wideTiles = [2][maxPanels]func(job *int, zero *float32) bool{
	{wideTiles4x1, wideTiles4x2, wideTiles4x3, wideTiles4x4},
	{wideTiles6x1, wideTiles6x2, wideTiles6x3, wideTiles6x4},
}

// zeros is what excused rows of tiles read, and rows of pixels beyond an image.
var zeros [winoSide * maxRun]float32

// tiles is panelGo for every panel, in assembly where the machine can.
func tiles(t *job) {
	at, ct := t.at, t.ct
	if t.tiles = len(at) / t.rows; t.rows == tileRows && t.panels == 1 && t.tiles > 1 {
		if t.tiles /= 2; wideTiles12x1(&t.tiles, &zeros[0]) {
			done := t.tiles * 2 * tileRows
			t.at, t.ct = at[done:], ct[done:]
		}
		t.tiles = len(t.at) / t.rows
	}
	if t.tiles > 0 && !wideTiles[t.rows/tileRows][t.panels-1](&t.tiles, &zeros[0]) {
		for p := range t.panels {
			if !narrowTiles(t, p) {
				panelGo(t, p)
			}
		}
	}
	t.at, t.ct = at, ct
}

// narrowTiles does one panel of a job by AVX2, if there is a kernel for that.
func narrowTiles(t *job, p int) bool {
	var flags int
	var bias *float32
	if t.add {
		flags |= 1
	}
	if t.bias != nil {
		flags |= 2
		bias = &t.bias[p*tileCols]
	}
	if t.relu {
		flags |= 4
	}
	at, ct, segs, nsegs := &t.at[0], &t.ct[0], &t.segs[0].a, len(t.segs)
	a, b, c := &t.a[0], &t.b[p*t.pb], &t.c[p*t.pc]
	// No function values: the arguments would escape.
	switch dense := t.sa == 1 && t.sb == tileCols; {
	case dense && t.rows == 6:
		return denseTiles6(t.tiles, at, ct, segs, nsegs, a, b, &zeros[0], 1, tileCols, t.reps, t.arep, t.brep, c, bias, flags)
	case dense:
		return denseTiles4(t.tiles, at, ct, segs, nsegs, a, b, &zeros[0], 1, tileCols, t.reps, t.arep, t.brep, c, bias, flags)
	case t.rows == 6:
		return stridedTiles6(t.tiles, at, ct, segs, nsegs, a, b, &zeros[0], t.sa, t.sb, t.reps, t.arep, t.brep, c, bias, flags)
	default:
		return stridedTiles4(t.tiles, at, ct, segs, nsegs, a, b, &zeros[0], t.sa, t.sb, t.reps, t.arep, t.brep, c, bias, flags)
	}
}

// Kernels of the transforms: scatter to planes, gather from them. The narrow ones do eight
// channels at a time and are told where each pixel is, the wide ones sixteen, of images by
// corners. See scatterGo and gatherGo.
type (
	narrowIn     func(tiles int, offs *int32, x, zero, v *float32, plane, row, vecs int, scratch *float32) bool
	narrowOut    func(tiles int, offs *int32, y, sink, m *float32, plane, row, vecs int, scratch *float32) bool
	narrowBiased func(tiles int, offs *int32, y, sink, m *float32, plane, row, vecs int, scratch *float32, bias *float32, relu bool) bool
	wideIn       func(tiles int, corners *int32, x, zero, v *float32, plane, row, pixel, line, vecs int) bool
	wideBiased   func(tiles int, corners *int32, y, sink, m *float32, plane, row, pixel, line, vecs int, bias *float32, relu bool) bool
)

// transforms are the kernels of a form.
type transforms struct {
	weights            narrowIn
	wideWeights        func(offs *int32, w, v *float32, plane, step, vecs int) bool
	slopes, wideSlopes narrowOut
	outputs            narrowBiased
	wideOutputs        wideBiased
	gradients          narrowIn
	wideGradients      wideIn
}

// kernels are those of forms.
var kernels = [len(forms)]transforms{
	{
		winogradWeights, wideWeights, winogradSlope, wideSlope,
		winogradOutput, wideOutput, winogradGradient, wideGradient,
	},
	{
		winogradWeights5, wideWeights5, winogradSlope5, wideSlope5,
		winogradOutput2, wideOutput2, winogradGradient2, wideGradient2,
	},
}

// inputsIn transforms inputs of tiles from one on: see scatterGo. c is a multiple of 8, as
// below.
func (g *winograd) inputsIn(tiles, first int, x, v []float32, plane, row, c int, s *Space) {
	t := &g.from
	if c%16 == 0 && wideInput(tiles, &t.corners[first].at, &x[0], &zeros[0], &v[0], plane, row, t.pixel, t.line, c/16) || winogradInput(tiles, &t.of(first)[0], &x[0], &zeros[0], &v[0], plane, row, c/8, &s.scratch[0]) {
		return
	}
	scatterGo(inputLine, winoSide, winoSide, tiles, t.of(first), x, v, plane, row, c)
}

// weightsIn transforms c weights of each tap.
func (g *winograd) weightsIn(offs []int32, w, v []float32, plane, c int, s *Space) {
	k := &kernels[g.assembly]
	if c%16 == 0 && k.wideWeights(&offs[0], &w[0], &v[0], plane, 16, c/16) || k.weights(1, &offs[0], &w[0], &zeros[0], &v[0], plane, 0, c/8, &s.scratch[0]) {
		return
	}
	scatterGo(g.form.weights, g.form.taps, winoSide, 1, offs, w, v, plane, 0, c)
}

// stridedWeightsIn transforms n times 16 weights of each tap, step apart, where there is a
// kernel for it; elsewhere it does nothing and says so.
func (g *winograd) stridedWeightsIn(offs []int32, w, v []float32, plane, step, n int) bool {
	return n > 0 && kernels[g.assembly].wideWeights(&offs[0], &w[0], &v[0], plane, step, n)
}

// outputsOut makes outputs of tiles from one on: see gatherGo.
func (g *winograd) outputsOut(tiles, first int, y, m []float32, plane, row, c int, s *Space, bias []float32, relu bool) {
	var b *float32
	if bias != nil {
		b = &bias[0]
	}
	t := &g.to
	s.sink = grow(&s.sink, t.side*t.pixel)
	k := &kernels[g.assembly]
	if c%16 == 0 && k.wideOutputs(tiles, &t.corners[first].at, &y[0], &s.sink[0], &m[0], plane, row, t.pixel, t.line, c/16, b, relu) || k.outputs(tiles, &t.of(first)[0], &y[0], &s.sink[0], &m[0], plane, row, c/8, &s.scratch[0], b, relu) {
		return
	}
	gatherGo(g.form.outputs, winoSide, g.form.side, tiles, t.of(first), y, m, plane, row, c, bias, relu)
}

// gradientsIn transforms gradients of outputs of tiles from one on.
func (g *winograd) gradientsIn(tiles, first int, dy, v []float32, plane, row, c int, s *Space) {
	t := &g.to
	k := &kernels[g.assembly]
	if c%16 == 0 && k.wideGradients(tiles, &t.corners[first].at, &dy[0], &zeros[0], &v[0], plane, row, t.pixel, t.line, c/16) || k.gradients(tiles, &t.of(first)[0], &dy[0], &zeros[0], &v[0], plane, row, c/8, &s.scratch[0]) {
		return
	}
	scatterGo(g.form.gradients, g.form.side, winoSide, tiles, t.of(first), dy, v, plane, row, c)
}

// slopesOut makes gradients of weights.
func (g *winograd) slopesOut(tiles int, offs []int32, dw, m []float32, plane, row, c int, s *Space) {
	s.sink = grow(&s.sink, c)
	k := &kernels[g.assembly]
	if c%16 == 0 && k.wideSlopes(tiles, &offs[0], &dw[0], &s.sink[0], &m[0], plane, row, c/16, &s.scratch[0]) || k.slopes(tiles, &offs[0], &dw[0], &s.sink[0], &m[0], plane, row, c/8, &s.scratch[0]) {
		return
	}
	gatherGo(g.form.slopes, winoSide, g.form.taps, tiles, offs, dw, m, plane, row, c, nil, false)
}

// transpose writes dst[16l+o] = src[o·ld+l] for o < 16 and l below the multiple
// of 8 it returns.
func transpose(dst, src []float32, ld, n int) int {
	n &^= 7
	if n == 0 {
		return 0
	}
	_, _ = dst[n*tileCols-1], src[15*ld+n-1]
	if !interleave16(&dst[0], &src[0], ld, n/8) {
		return 0
	}
	return n
}

// copySixteen is copySixteenGo.
func copySixteen(dst, src []float32, channels, n int) {
	if pixels := len(dst) / tileCols; n >= tileCols && pixels > 0 {
		_ = src[(pixels-1)*channels+tileCols-1]
		if copySixteens(&dst[0], &src[0], channels, pixels) {
			return
		}
	}
	copySixteenGo(dst, src, channels, n)
}

// copySix is copySixGo.
func copySix(dst []float32, next int, src []float32, step, channels, n, pieces int) {
	// Pixels whose pieces all end before src does.
	whole := 0
	if last := (pieces-1)*step + tileRows; len(src) >= last && pieces > 0 {
		whole = min(n, (len(src)-last)/channels+1)
	}
	if whole > 0 {
		_ = dst[(pieces-1)*next+whole*tileRows-1]
		if !copySixes(&dst[0], next, &src[0], step, channels, whole, pieces) {
			whole = 0
		}
	}
	if whole < n {
		copySixGo(dst[whole*tileRows:], next, src[whole*channels:], step, channels, n-whole, pieces)
	}
}
