package compress

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/compress/bits"
	"github.com/gradlab/gradlab/internal/f32"
)

var _ = Families.Add("dgc", "deep gradient compression: momentum inside the feedback",
	DGC{Keep: 0.001, Momentum: 0.9, Warmup: 4, Unit: "epochs", Index: "rice", Values: "f32"})

// DGC accumulates momentum where it accumulates what was not sent.
//
//	u = m·u + g;  v = v + u;  send v on its k largest entries;  u = v = 0 there
//
// Lin et al. 2018 (arXiv 1712.01887), algorithms 1 to 4: momentum correction,
// momentum factor masking, local clipping and the warm-up of the ratio. In stage
// s of n, of equal length, the fraction kept is keep^((s+1)/(n+1)): for the
// paper's 0.001 and 4 epochs, a stage each, 25 %, 6.3 %, 1.6 %, 0.4 %, then 0.1
// %.
//
// Departures: an exact selection in each block unless sampled=true, where the
// paper samples a threshold. The warm-up may be of any length, in steps too, and
// number of stages. Clipping is by the block's norm to clip/√world, where the
// paper takes the whole gradient's. Indices are Rice coded. Weight decay joins
// behind the codec, so it gets none of this momentum: as
// chain(decay(rate=r),sgd) it is 1/(1−m) times weaker than in
// chain(decay,momentum). The authors' optimizer gives the term a velocity of its
// own: optimizer=chain(decay(rate=r,momentum=m),sgd).
//
// Tuning: with plain sgd as optimizer, for the momentum is here, and a run with
// both is noted. keep=0.001, momentum that of the run it replaces, and of its
// decay. warmup=200,unit=steps in runs of few epochs. clip=0 leaves gradients
// alone.
//
// Cost: as topk, and eight bytes of state an element, sixteen in memory.
//
// Payload: see hits.go.
type DGC struct {
	Keep     float64 `spec:",show" doc:"fraction kept after the warm-up, in (0, 1]"`
	Momentum float64 `doc:"factor on the velocity, in [0, 1)"`
	Warmup   float64 `doc:"how long the fraction falls to keep, in unit"`
	Unit     string  `doc:"what warmup counts: epochs or steps"`
	Stages   int     `doc:"equal parts of the warm-up with a fraction each; 0: one an epoch, or 4 if it is in steps"`
	Clip     float64 `doc:"largest norm of a block's gradient, times the root of the ranks; 0: no clipping"`
	Index    string  `doc:"index coding: rice, varint, bitmap or raw32"`
	Values   string  `doc:"value format: f32, bf16 or fp16"`
	Sampled  bool    `doc:"about as many, from a threshold that a sample of the elements gives"`
}

// Validate checks the options.
func (f DGC) Validate() error {
	switch {
	case !(f.Momentum >= 0 && f.Momentum < 1):
		return fmt.Errorf(`option "momentum": want a factor in [0, 1), not %v`, f.Momentum)
	case !(f.Warmup >= 0) || math.IsInf(f.Warmup, 0):
		return fmt.Errorf(`option "warmup": want a number of epochs or steps, not %v`, f.Warmup)
	case f.Stages < 0:
		return fmt.Errorf(`option "stages": want a number of parts, or 0 for one an epoch, not %d`, f.Stages)
	case !(f.Clip >= 0) || math.IsInf(f.Clip, 0):
		return fmt.Errorf(`option "clip": want a norm, or 0 for none, not %v`, f.Clip)
	}
	if err := oneOf("unit", f.Unit, "epochs", "steps"); err != nil {
		return err
	}
	return TopK{Keep: f.Keep, Index: f.Index, Values: f.Values}.Validate()
}

// Momentous: with a factor on the velocity, and elements that wait: what is sent
// loses its velocity.
func (f DGC) Momentous() bool { return f.Momentum > 0 && f.Keep < 1 }

// Telescopes: without momentum and clipping.
func (f DGC) Telescopes() bool { return f.Momentum == 0 && f.Clip == 0 }

// Claims: state, and a bound on the size; a memory, unless all is sent as it is; a
// warm-up, if the first step sends a third more.
func (f DGC) Claims(b Block) Claims {
	first, last := kept(f.keep(Step{}), b.Len()), kept(f.Keep, b.Len())
	return Claims{
		Size: hitsMaxLen(word(f.Index, "rice"), b.Len(), b.Len(), 8*formatOf(f.Values).size), Stateful: true,
		Remembers: last < b.Len() || formatOf(f.Values) != &formatF32, WarmsUp: 3*first > 4*last,
	}
}

