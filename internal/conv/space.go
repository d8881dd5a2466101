package conv

// Space is the scratch memory of one goroutine. The zero value is ready for
// use; it grows to what is needed and then stays.
type Space struct {
	job    job
	tile   [tileRows * tileCols]float32
	bias   [tileCols]float32
	image  []float32 // padded
	strip  []float32
	left   []float32
	sums   []float32
	halves []byte  // gathered
	rows   []int32 // 0, 16, 32 …
	segs   [1]segment
	offs   [winoIn]int32
	// For the transforms: a tile half done, and where what nobody wants goes.
	scratch [winoFloats]float32
	sink    []float32
}

// grow returns a slice of n floats with anything in it.
func grow(x *[]float32, n int) []float32 {
	if cap(*x) < n {
		*x = make([]float32, n)
	}
	return (*x)[:n]
}

// biasOf returns bias from first on, 16 values or more: zeros where there are fewer.
func (s *Space) biasOf(bias []float32, first int) []float32 {
	if len(bias)-first >= tileCols {
		return bias[first:]
	}
	clear(s.bias[copy(s.bias[:], bias[first:]):])
	return s.bias[:]
}

// tileSteps is where the rows of Space.tile are.
var tileSteps = [tileRows]int32{0, tileCols, 2 * tileCols, 3 * tileCols, 4 * tileCols, 5 * tileCols}

// narrow does s.job where C has fewer columns than a tile, by way of s.tile.
func (s *Space) narrow(cols int) {
	t := &s.job
	at, ct, c := t.at, t.ct, t.c
	for ; len(at) > 0; at, ct = at[t.rows:], ct[t.rows:] {
		for i := range t.rows {
			copy(s.tile[i*tileCols:], c[ct[i]:][:cols])
		}
		t.at, t.ct, t.c = at[:t.rows], tileSteps[:t.rows], s.tile[:]
		tiles(t)
		for i := range t.rows {
			copy(c[ct[i]:][:cols], s.tile[i*tileCols:])
		}
	}
	t.c = c
}

// steps makes s.rows reach n.
func (s *Space) steps(n int) {
	for i := len(s.rows); i < n; i++ {
		s.rows = append(s.rows, int32(i*tileCols))
	}
}
