package compress

import (
	"errors"
	"fmt"
	"math"
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
// varying parts of a momentum gather in few coefficients. DeMo of matrices is
// feedback(dct(topk(keep=0.0078125,chunk=4096)),decay=0.999): the residual there
// is their momentum less what was sent. As the transform is orthonormal, what
// the codec inside claims of errors holds.
//
// Departures: their code keeps 32 coefficients of every tile, and of every
// stretch of a vector; a codec inside keeps a share, here 32 of 4096. Theirs is
// feedback(byrole(dct,dct(topk(keep=0.5,chunk=64)),norm=dct(topk(keep=0.5,chunk=64))),decay=0.999)
// for vectors that are biases and norms. Where side does not divide a shape,
// tiles at the edges are what is left over; theirs have the largest divisor of
// the shape that side allows. Coefficients are whatever the codec inside sends,
// where their code has 64-bit indices.
//
// Tuning: with topk inside, chunk=side² chooses tile by tile from a matrix, and
// chunk=side stretch by stretch from a vector; only edges are chosen from
// together. Without feedback the small coefficients are lost for ever.
//
// Cost: that of the codec inside, and about 4·log₂ side additions and
// multiplications an element either way.
//
// Payload: that of the codec inside, on coefficients tile after tile, those at
// the edges last.
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
	c.spaces.New = func() any { return &dctSpace{work: c.space(), row: make([]float32, abreast*f.Side)} }
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
	row  []float32 // of tiles side by side
}

func (c *dct) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	checkLen(len(g), c.rows*c.cols)
	w := c.spaces.Get().(*dctSpace)
	defer c.spaces.Put(w)
	c.y = c.y[:len(g)]
	if !c.forward(c.y, g, w.work) {
		return dst, ErrNotFinite
	}
	return c.in.Append(dst, c.y, s)
}

func (c *dct) AddTo(dst []float32, scale float32, p []byte, from From) error {
	checkLen(len(dst), c.rows*c.cols)
	w := c.spaces.Get().(*dctSpace)
	defer c.spaces.Put(w)
	w.y = resize(w.y, len(dst))
	clear(w.y)
	if err := c.in.AddTo(w.y, 1, p, from); err != nil {
		return err
	}
	if c.small(f32.MaxAbs(w.y)) {
		c.inverse(w.y, w.work, w.row, func(at int, x []float32) { f32.Axpy(dst[at:][:len(x)], scale, x) })
		return nil
	}
	w.x = resize(w.x, len(dst))
	c.inverse(w.y, w.work, w.row, func(at int, x []float32) { copy(w.x[at:], x) })
	if !f32.AllFinite(w.x) {
		return Corruptf("values beyond what float32 holds")
	}
	f32.Axpy(dst, scale, w.x)
	return nil
}

// tiles cuts a matrix and transforms the pieces. A vector is cut into stretches
// of side, which are transformed by themselves, side of them at a time.
// Coefficients of a matrix's tile lie transposed: that saves a transposition
// either way. Those of a vector lie stretch after stretch.
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

// abreast is how many tiles side by side are carried to and fro together: memory likes
// long rows, and so many tiles stay near.
const abreast = 8

// space is the scratch of one transformation: tiles side by side, the transpose of one,
// and what the transform of a length works in.
func (t *tiles) space() []float64 {
	most := 0
	for _, c := range t.by {
		most = max(most, c.Space())
	}
	return make([]float64, (abreast+1)*t.side*t.side+most)
}

// small reports whether coefficients up to m, not NaN, stand for values that float32 holds
// for sure: a tile has a norm of at most side·m either way.
func (t *tiles) small(m float32) bool { return float64(m)*float64(t.side) < math.MaxFloat32/2 }

// band is tiles side by side: n of h rows of w elements. Rows are stride apart, the first
// begins at from. Their coefficients, tile after tile, begin at at.
type band struct{ from, stride, h, w, n, at int }

