package compress

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/rng"
)

var _ = Families.Add("powersgd", "rank-r factors with a warm start; sums", PowerSGD{Rank: 4, Gain: 2})

// PowerSGD sends a matrix as a product of rank r, found by one step of subspace
// iteration from the last step's factors.
//
//	P = Σ MᵢQ;  P̂ = orth(P);  Q = Σ MᵢᵀP̂;  ΣMᵢ ≈ P̂Qᵀ
//
// Vogels et al. 2019 (arXiv 1905.13727), algorithm 1. Both sums are all-reduced,
// so ranks never see each other's matrices. What rank i is credited with is
// P̂P̂ᵀMᵢ, an orthogonal projection of its own matrix. Rows and columns are the
// block's. A convolution is the matrix out × (k·k·in) and a dense layer out × in
// (sgd/nn), those of the paper's figures but for the order of the columns, on
// which neither sizes nor the product depend.
//
// Departures: feedback takes off what the rank contributed, where the paper
// takes off the mean over ranks; both telescope. A column of Q that has died is
// drawn anew. Blocks that would not shrink to 1/gain of their size are summed as
// they are; vectors are among them, and all that dct hands on. A tensor that a
// placement, a partition or scatter cuts is cut along its rows, and each piece
// has factors of its own. k pieces of a rows×cols matrix take 4r·(rows + k·cols)
// bytes, and their sum is nearer to it than one product of rank r. Behind a
// server (no second round with the other ranks) each rank sends its own P̂ and
// Q.
//
// Tuning: feedback(powersgd(rank=4)), rank 1 to 4 for convolutional nets, 32 for
// language models; PyTorch starts it after 1,000 steps and asks for gain=2. A
// first encoding is a contraction with δ ≥ r/min(rows, cols) in the mean; the
// warm start is better on gradients that change slowly, and can be worse on ones
// made for it (arXiv 2509.11254).
//
// Cost: 4r·(rows + cols) bytes and 4r multiply-adds an element, two rounds.
type PowerSGD struct {
	Rank int     `spec:",show" doc:"columns of the factors, at least 1"`
	Gain float64 `doc:"least factor by which a block must shrink, else it goes as it is"`
}

// Validate checks the options.
func (f PowerSGD) Validate() error {
	if f.Rank < 1 {
		return fmt.Errorf(`option "rank": want at least 1, not %d`, f.Rank)
	}
	if !(f.Gain >= 1) {
		return fmt.Errorf(`option "gain": want a factor of at least 1, not %v`, f.Gain)
	}
	return nil
}

// shrinks reports whether b is worth factoring.
func (f PowerSGD) shrinks(b Block) bool {
	return float64(f.Rank)*float64(b.Rows+b.Cols)*f.Gain <= float64(b.Len())
}

// Claims: Delta of a first encoding; those of raw for blocks that do not shrink.
func (f PowerSGD) Claims(b Block) Claims {
	if !f.shrinks(b) {
		return Raw{}.Claims(b)
	}
	size := 4 * f.Rank * (b.Rows + b.Cols)
	return Claims{
		Delta: float64(f.Rank) / float64(min(b.Rows, b.Cols)), Size: size, Exact: true, Stateful: true,
		Rounds: 2, Asked: size, Shaped: true,
	}
}

// New makes a codec whose state is Q.
func (f PowerSGD) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if !f.shrinks(b) {
		return Raw{}.New(b)
	}
	c := &powerCodec{factors: newFactors(b, f.Rank, true)}
	c.spaces.New = func() any { return new([]float32) }
	return c, nil
}

// NewExchange makes an exchange of two sums whose state is Q, none for blocks
// that do not shrink.
func (f PowerSGD) NewExchange(b Block) (Exchange, error) {
	if err := f.Validate(); err != nil || !f.shrinks(b) {
		return nil, err
	}
	return &powerExchange{factors: newFactors(b, f.Rank, false)}, nil
}

// factors is the state of one block: Q of the last step, and this step's work.
// P is rows×r and Q is cols×r, row by row.
type factors struct {
	rows, cols, r int
	key           rng.Key
	started       bool
	p, q          []float32
	t             []float32 // Qᵀ, to work in
}

