package compress

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/gradlab/gradlab/compress/bits"
	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/portable"
	"github.com/gradlab/gradlab/internal/rng"
)

var _ = Families.Add("thc", "random rotation, then table values that sum as integers",
	THC{Bits: 4, Grid: 30, Clip: 1.0 / 32, Chunk: 4096})

// THC rotates at random, rounds to a table of whole numbers, and sums those.
//
//	y = H·D·g/√n,  D a diagonal of random signs, H Hadamard's matrix
//	M = t·max over ranks of ‖y‖/√n,  P(|N(0,1)| > t) = clip;  y clamped to ±M
//	z = one of the two entries of the table T around y·G/M, at random, so that
//	    E z = y·G/M;  T has 2^bits whole numbers in ±G, G = grid/2
//	ΣC(gᵢ) = D·H·(M/G·Σzᵢ)/√n
//
// Li et al. 2024 (THC, NSDI; arXiv 2302.08545), algorithm 3. The rotation makes
// elements near normal, so a norm is all that ranks must agree on, and T is the
// symmetric table of least expected error for a clamped normal. What is clamped
// off is a bias, made up for by feedback. With δ the bound below of the codec by
// itself, the largest squared error over the ranks is at most 1−δ of the largest
// squared norm. δ: between neighbours a apart the variance is at most a²/4, and
// the elements of y, being sums of independent signs, have E y⁴ ≤ 3σ⁴, so
// E(|y|−tσ)₊² is at most 3σ²/(16t²).
//
// Departures: the table is centred, so that Σz fits one byte for 8 ranks with
// the paper's grid of 30. Payloads on a ring are the sums themselves, where the
// paper's switch takes 4 bits up. Rotation in chunks. Behind a server, which has
// no round for norms, each worker has its own.
//
// Tuning: feedback(thc); bits=4, grid=30 and clip=1/32 are the paper's.
//
// Cost: a rotation either way; one byte an element and hop up to 8 ranks, two
// beyond; bits + 32/chunk bits behind a server. Payload there: a norm for each
// chunk, then packed places in T.
type THC struct {
	Bits  int     `spec:",show" doc:"bits of one rank's table, 1 to 6"`
	Grid  int     `doc:"steps of the grid that the table is taken from, even, at least 2^bits-1"`
	Clip  float64 `doc:"share of the elements of a normal vector that is clamped, in (0, 0.5]"`
	Chunk int     `doc:"elements rotated together, a power of two from 64 to 65536"`
}

// Validate checks the options.
func (f THC) Validate() error {
	switch {
	case f.Bits < 1 || f.Bits > 6:
		return fmt.Errorf(`option "bits": want 1 to 6, not %d`, f.Bits)
	case f.Grid < 1<<f.Bits-1 || f.Grid > 254 || f.Grid%2 != 0:
		return fmt.Errorf(`option "grid": want an even number of steps from %d to 254, not %d`, 1<<f.Bits, f.Grid)
	case !(f.Clip > 0 && f.Clip <= 0.5):
		return fmt.Errorf(`option "clip": want a share in (0, 0.5], not %v`, f.Clip)
	case f.Chunk < 64 || f.Chunk > 1<<16 || f.Chunk&(f.Chunk-1) != 0:
		return fmt.Errorf(`option "chunk": want a power of two from 64 to 65536, not %d`, f.Chunk)
	}
	return nil
}

// cut is t, beyond which elements of a standard normal vector are clamped.
func (f THC) cut() float64 { return math.Sqrt2 * portable.Erfinv(1-f.Clip) }

// Claims: the bound above, and what the exchange costs.
func (f THC) Claims(b Block) Claims {
	chunks, padded := rotated(b.Len(), f.Chunk)
	c := Claims{Size: 4*len(chunks) + bits.PackedLen(padded, f.Bits), Exact: true, Homogeneous: true}
	if f.Validate() != nil {
		return c
	}
	t, widest := f.cut(), 0
	table := thcTable(f.Bits, f.Grid/2, t)
	for i := range table[1:] {
		widest = max(widest, table[i+1]-table[i])
	}
	u := t / float64(f.Grid/2) * float64(widest)
	c.Delta = max(0, 1-float64(u*u/4)-3/(16*t*t)-1e-6)
	return sharedClaims(c, b, len(chunks), padded, f.Grid/2)
}

