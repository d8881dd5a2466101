package compress

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
)

var _ = Families.Add("dct", "a codec of the coefficients of cosine-transformed tiles",
	DCT{In: TopK{Keep: 1.0 / 128, Index: "rice", Values: "f32", Chunk: 4096}, Side: 64})

// DCT hands the codec inside the cosine transform of the gradient's tiles.
//
//	Y = A·G·Bᵀ for every tile G of side × side, A and B orthonormal:
//	(of every stretch of side for vectors, Y = A·G)
//	A_ki = √(2/n)·cos(πk(2i+1)/2n), the first row /√2;  C(G) = Aᵀ·C(Y)·B
//
// Peng, Quesnelle and Kingma 2024 (DeMo, arXiv 2411.19870), section 3: slowly
// varying parts of a momentum gather in few coefficients. DeMo is
// feedback(dct(topk(keep=0.0078125,chunk=4096)),decay=0.999): the residual there
// is their momentum less what was sent. As the transform is orthonormal, what
// the codec inside claims of errors holds.
//
// Departures: tiles at the edges are what is left over, where theirs take the
// nearest divisor of the shape. Coefficients are whatever the codec inside
// sends, where their code has 64-bit indices.
//
// Tuning: with topk inside, chunk=side² chooses tile by tile. Without feedback
// the small coefficients are lost for ever.
//
// Cost: that of the codec inside, and about 4·log₂ side additions and
// multiplications an element either way.
//
// Payload: that of the codec inside, on coefficients tile after tile.
type DCT struct {
	In   Family `doc:"the codec of the coefficients"`
	Side int    `doc:"rows and columns of a tile, 1 to 256"`
}

// Inner lists the codec inside.
func (f DCT) Inner() []Family { return []Family{f.In} }

// Validate checks the options.
func (f DCT) Validate() error {
	if f.In == nil {
		return errors.New("want a codec inside")
	}
	if f.Side < 1 || f.Side > 256 {
		return fmt.Errorf(`option "side": want 1 to 256, not %d`, f.Side)
	}
	return noReceiver("dct", f.In)
}

// inside is the block of coefficients.
func (DCT) inside(b Block) Block {
	b.Rows, b.Cols = 1, b.Len()
	return b
}

// Claims are the inner codec's, as far as rounding lets them.
func (f DCT) Claims(b Block) Claims {
	c, _ := ClaimsOf(f.In, f.inside(b))
	c.Lossless, c.Linear, c.Special = c.Lossless && f.Side == 1, NotLinear, SpecialError // a tile of one value is that value
	c.Rounds, c.Asked, c.AskedBound, c.HalfSums = 0, 0, false, false
	c.Raw, c.Cast = c.Raw && f.Side == 1, c.Cast && f.Side == 1
	c.Shaped = f.Side > 1 && b.Rows > 1 && b.Cols > 1
	return c
}

// New makes a codec with the state of the one inside.
func (f DCT) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	in, err := f.In.New(f.inside(b))
	if err != nil {
		return nil, err
	}
	c := &dct{tiles: newTiles(b.Rows, b.Cols, f.Side), in: in, y: make([]float32, 0, b.Len())}
	c.spaces.New = func() any { return &dctSpace{work: c.space()} }
	return stateOf(c, in), nil
}

type dct struct {
	tiles
	in     Codec
	y      []float32
	spaces sync.Pool // *dctSpace
}

// dctSpace is what one encoding or decoding works in.
type dctSpace struct {
	work []float64
	y, x []float32
}

func (c *dct) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	checkLen(len(g), c.rows*c.cols)
	if !f32.AllFinite(g) {
		return dst, ErrNotFinite
	}
	w := c.spaces.Get().(*dctSpace)
	defer c.spaces.Put(w)
	c.y = c.y[:len(g)]
	c.forward(c.y, g, w.work)
	return c.in.Append(dst, c.y, s)
}

