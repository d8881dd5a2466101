package compress

import "github.com/gradlab/gradlab/internal/f32"

// picked sums the elements at positions that all ranks know: the last round of
// exchanges that have agreed on a support.
type picked struct {
	d      int
	values *format
	idx    []uint32  // ascending, set before ask
	own    []float32 // this rank's values, as they travel
	sum    []float32 // where they are summed
	got    []float32 // the sum
}

// ask begins the sum of the elements of g at idx.
func (x *picked) ask(g []float32) Op {
	n := len(x.idx)
	x.own, x.sum = resize(x.own, n), resize(x.sum, n)
	for j, i := range x.idx {
		x.own[j] = x.values.saturate(g[i])
	}
	if x.values.round != nil {
		x.values.round(x.own)
	}
	copy(x.sum, x.own)
	return Op{Kind: OpSum, Floats: x.sum, Wire: x.values.wire}
}

// take keeps the sum.
func (x *picked) take(done Op) error {
	if len(done.Floats) != len(x.idx) {
		return Corruptf("sum of %d elements, want %d", len(done.Floats), len(x.idx))
	}
	if !f32.AllFinite(done.Floats) {
		return errSumOverflow(x.values.name)
	}
	x.got = done.Floats
	return nil
}

func (x *picked) Output(dst []float32, scale float32) error {
	x.lift(dst, scale, x.got)
	return nil
}

func (x *picked) Credited(dst []float32, scale float32) error {
	x.lift(dst, scale, x.own)
	return nil
}

func (x *picked) lift(dst []float32, scale float32, v []float32) {
	checkLen(len(dst), x.d)
	for j, i := range x.idx {
		dst[i] += float32(scale * v[j])
	}
}
