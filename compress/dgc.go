package compress

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/compress/bits"
	"github.com/gradlab/gradlab/internal/codec"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/portable"
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
// Cost: as topk, and eight bytes of state an element.
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
		family: f, clip: f.Clip / math.Sqrt(float64(max(1, b.World))),
	}
	return c, nil
}

type dgc struct {
	hits
	family DGC
	clip   float64   // 0: none
	u, v   []float32 // nil before the first step
	sent   marks     // elements of u and v that count as 0 from now on: none but they are written
	most   float32   // no element of u and v is larger
	sieve  sieve
	val    []float32
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
	return portable.Pow(f.Keep, (stage+1)/(stages+1))
}

func (c *dgc) Append(dst []byte, g []float32, s Step) ([]byte, error) {
	checkLen(len(g), c.d)
	if c.u == nil {
		c.start()
	}
	if c.d == 0 {
		return c.appendValues(dst, nil, nil), nil
	}
	scale, m := c.scale(g), float32(c.family.Momentum)
	if !c.staysFinite(g, scale) {
		return dst, ErrNotFinite
	}
	c.sieve.begin(c.d, kept(c.family.keep(s), c.d), c.family.Sampled, func(i int) float32 {
		u, v := c.u[i], c.v[i]
		if c.sent.mask[i>>3]>>(i&7)&1 == 1 {
			u, v = 0, 0
		}
		return float32(float32(scale*g[i])+float32(m*u)) + v
	})
	most := uint32(0)
	for lo := 0; lo < c.d; lo += strip {
		hi := min(lo+strip, c.d)
		mask, v := c.sent.of(lo, hi), c.v[lo:hi]
		most = max(most, codec.Momentum(c.u[lo:hi], v, g[lo:hi], mask, m, scale))
		c.sieve.strip(mask, v, lo)
	}
	c.most = math.Float32frombits(most)
	return c.appendSent(dst, c.sieve.end(c.sent.mask, c.v)), nil
}

// start makes room for the state.
func (c *dgc) start() {
	c.u, c.v, c.most = make([]float32, c.d), make([]float32, c.d), 0
	c.sent.mask = make([]byte, bits.SignLen(c.d))
}

// scale is what local clipping multiplies g by.
func (c *dgc) scale(g []float32) float32 {
	if c.clip > 0 {
		if norm := norm(g); norm > c.clip {
			return float32(c.clip / norm)
		}
	}
	return 1
}

// staysFinite reports whether u and v will be finite. It tries a step out on copies if
// magnitudes alone do not tell.
func (c *dgc) staysFinite(g []float32, scale float32) bool {
	m := c.family.Momentum
	if float64(float64(scale)*float64(f32.MaxAbs(g)))+float64((m+1)*float64(c.most)) < math.MaxFloat32/2 {
		return true
	}
	var u, v [strip]float32
	for lo := 0; lo < c.d; lo += strip {
		hi := min(lo+strip, c.d)
		u, v := u[:copy(u[:], c.u[lo:hi])], v[:copy(v[:], c.v[lo:hi])]
		most := codec.Momentum(u, v, g[lo:hi], c.sent.of(lo, hi), float32(m), scale)
		if !(math.Float32frombits(most) <= math.MaxFloat32) {
			return false
		}
	}
	return true
}

// appendSent writes the n elements that are sent.
func (c *dgc) appendSent(dst []byte, n int) []byte {
	const dense = 64 // one hit in so many makes it worth while to look at every element
	c.val = resize(c.val, n+16)
	if n*dense < c.d {
		for j, i := range c.at(n) {
			c.val[j] = c.v[i]
		}
	} else {
		j := 0
		for lo := 0; lo < c.d; lo += strip {
			hi := min(lo+strip, c.d)
			j += codec.Pick(c.val[j:], c.v[lo:hi], c.sent.of(lo, hi))
		}
	}
	val := c.val[:n]
	dst = bits.AppendUvarint(dst, uint32(n))
	at := len(dst)
	dst = c.values.append(dst, val, c.most)
	dst = c.appendMask(dst, &c.sent, n)
	if c.values != &formatF32 { // what rounding left over stays behind
		c.values.read(val, dst[at:at+n*c.values.size])
		for j, i := range c.at(n) {
			c.u[i], c.v[i] = 0, c.v[i]-val[j]
		}
		clear(c.sent.mask)
	}
	return dst
}

// at are the places of the n elements that are sent.
func (c *dgc) at(n int) []uint32 {
	c.sent.idx = resize(c.sent.idx, n)
	codec.Ones(c.sent.idx, c.sent.mask)
	return c.sent.idx
}

// settle writes the zeros that u and v are known to have.
func (c *dgc) settle() {
	for _, i := range c.at(bits.Ones(c.sent.mask)) {
		c.u[i], c.v[i] = 0, 0
	}
	clear(c.sent.mask)
}

// ResidualNorm is the norm of what has been accumulated and not sent.
func (c *dgc) ResidualNorm() float64 {
	c.settle()
	return norm(c.v)
}

// AddResidual adds scale times what has been accumulated to dst.
func (c *dgc) AddResidual(dst []float32, scale float32) {
	checkLen(len(dst), c.d)
	if c.u != nil {
		c.settle()
		f32.Axpy(dst, scale, c.v)
	}
}

// Owe adds to what has been accumulated; the velocity stays as it is.
func (c *dgc) Owe(e []float32) {
	checkLen(len(e), c.d)
	if c.u == nil {
		c.start()
	}
	c.settle()
	f32.Add(c.v, e)
	c.most = max(c.most, f32.MaxAbs(c.v))
}

// AppendBinary appends velocity and accumulation, nothing before the first step.
func (c *dgc) AppendBinary(b []byte) ([]byte, error) {
	c.settle()
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
		c.u, c.v, c.sent.mask = nil, nil, nil
		return nil
	}
	c.start()
	f32.FromBytes(c.u, b[:4*n])
	f32.FromBytes(c.v, b[4*n:])
	c.most = max(f32.MaxAbs(c.u), f32.MaxAbs(c.v))
	return nil
}