// checkRotated checks the payload of a codec that rotates: a scale for every
// chunk, of which nothing decoded may overflow, and padded codes of so many bits.
func checkRotated(p []byte, chunks []chunkOf, padded, width int, fits func(scale float32, n int) bool) error {
	n := 4 * len(chunks)
	if want := n + bits.PackedLen(padded, width); len(p) != want {
		return Corruptf("%d bytes, want %d", len(p), want)
	}
	if err := checkNorms(p[:n]); err != nil {
		return err
	}
	for i, ch := range chunks {
		if v := formatF32.get(p, i); !fits(v, ch.padded) {
			return Corruptf("scale %v is too large", v)
		}
	}
	if tail := padded * width % 8; tail != 0 && p[len(p)-1]>>tail != 0 {
		return Corruptf("padding is not zero")
	}
	return nil
}

// rotated cuts d elements into chunks and counts what they are padded to.
func rotated(d, chunk int) (chunks []chunkOf, padded int) {
	chunks = chunksOf(d, chunk)
	for _, c := range chunks {
		padded += c.padded
	}
	return chunks, padded
}

// thcTable chooses 2^bits whole numbers in ±g, ascending, symmetric, with both
// ends, so that rounding at random between neighbours has least variance on a
// normal variable of which g is t standard deviations. The positive half is
// found by dynamic programming; where it begins at v, the step across zero is
// from −v to v.
func thcTable(bits, g int, t float64) []int {
	half := 1 << (bits - 1)
	sd := float64(g) / t
	// p and q are the normal distribution function at v−g and minus its density
	// times σ; the variance of rounding between lo and hi is
	// ∫(x−lo)(hi−x)dP = (lo+hi)·∫xdP − lo·hi·∫dP − ∫x²dP, and
	// ∫xdP = Δq·σ, ∫x²dP = σ²·ΔP + Δ(x·q)·σ.
	p, q := make([]float64, 2*g+1), make([]float64, 2*g+1)
	for i := range p {
		z := float64(i-g) / sd
		p[i], q[i] = portable.Erf(z/math.Sqrt2)/2, -portable.Exp(float64(-z*z)/2)/math.Sqrt(2*math.Pi)
	}
	cost := func(lo, hi int) float64 {
		a, b := float64(lo), float64(hi)
		dp, qa, qb := p[hi+g]-p[lo+g], q[lo+g], q[hi+g]
		first := float64((qb - qa) * sd)
		second := float64(sd*sd*dp) + float64(float64(float64(b*qb)-float64(a*qa))*sd)
		return float64((a+b)*first) - float64(float64(a*b)*dp) - second
	}
	// best[k][v]: least variance beyond v with k more entries, the last one g.
	best := make([][]float64, half)
	next := make([][]int, half)
	for k := range best {
		best[k], next[k] = make([]float64, g+1), make([]int, g+1)
		for v := range best[k] {
			best[k][v] = math.Inf(1)
			if k == 0 && v == g {
				best[k][v] = 0
			}
			for w := v + 1; k > 0 && w <= g; w++ {
				if c := cost(v, w) + best[k-1][w]; c < best[k][v] {
					best[k][v], next[k][v] = c, w
				}
			}
		}
	}
	first, least := 0, math.Inf(1)
	for v := 1; v <= g; v++ {
		if c := float64(cost(-v, v)/2) + best[half-1][v]; c < least {
			first, least = v, c
		}
	}
	out := make([]int, 0, 2*half)
	for k, v := half-1, first; ; k-- {
		out = append(out, v, -v)
		if k == 0 {
			break
		}
		v = next[k][v]
	}
	slices.Sort(out)
	return out
}

// New makes a codec without state.
func (f THC) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return f.make(b), nil
}

// NewExchange makes an exchange of a maximum of norms and a sum of integers.
func (f THC) NewExchange(b Block) (Exchange, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	wire, ok := intWire(b.World * f.Grid / 2)
	if !ok {
		return nil, errTooManyRanks(b.World, f.Grid/2)
	}
	return &thcExchange{thc: f.make(b), wire: wire, world: b.World}, nil
}