// newFactors starts from a normal Q, the same on all ranks unless private.
func newFactors(b Block, r int, private bool) factors {
	return factors{rows: b.Rows, cols: b.Cols, r: r, key: stream("powersgd", b, private)}
}

// start draws Q, or the columns of it that have died, and takes the scale of the
// last gradient off the others, by a power of two: P̂ does not depend on it.
func (f *factors) start(step int) {
	if f.q == nil {
		f.p, f.q = make([]float32, f.rows*f.r), make([]float32, f.cols*f.r)
	}
	key := f.key.With(uint64(step))
	for k := range f.r {
		var most float64
		for j := k; j < len(f.q) && f.started; j += f.r {
			most = max(most, math.Abs(float64(f.q[j])))
		}
		_, e := math.Frexp(most)
		unit := math.Ldexp(1, -e)
		for j := k; j < len(f.q); j += f.r {
			if most == 0 {
				f.q[j] = float32(key.Norm(uint64(j)))
			} else {
				f.q[j] = float32(float64(f.q[j]) * unit)
			}
		}
	}
	f.started = true
}

// skinny is up to how many columns of the factors a product waits for memory and
// not for arithmetic. Beyond it, it is a matrix product like others.
const skinny = 8

// left sets P = M·Q.
func (f *factors) left(m []float32) {
	if f.r > skinny {
		f32.Gemm(false, false, f.rows, f.r, f.cols, 1, m, f.cols, f.q, f.r, 0, f.p, f.r)
		return
	}
	transpose(f.space(), f.q, f.cols, f.r)
	codec.LeftFactor(f.p, m, f.t, f.rows, f.cols, f.r)
}

// right sets q = MᵀP.
func (f *factors) right(q, m []float32) {
	if f.r > skinny {
		f32.Gemm(true, false, f.cols, f.r, f.rows, 1, m, f.cols, f.p, f.r, 0, q, f.r)
		return
	}
	codec.RightFactor(f.space(), f.p, m, f.rows, f.cols, f.r)
	transpose(q, f.t, f.r, f.cols)
}

// addProduct adds scale·P·Qᵀ to dst, with room for Qᵀ in t.
func (f *factors) addProduct(dst []float32, scale float32, p, q, t []float32) {
	if f.r > skinny {
		f32.Gemm(false, true, f.rows, f.cols, f.r, scale, p, f.r, q, f.r, 1, dst, f.cols)
		return
	}
	transpose(t, q, f.cols, f.r)
	codec.AddFactors(dst, scale, p, t, f.rows, f.cols, f.r)
}

// space is room for Qᵀ.
func (f *factors) space() []float32 {
	f.t = resize(f.t, f.cols*f.r)
	return f.t
}

// transpose writes the transpose of x, rows×cols.
func transpose(y, x []float32, rows, cols int) {
	for i := range rows {
		for j, v := range x[i*cols : (i+1)*cols] {
			y[j*rows+i] = v
		}
	}
}

// orthogonalise makes the columns of P orthonormal by Gram and Schmidt, twice
// each, in float64. A column that depends on those before becomes zero.
func (f *factors) orthogonalise() {
	p, r := f.p, f.r
	for k := range r {
		before := f.columnNorm(k)
		for range 2 {
			for l := range k {
				var dot float64
				for i := 0; i < len(p); i += r {
					dot += float64(float64(p[i+l]) * float64(p[i+k]))
				}
				for i := 0; i < len(p); i += r {
					p[i+k] -= float32(dot * float64(p[i+l]))
				}
			}
		}
		var inv float64
		if norm := f.columnNorm(k); norm > 1e-6*before {
			inv = 1 / norm
		}
		for i := k; i < len(p); i += r {
			p[i] = float32(float64(p[i]) * inv)
		}
	}
}

func (f *factors) columnNorm(k int) float64 {
	var s float64
	for i := k; i < len(f.p); i += f.r {
		s += float64(float64(f.p[i]) * float64(f.p[i]))
	}
	return math.Sqrt(s)
}

// AppendBinary appends Q, nothing before the first step.
func (f *factors) AppendBinary(b []byte) ([]byte, error) {
	if !f.started {
		return binary.LittleEndian.AppendUint32(b, 0), nil
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.q)))
	return f32.AppendBytes(b, f.q), nil
}