// New makes a codec whose state is velocity and accumulation.
func (f DGC) New(b Block) (Codec, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	c := &dgc{
		hits:   hits{d: b.Len(), most: b.Len(), index: word(f.Index, "rice"), values: formatOf(f.Values)},
		family: f, clip: f.Clip / math.Sqrt(float64(max(1, b.World))), val: []float32{},
	}
	return c, nil
}

type dgc struct {
	hits
	family DGC
	clip   float64 // 0: none
	sel    selector
	idx    []uint32
	val    []float32 // the elements there; not nil
	u, v   []float32 // nil before the first step
	nu, nv []float32 // the next ones, until they are known to be finite
}

// keep is the fraction sent in a step.
func (f DGC) keep(s Step) float64 {
	at, stages := s.Epoch, math.Ceil(f.Warmup)
	if word(f.Unit, "epochs") == "steps" {
		at, stages = float64(s.N), 4
	}
	if f.Stages > 0 {
		stages = float64(f.Stages)
	}
	if at >= f.Warmup {
		return f.Keep
	}
	stage := math.Floor(at / f.Warmup * stages)
	return math.Pow(f.Keep, (stage+1)/(stages+1))
}

func (c *dgc) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	checkLen(len(g), c.d)
	if c.u == nil {
		c.u, c.v = make([]float32, c.d), make([]float32, c.d)
		c.nu, c.nv = make([]float32, c.d), make([]float32, c.d)
	}
	if c.d == 0 {
		return c.appendValues(dst, nil, nil), nil
	}
	if !c.accumulate(g) {
		return dst, ErrNotFinite
	}
	choose := c.sel.largest
	if c.family.Sampled {
		choose = c.sel.about
	}
	var ok bool
	if c.idx, c.val, ok = choose(c.idx[:0], c.val[:0], c.nv, kept(c.family.keep(s), c.d)); !ok {
		return dst, ErrNotFinite
	}
	at := len(dst) + bits.UvarintMaxLen(1, len(c.idx))
	dst = c.appendValues(dst, c.val, c.idx)
	if c.values != &formatF32 {
		c.values.read(c.val, dst[at:at+len(c.val)*c.values.size])
	}
	for j, i := range c.idx { // what rounding left over stays behind
		c.nu[i], c.nv[i] = 0, c.nv[i]-c.val[j]
	}
	c.u, c.nu, c.v, c.nv = c.nu, c.u, c.nv, c.v
	return dst, nil
}

// accumulate sets nu and nv. It returns false if nu has a NaN or Inf.
func (c *dgc) accumulate(g []float32) bool {
	scale := float32(1)
	if c.clip > 0 {
		if norm := norm(g); norm > c.clip {
			scale = float32(c.clip / norm)
		}
	}
	for lo := 0; lo < c.d; lo += strip {
		hi := min(lo+strip, c.d)
		by, u, v := g[lo:hi], c.nu[lo:hi], c.nv[lo:hi]
		if scale != 1 {
			copy(u, by)
			f32.Scale(u, scale)
			by = u
		}
		f32.AxpyTo(u, by, float32(c.family.Momentum), c.u[lo:hi])
		f32.AxpyTo(v, u, 1, c.v[lo:hi])
		if !f32.AllFinite(u) {
			return false
		}
	}
	return true
}

// ResidualNorm is the norm of what has been accumulated and not sent.
func (c *dgc) ResidualNorm() float64 { return norm(c.v) }

// AppendBinary appends velocity and accumulation, nothing before the first step.
func (c *dgc) AppendBinary(b []byte) ([]byte, error) {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.u)))
	return f32.AppendBytes(f32.AppendBytes(b, c.u), c.v), nil
}

// UnmarshalBinary restores them.
func (c *dgc) UnmarshalBinary(b []byte) error {
	if len(b) < 4 {
		return Corruptf("state of %d bytes", len(b))
	}
	n := int64(binary.LittleEndian.Uint32(b))
	if b = b[4:]; n != 0 && n != int64(c.d) || int64(len(b)) != 8*n || !AllFinite(b) {
		return Corruptf("state of %d elements in %d bytes, want %d finite ones twice", n, len(b), c.d)
	}
	if n == 0 {
		c.u, c.v = nil, nil
		return nil
	}
	c.u, c.v = make([]float32, n), make([]float32, n)
	c.nu, c.nv = make([]float32, n), make([]float32, n)
	f32.FromBytes(c.u, b[:4*n])
	f32.FromBytes(c.v, b[4*n:])
	return nil
}
