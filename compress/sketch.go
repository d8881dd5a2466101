package compress

import (
	"fmt"
	"math"

	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
)

var _ = Families.Add("sketch", "the k largest entries of the sum, found in a count sketch; sums",
	Sketch{Keep: 0.001, Rows: 5, Width: 10, Fetch: 4})

// Sketch finds the largest elements of the sum over the ranks, which no rank
// knows, in a small linear table.
//
//	S[j][h_j(i)] += σ_j(i)·gᵢ,  j = 1 … rows         (a sum of rows × columns)
//	ĝᵢ = median over j of σ_j(i)·ΣS[j][h_j(i)];  M = the fetch·k largest |ĝᵢ|
//	K = the k largest |Σgᵢ|, i ∈ M                   (a sum of fetch·k exact values)
//	C(g)ᵢ = gᵢ if i ∈ K, else 0
//
// Ivkin et al. 2019 (Sketched-SGD, arXiv 1903.04488), algorithms 1 and 2; the
// table is the count sketch of Charikar, Chen and Farach-Colton 2002. Its
// estimates are off by about ‖g‖/√columns, and some by a large element that
// shares most cells with a small one: hence more candidates than are used.
//
// Departures: hashes are drawn anew for every block and step. Blocks that would
// not shrink, and all behind a server, which hears one rank at a time, are sent
// by topk: each rank's own choice.
//
// Tuning: feedback(sketch(keep=0.001)); width=10 and fetch=4 are theirs. A
// rank's residual is large where others outweigh it: it is the sum of residuals
// that contracts.
//
// Cost: 4k·(rows·width + fetch) bytes a rank and hop, rows random accesses an
// element on the way in and out.
type Sketch struct {
	Keep  float64 `spec:",show" doc:"fraction kept, in (0, 1]"`
	Rows  int     `doc:"rows of the table, odd, 1 to 15"`
	Width float64 `doc:"columns for each element kept, at least 1"`
	Fetch int     `doc:"exact values fetched for each element kept, at least 1"`
}

// Validate checks the options.
func (f Sketch) Validate() error {
	if f.Rows < 1 || f.Rows > 15 || f.Rows%2 == 0 {
		return fmt.Errorf(`option "rows": want an odd number from 1 to 15, not %d`, f.Rows)
	}
	if !(f.Width >= 1 && f.Width <= 1e6) {
		return fmt.Errorf(`option "width": want 1 to 1e6 columns for each element kept, not %v`, f.Width)
	}
	if f.Fetch < 1 {
		return fmt.Errorf(`option "fetch": want at least 1, not %d`, f.Fetch)
	}
	return validKeep(f.Keep)
}

func (f Sketch) alone() TopK { return TopK{Keep: f.Keep} }

// columns is the width of the table on d elements, 0 if it would not shrink.
func (f Sketch) columns(d int) int {
	k := float64(kept(f.Keep, d))
	n := math.Ceil(f.Width * k)
	if float64(n*float64(f.Rows))+float64(float64(f.Fetch)*k) >= float64(d) {
		return 0
	}
	return int(n)
}

// Claims are those of topk, and what the exchange costs.
func (f Sketch) Claims(b Block) Claims {
	c := f.alone().Claims(b)
	if n := f.columns(b.Len()); n > 0 {
		c.Rounds, c.Asked = 2, 4*(f.Rows*n+f.Fetch*kept(f.Keep, b.Len()))
	}
	return c
}

// New makes a codec without state.
func (f Sketch) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return f.alone().New(b)
}

// NewExchange makes an exchange of two sums, none for blocks that do not shrink.
func (f Sketch) NewExchange(b Block) (Exchange, error) {
	n := f.columns(b.Len())
	if err := f.Validate(); err != nil || n == 0 {
		return nil, err
	}
	x := &sketchExchange{
		picked: picked{d: b.Len(), values: &formatF32}, k: kept(f.Keep, b.Len()),
		fetch: f.Fetch, rows: f.Rows, cols: n, key: stream("sketch", b, false),
	}
	for range x.rows {
		x.found = append(x.found, make([]float32, min(sketchStretch, x.d)))
	}
	for sign := -1; len(x.found) < 5; sign = -sign { // rows that are not there are at both ends, by turns
		x.found = append(x.found, constant(min(sketchStretch, x.d), float32(math.Inf(sign))))
	}
	return x, nil
}