func (f THC) make(b Block) *thc {
	c := &thc{
		d: b.Len(), bits: f.Bits, top: f.Grid / 2, cut: f.cut(),
		signs: stream("thc/signs", b, false), rounding: stream("thc", b, true),
	}
	c.table = thcTable(c.bits, c.top, c.cut)
	c.chunks, c.padded = rotated(c.d, f.Chunk)
	c.stairs = codec.NewStairs(c.table)
	c.values = make([]float32, max(16, len(c.table)))
	for i, v := range c.table {
		c.values[i] = float32(v)
	}
	c.spaces.New = func() any { return &edenSpace{make([]float32, f.Chunk), make([]byte, f.Chunk)} }
	return c
}

// thc is what codec and exchange share.
type thc struct {
	d, padded, bits int
	top             int // G
	cut             float64
	table           []int
	stairs          *codec.Stairs
	values          []float32 // the table's, sixteen or more
	chunks          []chunkOf
	signs, rounding rng.Key
	spaces          sync.Pool // *edenSpace
}

// rotate leaves the rotated chunk in y and returns its norm; ok is false if x
// has a NaN or Inf, or values so large that the norm has none. y is not scaled
// by 1/√n.
func (c *thc) rotate(y, x []float32, ch chunkOf, key rng.Key) (norm float32, ok bool) {
	m := f32.MaxAbs(x)
	if !(float64(m)*float64(ch.padded) <= math.MaxFloat32) {
		return 0, false
	}
	copy(y, x)
	clear(y[len(x):])
	codec.Flip(y[:len(x)], key, ch.lo)
	norm = float32(math.Sqrt(f32.SumSq(x)))
	codec.Hadamard(y)
	return norm, true
}

// choose fills codes with places in the table for a chunk rotated by rotate,
// given the norm agreed on.
func (c *thc) choose(codes []byte, y []float32, norm float32, key rng.Key, at int) {
	if norm == 0 {
		clear(codes)
		return
	}
	// y/√n·G/M with M = t·norm/√n
	c.stairs.Round(codes, y, float64(c.top)/float64(c.cut*float64(norm)), key, uint64(at))
}

// look sets y to what codes stand for in the table.
func (c *thc) look(y []float32, codes []byte) {
	if len(c.values) == 16 {
		codec.Lookup(y, codes, (*[16]float32)(c.values))
		return
	}
	for i, code := range codes {
		y[i] = c.values[code]
	}
}

// unit is what 1 in the table stands for, with the 1/√n of the way back, for a
// chunk of n elements.
func (c *thc) unit(norm float32, n int) float32 {
	return float32(c.cut * float64(norm) / float64(c.top*n))
}

// fits reports whether nothing decoded at this norm overflows, summed over so
// many ranks.
func (c *thc) fits(norm float32, world int) bool {
	return float64(norm)*float64(c.cut)*float64(world)*1.001 <= math.MaxFloat32
}

// back rotates whole numbers in y back and adds unit times them to dst.
func (c *thc) back(dst []float32, unit float32, y []float32, ch chunkOf, key rng.Key) {
	codec.Hadamard(y)
	y = y[:ch.hi-ch.lo]
	codec.Flip(y, key, ch.lo)
	f32.Axpy(dst[ch.lo:ch.hi], unit, y)
}

func (c *thc) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	checkLen(len(g), c.d)
	at := len(dst)
	dst = slices.Grow(dst, 4*len(c.chunks)+bits.PackedLen(c.padded, c.bits))[:at+4*len(c.chunks)]
	signs, rounding := c.signs.With(uint64(s.N)), c.rounding.With(uint64(s.N))
	w := c.spaces.Get().(*edenSpace)
	defer c.spaces.Put(w)
	first := 0
	for i, ch := range c.chunks {
		y, codes := w.y[:ch.padded], w.codes[:ch.padded]
		norm, ok := c.rotate(y, g[ch.lo:ch.hi], ch, signs)
		if !ok || !c.fits(norm, ch.padded) {
			return dst[:at], ErrNotFinite
		}
		c.choose(codes, y, norm, rounding, first)
		formatF32.put(dst[:at+4*i], norm)
		dst = bits.AppendPacked(dst, codes, c.bits)
		first += ch.padded
	}
	return dst, nil
}