// each calls fn for every band: whole tiles first, so that those of one size lie in
// stretches of that size, then the right edge, then the lower one.
func (t *tiles) each(fn func(band)) {
	at := 0
	next := func(from, stride, h, w, n int) {
		if h*w*n > 0 {
			fn(band{from, stride, h, w, n, at})
		}
		at += h * w * n
	}
	if t.rows == 1 {
		whole := t.cols / t.side
		for r := 0; r < whole; r += t.side {
			next(r*t.side, t.side, min(t.side, whole-r), t.side, 1)
		}
		next(whole*t.side, t.side, 1, t.cols%t.side, 1)
		return
	}
	across, down := t.cols/t.side, t.rows/t.side
	row := func(r, h int) {
		for c := 0; c < across; c += abreast {
			next(r*t.cols+c*t.side, t.cols, h, t.side, min(abreast, across-c))
		}
	}
	edge := func(r, h int) { next(r*t.cols+across*t.side, t.cols, h, t.cols%t.side, 1) }
	for r := range down {
		row(r*t.side, t.side)
	}
	for r := range down {
		edge(r*t.side, t.side)
	}
	row(down*t.side, t.rows%t.side)
	edge(down*t.side, t.rows%t.side)
}

// forward sets y to the coefficients of g, and returns false if one is not finite, as the
// first of a tile with a NaN or Inf is.
func (t *tiles) forward(y, g []float32, work []float64) (finite bool) {
	if t.side == 1 {
		plainly(y, g)
		return f32.AllFinite(y)
	}
	finite = true
	t.each(func(p band) {
		a, b, tmp := t.cut(work, p)
		for i := range p.h {
			row := g[p.from+i*p.stride:][:p.n*p.w]
			for k := range p.n {
				codec.Widen(a[(k*p.h+i)*p.w:][:p.w], row[k*p.w:][:p.w])
			}
		}
		for k := range p.n {
			a := a[k*p.h*p.w:][:p.h*p.w]
			if t.rows > 1 {
				t.by[p.h].Forward(a, p.w, tmp)
			}
			codec.Transpose(b, a, p.h, p.w)
			t.by[p.w].Forward(b, p.h, tmp)
			if t.rows == 1 {
				codec.Transpose(a, b, p.w, p.h)
				b = a
			}
			to := y[p.at+k*len(b):][:len(b)]
			codec.Narrow(to, b)
			finite = finite && f32.AllFinite(to)
		}
	})
	return finite
}

// inverse calls put with stretches of what the coefficients y stand for, at the places
// where they begin. It may overwrite y. A stretch is as long as tiles side by side, and
// stands in row.
func (t *tiles) inverse(y []float32, work []float64, row []float32, put func(at int, x []float32)) {
	if t.side == 1 {
		plainly(y, y)
		put(0, y)
		return
	}
	t.each(func(p band) {
		a, b, tmp := t.cut(work, p)
		for k := range p.n {
			a := a[k*len(b):][:len(b)]
			from := y[p.at+k*len(b):][:len(b)]
			if t.rows == 1 {
				codec.Widen(a, from)
				codec.Transpose(b, a, p.h, p.w)
			} else {
				codec.Widen(b, from)
			}
			t.by[p.w].Back(b, p.h, tmp)
			codec.Transpose(a, b, p.w, p.h)
			if t.rows > 1 {
				t.by[p.h].Back(a, p.w, tmp)
			}
		}
		for i := range p.h {
			for k := range p.n {
				codec.Narrow(row[k*p.w:][:p.w], a[(k*p.h+i)*p.w:][:p.w])
			}
			put(p.from+i*p.stride, row[:p.n*p.w])
		}
	})
}

// plainly is the transform of tiles of one value: they are what they were, −0 is 0.
func plainly(y, g []float32) {
	for i, v := range g {
		y[i] = v + 0
	}
}

// cut makes the parts of the scratch: room for all tiles, and for one.
func (t *tiles) cut(work []float64, p band) (a, b, tmp []float64) {
	n := t.side * t.side
	return work[:p.n*p.h*p.w], work[abreast*n:][:p.h*p.w], work[(abreast+1)*n:]
}