// UnmarshalBinary restores Q.
func (f *factors) UnmarshalBinary(b []byte) error {
	if len(b) == 4 && binary.LittleEndian.Uint32(b) == 0 {
		f.started, f.p, f.q = false, nil, nil
		return nil
	}
	n := f.cols * f.r
	if len(b) != 4+4*n || int64(binary.LittleEndian.Uint32(b)) != int64(n) || !AllFinite(b[4:]) {
		return Corruptf("factors of %d bytes, want %d finite elements", len(b), n)
	}
	f.p, f.q, f.started = make([]float32, f.rows*f.r), make([]float32, n), true
	f32.FromBytes(f.q, b[4:])
	return nil
}

// tooLarge guards products: beyond it they might overflow.
const tooLarge = 1e30

// check refuses what is not finite, or so large that products may not be.
func check(x []float32) error {
	if !(f32.MaxAbs(x) <= tooLarge) {
		return fmt.Errorf("%w, or values beyond %g", ErrNotFinite, tooLarge)
	}
	return nil
}

type powerExchange struct {
	factors
	m     []float32 // this rank's matrix
	own   []float32 // MᵀP̂
	round int
}

func (x *powerExchange) Begin(g []float32, s Step) (Op, error) {
	checkLen(len(g), x.rows*x.cols)
	if err := check(g); err != nil {
		return Op{}, err
	}
	x.m, x.own = resize(x.m, len(g)), resize(x.own, x.cols*x.r)
	copy(x.m, g)
	x.start(s.N)
	x.left(x.m)
	x.round = 1
	return Op{Kind: OpSum, Floats: x.p}, nil
}

func (x *powerExchange) Next(done Op) (Op, error) {
	switch x.round {
	case 1:
		if len(done.Floats) != len(x.p) {
			return Op{}, Corruptf("sum of %d elements, want %d", len(done.Floats), len(x.p))
		}
		copy(x.p, done.Floats)
		if !f32.AllFinite(x.p) {
			return Op{}, errSumOverflow("f32")
		}
		x.orthogonalise()
		x.right(x.own, x.m)
		copy(x.q, x.own)
		x.round = 2
		return Op{Kind: OpSum, Floats: x.q}, nil
	default:
		if len(done.Floats) != len(x.q) {
			return Op{}, Corruptf("sum of %d elements, want %d", len(done.Floats), len(x.q))
		}
		copy(x.q, done.Floats)
		if !f32.AllFinite(x.q) {
			return Op{}, errSumOverflow("f32")
		}
		return Op{}, nil
	}
}

func (x *powerExchange) Output(dst []float32, scale float32) error {
	x.addProduct(dst, scale, x.p, x.q, x.space())
	return nil
}

func (x *powerExchange) Credited(dst []float32, scale float32) error {
	x.addProduct(dst, scale, x.p, x.own, x.space())
	return nil
}

// powerCodec is one rank's own factors: P̂, then Q.
type powerCodec struct {
	factors
	spaces sync.Pool // *[]float32: factors of a payload, and Qᵀ
}

func (c *powerCodec) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	checkLen(len(g), c.rows*c.cols)
	if err := check(g); err != nil {
		return dst, err
	}
	c.start(s.N)
	c.left(g)
	c.orthogonalise()
	c.right(c.q, g)
	dst = slices.Grow(dst, 4*(len(c.p)+len(c.q)))
	return f32.AppendBytes(f32.AppendBytes(dst, c.p), c.q), nil
}

func (c *powerCodec) AddTo(dst []float32, scale float32, p []byte, _ From) error {
	checkLen(len(dst), c.rows*c.cols)
	np, n := c.rows*c.r, (c.rows+c.cols)*c.r
	if len(p) != 4*n {
		return Corruptf("%d bytes, want %d", len(p), 4*n)
	}
	space := c.spaces.Get().(*[]float32)
	defer c.spaces.Put(space)
	*space = resize(*space, n+c.cols*c.r)
	v, t := (*space)[:n], (*space)[n:]
	f32.FromBytes(v, p)
	if !(float64(f32.MaxAbs(v[:np]))*float64(f32.MaxAbs(v[np:]))*float64(c.r) <= math.MaxFloat32) {
		return Corruptf("factors are not finite, or too large")
	}
	c.addProduct(dst, scale, v[:np], v[np:], t)
	return nil
}
