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
	if state, ok := in.(Stateful); ok {
		return struct {
			*dct
			Stateful
		}{c, state}, nil
	}
	return c, nil
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
	by               map[int]*cosines // by length
}

func newTiles(rows, cols, side int) tiles {
	t := tiles{rows: rows, cols: cols, side: side, by: map[int]*cosines{}}
	for _, n := range []int{min(side, rows), rows % side, min(side, cols), cols % side} {
		for ; n > 0 && t.by[n] == nil; n /= 2 {
			t.by[n] = newCosines(n)
			if n%2 == 1 {
				break
			}
		}
	}
	return t
}

// space is the scratch of one transformation: a tile, its transpose, and what
// butterflies need.
func (t *tiles) space() []float64 { return make([]float64, 3*t.side*t.side) }

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
	t.each(func(p tile) {
		a, b, tmp := t.cut(work, p)
		for i := range p.h {
			for j, v := range g[p.from+i*p.stride:][:p.w] {
				a[i*p.w+j] = float64(v)
			}
		}
		if t.rows > 1 {
			t.transform(a, tmp, p.h, p.w)
		}
		transposed(b, a, p.h, p.w)
		t.transform(b, tmp, p.w, p.h)
		for i, v := range b {
			y[p.at+i] = float32(v)
		}
	})
}

// inverse sets g to what the coefficients y stand for.
func (t *tiles) inverse(g, y []float32, work []float64) {
	t.each(func(p tile) {
		a, b, tmp := t.cut(work, p)
		for i := range b {
			b[i] = float64(y[p.at+i])
		}
		t.back(b, tmp, p.w, p.h)
		transposed(a, b, p.w, p.h)
		if t.rows > 1 {
			t.back(a, tmp, p.h, p.w)
		}
		for i := range p.h {
			for j, v := range a[i*p.w:][:p.w] {
				g[p.from+i*p.stride+j] = float32(v)
			}
		}
	})
}

// cut makes the parts of the scratch.
func (t *tiles) cut(work []float64, p tile) (a, b, tmp []float64) {
	n := t.side * t.side
	return work[:p.h*p.w], work[n:][:p.h*p.w], work[2*n:]
}

// transposed sets dst, w×h, to the transpose of src, h×w.
func transposed(dst, src []float64, h, w int) {
	for i := range h {
		for j, v := range src[i*w:][:w] {
			dst[j*h+i] = v
		}
	}
}

// transform multiplies x, n rows of w, by A of size n.
func (t *tiles) transform(x, tmp []float64, n, w int) {
	t.by[n].forward(t, x, tmp, w)
	scaleRows(x, w, n)
}

// back multiplies x by Aᵀ.
func (t *tiles) back(x, tmp []float64, n, w int) {
	scaleRows(x, w, n)
	t.by[n].transpose(t, x, tmp, w)
}

// scaleRows makes rows of plain cosines orthonormal.
func scaleRows(x []float64, w, n int) {
	s := math.Sqrt(2 / float64(n))
	for i := range x {
		x[i] *= s
	}
	for i := range x[:w] {
		x[i] *= math.Sqrt2 / 2
	}
}

// cosines is the transform X_k = Σ xᵢ·cos(πk(2i+1)/2n) of one length, by Lee's
// recursion (1984) where n is even, else as it stands.
type cosines struct {
	n   int
	mul []float64 // even: 1/(2cos(π(2i+1)/2n)); odd: the matrix
}

func newCosines(n int) *cosines {
	c := &cosines{n: n}
	angle := math.Pi / float64(2*n)
	if n%2 == 0 {
		for i := range n / 2 {
			c.mul = append(c.mul, 0.5/math.Cos(float64(2*i+1)*angle))
		}
		return c
	}
	for k := range n {
		for i := range n {
			c.mul = append(c.mul, math.Cos(float64(k*(2*i+1)%(4*n))*angle))
		}
	}
	return c
}

// forward transforms x, n rows of w values, in place.
func (c *cosines) forward(t *tiles, x, tmp []float64, w int) {
	half := c.n / 2
	if c.n%2 == 1 {
		c.plain(x, tmp, w, func(k, i int) float64 { return c.mul[k*c.n+i] })
		return
	}
	// Sums of mirrored rows give the even coefficients, scaled differences those
	// whose neighbours add up to the odd ones.
	a, b := tmp[:half*w], tmp[half*w:c.n*w]
	for i, m := range c.mul {
		codec.Fold(a[i*w:][:w], b[i*w:][:w], x[i*w:][:w], x[(c.n-1-i)*w:][:w], m)
	}
	t.by[half].forward(t, a, x, w)
	t.by[half].forward(t, b, x, w)
	for i := range half {
		copy(x[2*i*w:][:w], a[i*w:])
		if odd := x[(2*i+1)*w:][:w]; i+1 < half {
			codec.Sum(odd, b[i*w:][:w], b[(i+1)*w:][:w])
		} else {
			copy(odd, b[i*w:])
		}
	}
}

// transpose is forward with every step transposed and in the opposite order.
func (c *cosines) transpose(t *tiles, x, tmp []float64, w int) {
	half := c.n / 2
	if c.n%2 == 1 {
		c.plain(x, tmp, w, func(k, i int) float64 { return c.mul[i*c.n+k] })
		return
	}
	a, b := tmp[:half*w], tmp[half*w:c.n*w]
	for i := range half {
		copy(a[i*w:][:w], x[2*i*w:])
		if d := b[i*w:][:w]; i > 0 {
			codec.Sum(d, x[(2*i+1)*w:][:w], x[(2*i-1)*w:][:w])
		} else {
			copy(d, x[w:])
		}
	}
	t.by[half].transpose(t, a, x, w)
	t.by[half].transpose(t, b, x, w)
	for i, m := range c.mul {
		codec.Unfold(x[i*w:][:w], x[(c.n-1-i)*w:][:w], a[i*w:][:w], b[i*w:][:w], m)
	}
}

// plain multiplies x by the matrix of the given entries.
func (c *cosines) plain(x, tmp []float64, w int, entry func(k, i int) float64) {
	out := tmp[:c.n*w]
	clear(out)
	for k := range c.n {
		row := out[k*w:][:w]
		for i := range c.n {
			m := entry(k, i)
			for j, v := range x[i*w:][:w] {
				row[j] += float64(m * v)
			}
		}
	}
	copy(x, out)
}