func (c *dct) AddTo(dst []float32, scale float32, p []byte, from From) error {
	checkLen(len(dst), c.rows*c.cols)
	w := c.spaces.Get().(*dctSpace)
	defer c.spaces.Put(w)
	w.y, w.x = resize(w.y, len(dst)), resize(w.x, len(dst))
	clear(w.y)
	if err := c.in.AddTo(w.y, 1, p, from); err != nil {
		return err
	}
	c.inverse(w.x, w.y, w.work)
	if !f32.AllFinite(w.x) {
		return Corruptf("values beyond what float32 holds")
	}
	f32.Axpy(dst, scale, w.x)
	return nil
}

// tiles cuts a matrix and transforms the pieces. A vector is cut into stretches
// of side, which are transformed by themselves, side of them at a time.
// Coefficients of a tile lie transposed: that saves a transposition either way.
type tiles struct {
	rows, cols, side int
	by               map[int]*codec.Cosines // by length
}

func newTiles(rows, cols, side int) tiles {
	t := tiles{rows: rows, cols: cols, side: side, by: map[int]*codec.Cosines{}}
	for _, n := range []int{min(side, rows), rows % side, min(side, cols), cols % side} {
		if n > 0 && t.by[n] == nil {
			t.by[n] = codec.NewCosines(n)
		}
	}
	return t
}

// space is the scratch of one transformation: a tile, its transpose, and what the
// transform of a length works in.
func (t *tiles) space() []float64 {
	n := 2 * t.side * t.side
	for _, c := range t.by {
		n = max(n, 2*t.side*t.side+c.Space())
	}
	return make([]float64, n)
}

// tile is h rows of w elements, stride apart, the first at from. Its coefficients
// begin at at.
type tile struct{ from, stride, h, w, at int }

// each calls fn for every tile.
func (t *tiles) each(fn func(tile)) {
	at := 0
	next := func(from, stride, h, w int) {
		if h*w > 0 {
			fn(tile{from, stride, h, w, at})
		}
		at += h * w
	}
	if t.rows == 1 {
		whole := t.cols / t.side
		for r := 0; r < whole; r += t.side {
			next(r*t.side, t.side, min(t.side, whole-r), t.side)
		}
		next(whole*t.side, t.side, 1, t.cols%t.side)
		return
	}
	for r := 0; r < t.rows; r += t.side {
		for c := 0; c < t.cols; c += t.side {
			next(r*t.cols+c, t.cols, min(t.side, t.rows-r), min(t.side, t.cols-c))
		}
	}
}

// forward sets y to the coefficients of g.
func (t *tiles) forward(y, g []float32, work []float64) {
	if t.side == 1 {
		plainly(y, g)
		return
	}
	t.each(func(p tile) {
		a, b, tmp := t.cut(work, p)
		for i := range p.h {
			codec.Widen(a[i*p.w:][:p.w], g[p.from+i*p.stride:][:p.w])
		}
		if t.rows > 1 {
			t.by[p.h].Forward(a, p.w, tmp)
		}
		codec.Transpose(b, a, p.h, p.w)
		t.by[p.w].Forward(b, p.h, tmp)
		codec.Narrow(y[p.at:][:len(b)], b)
	})
}

// inverse sets g to what the coefficients y stand for.
func (t *tiles) inverse(g, y []float32, work []float64) {
	if t.side == 1 {
		plainly(g, y)
		return
	}
	t.each(func(p tile) {
		a, b, tmp := t.cut(work, p)
		codec.Widen(b, y[p.at:][:len(b)])
		t.by[p.w].Back(b, p.h, tmp)
		codec.Transpose(a, b, p.w, p.h)
		if t.rows > 1 {
			t.by[p.h].Back(a, p.w, tmp)
		}
		for i := range p.h {
			codec.Narrow(g[p.from+i*p.stride:][:p.w], a[i*p.w:][:p.w])
		}
	})
}

// plainly is the transform of tiles of one value: they are what they were, −0 is 0.
func plainly(y, g []float32) {
	for i, v := range g {
		y[i] = v + 0
	}
}

// cut makes the parts of the scratch.
func (t *tiles) cut(work []float64, p tile) (a, b, tmp []float64) {
	n := t.side * t.side
	return work[:p.h*p.w], work[n:][:p.h*p.w], work[2*n:]
}