type sketchExchange struct {
	picked
	k, fetch   int
	rows, cols int
	key        rng.Key

	round    int
	hash     rng.Key // of the step
	g, table []float32
	places   [2][sketchStretch]uint32
	found    [][]float32 // what the rows say of a stretch, at least five
	sel      selector
	top      []uint32
}

// sketchStretch is how many elements go to a row before they go to the next: the row
// stays in the first cache meanwhile.
const sketchStretch = 2048

// each calls fn for every stretch of elements lo to hi and every row, with their places
// there. One draw serves two rows.
func (x *sketchExchange) each(fn func(lo, hi, row int, places []uint32)) {
	for lo := 0; lo < x.d; lo += sketchStretch {
		hi := min(lo+sketchStretch, x.d)
		a, b := x.places[0][:hi-lo], x.places[1][:hi-lo]
		for row := 0; row < x.rows; row += 2 {
			codec.Places(a, b, x.cols, x.hash, uint64(lo), uint64(row/2))
			fn(lo, hi, row, a)
			if row+1 < x.rows {
				fn(lo, hi, row+1, b)
			}
		}
	}
}

// medians sets est to the middle ones of what the rows have found.
func (x *sketchExchange) medians(est []float32) {
	if len(x.found) == 5 {
		var rows [5][]float32
		for j, row := range x.found {
			rows[j] = row[:len(est)]
		}
		codec.Median5(est, &rows)
		return
	}
	var of [sketchRows]float32
	for i := range est {
		for j, row := range x.found {
			of[j] = row[i]
		}
		est[i] = median(of[:x.rows])
	}
}

// sketchRows is the most rows that there are.
const sketchRows = 15

// median is the middle one of an odd number of values, which it sorts.
func median(v []float32) float32 {
	for n, x := range v {
		k := n
		for ; k > 0 && v[k-1] > x; k-- {
			v[k] = v[k-1]
		}
		v[k] = x
	}
	return v[len(v)/2]
}

func (x *sketchExchange) Begin(g []float32, s Step) (Op, error) {
	checkLen(len(g), x.d)
	if !f32.AllFinite(g) {
		return Op{}, ErrNotFinite
	}
	x.g, x.table = resize(x.g, x.d), resize(x.table, x.rows*x.cols)
	copy(x.g, g)
	clear(x.table)
	x.hash, x.round = x.key.With(uint64(s.N)), 1
	x.each(func(lo, hi, row int, places []uint32) {
		codec.Put(x.table[row*x.cols:][:x.cols], x.g[lo:hi], places)
	})
	if !f32.AllFinite(x.table) {
		return Op{}, errSumOverflow("f32")
	}
	return Op{Kind: OpSum, Floats: x.table}, nil
}

func (x *sketchExchange) Next(done Op) (Op, error) {
	if x.round == 2 {
		if err := x.take(done); err != nil {
			return Op{}, err
		}
		x.best()
		return Op{}, nil
	}
	if len(done.Floats) != len(x.table) {
		return Op{}, Corruptf("sum of %d elements, want %d", len(done.Floats), len(x.table))
	}
	if !f32.AllFinite(done.Floats) {
		return Op{}, errSumOverflow("f32")
	}
	est := resize(x.sum, x.d)
	x.each(func(lo, hi, row int, places []uint32) {
		codec.Look(x.found[row][:hi-lo], done.Floats[row*x.cols:][:x.cols], places)
		if row == x.rows-1 {
			x.medians(est[lo:hi])
		}
	})
	x.sum = est
	x.idx, _ = x.sel.indices(x.idx[:0], est, x.k*x.fetch)
	x.round = 2
	return x.ask(x.g), nil
}

// best leaves the k largest of the values fetched.
func (x *sketchExchange) best() {
	x.top, _ = x.sel.indices(x.top[:0], x.got, x.k)
	for j, at := range x.top {
		x.idx[j], x.own[j], x.got[j] = x.idx[at], x.own[at], x.got[at]
	}
	x.idx = x.idx[:x.k]
}