func (c *thc) AddTo(dst []float32, scale float32, p []byte, from From) error {
	checkLen(len(dst), c.d)
	n := 4 * len(c.chunks)
	if err := checkRotated(p, c.chunks, c.padded, c.bits, c.fits); err != nil {
		return err
	}
	signs, packed := c.signs.With(uint64(from.Step)), p[n:]
	w := c.spaces.Get().(*edenSpace)
	defer c.spaces.Put(w)
	for i, ch := range c.chunks {
		size := bits.PackedLen(ch.padded, c.bits)
		y, codes := w.y[:ch.padded], w.codes[:ch.padded]
		bits.Unpack(codes, packed[:size], c.bits)
		packed = packed[size:]
		c.look(y, codes)
		c.back(dst, float32(scale*c.unit(formatF32.get(p, i), ch.padded)), y, ch, signs)
	}
	return nil
}

// thcExchange agrees on norms and sums table values.
type thcExchange struct {
	*thc
	wire  Wire
	world int

	round            int
	step             int
	y                []float32 // rotated chunks, one behind the other
	norms, asked     []float32
	own, sum, result []float32
}

func (x *thcExchange) Begin(g []float32, s Step) (Op, error) {
	checkLen(len(g), x.d)
	x.y, x.own, x.sum = resize(x.y, x.padded), resize(x.own, x.padded), resize(x.sum, x.padded)
	x.norms, x.asked = resize(x.norms, len(x.chunks)), resize(x.asked, len(x.chunks))
	x.round, x.step = 1, s.N
	key, at := x.signs.With(uint64(s.N)), 0
	for i, ch := range x.chunks {
		var ok bool
		if x.asked[i], ok = x.rotate(x.y[at:at+ch.padded], g[ch.lo:ch.hi], ch, key); !ok {
			return Op{}, ErrNotFinite
		}
		at += ch.padded
	}
	return Op{Kind: OpMax, Floats: x.asked}, nil
}

func (x *thcExchange) Next(done Op) (Op, error) {
	if x.round == 2 {
		if err := checkWhole(done.Floats, x.padded, x.world*x.top); err != nil {
			return Op{}, err
		}
		x.result = done.Floats
		return Op{}, nil
	}
	if err := takeScales(x.norms, done.Floats, x.world); err != nil {
		return Op{}, err
	}
	w := x.spaces.Get().(*edenSpace)
	defer x.spaces.Put(w)
	key, at := x.rounding.With(uint64(x.step)), 0
	for i, ch := range x.chunks {
		if !x.fits(x.norms[i], x.world*ch.padded) {
			return Op{}, errSumOverflow("f32")
		}
		codes := w.codes[:ch.padded]
		x.choose(codes, x.y[at:at+ch.padded], x.norms[i], key, at)
		x.look(x.own[at:at+ch.padded], codes)
		at += ch.padded
	}
	copy(x.sum, x.own)
	x.round = 2
	return Op{Kind: OpSum, Floats: x.sum, Wire: x.wire}, nil
}

func (x *thcExchange) Output(dst []float32, scale float32) error { return x.lift(dst, scale, x.result) }

func (x *thcExchange) Credited(dst []float32, scale float32) error {
	return x.lift(dst, scale, x.own)
}

// lift adds scale times what whole numbers stand for.
func (x *thcExchange) lift(dst []float32, scale float32, z []float32) error {
	checkLen(len(dst), x.d)
	w := x.spaces.Get().(*edenSpace)
	defer x.spaces.Put(w)
	key, at := x.signs.With(uint64(x.step)), 0
	for i, ch := range x.chunks {
		y := w.y[:ch.padded]
		copy(y, z[at:])
		x.back(dst, float32(scale*x.unit(x.norms[i], ch.padded)), y, ch, key)
		at += ch.padded
	}
	return nil
}
