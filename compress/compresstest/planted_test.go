package compresstest_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/compress/compresstest"
	"github.com/gradlab/gradlab/internal/f32"
)

type (
	codec  = compress.Codec
	step   = compress.Step
	from   = compress.From
	claims = compress.Claims
	block  = compress.Block
)

// planted is a good codec with one thing done wrong.
type planted struct {
	in     compress.Family
	block  func(block) block
	append func(in codec, b block, dst []byte, g []float32, s step) ([]byte, error)
	addTo  func(in codec, b block, dst []float32, scale float32, p []byte, fr from) error
	claims func(claims) claims
}

func (f planted) Claims(b block) claims {
	c, _ := compress.ClaimsOf(f.in, b)
	c.Linear = compress.NotLinear // the wrapper hides it
	if f.claims != nil {
		c = f.claims(c)
	}
	return c
}

func (f planted) New(b block) (codec, error) {
	inner := b
	if f.block != nil {
		inner = f.block(b)
	}
	in, err := f.in.New(inner)
	return plantedCodec{in, b, f}, err
}

type plantedCodec struct {
	in codec
	b  block
	f  planted
}

func (c plantedCodec) Append(dst []byte, g []float32, s step) ([]byte, error) {
	if c.f.append != nil {
		return c.f.append(c.in, c.b, dst, g, s)
	}
	return c.in.Append(dst, g, s)
}

func (c plantedCodec) AddTo(dst []float32, scale float32, p []byte, fr from) error {
	if c.f.addTo != nil {
		return c.f.addTo(c.in, c.b, dst, scale, p, fr)
	}
	return c.in.AddTo(dst, scale, p, fr)
}

// doubled claims to be linear and lifts sums twice.
type doubled struct{ compress.Raw }

func (f doubled) New(b block) (codec, error) {
	c, err := f.Raw.New(b)
	return doubledCodec{c.(compress.Linear)}, err
}

type doubledCodec struct{ compress.Linear }

func (c doubledCodec) Lift(dst []float32, scale float32, sum []float32, s step) error {
	return c.Linear.Lift(dst, 2*scale, sum, s)
}

// forgetful is feedback that loses its residual every few steps.
type forgetful struct {
	compress.Feedback
	every int
}

func (f forgetful) New(b block) (codec, error) {
	c, err := f.Feedback.New(b)
	return &forgetfulCodec{codec: c, f: f, b: b}, err
}

type forgetfulCodec struct {
	codec
	f forgetful
	b block
}

func (c *forgetfulCodec) Append(dst []byte, g []float32, s step) ([]byte, error) {
	if s.N%c.f.every == c.f.every-1 {
		c.codec, _ = c.f.Feedback.New(c.b)
	}
	return c.codec.Append(dst, g, s)
}

func (c *forgetfulCodec) ResidualNorm() float64 {
	return c.codec.(compress.Residualer).ResidualNorm()
}

// unsaved is feedback whose state cannot be reached.
type unsaved struct{ compress.Feedback }

func (f unsaved) New(b block) (codec, error) {
	c, err := f.Feedback.New(b)
	return struct{ codec }{c}, err
}

// exchanged is intsum with one thing done wrong between the ranks.
type exchanged struct {
	compress.IntSum
	block func(block) block
	wrap  func(compress.Exchange, block) compress.Exchange
}

func (f exchanged) Claims(b block) claims {
	if f.block != nil {
		b = f.block(b)
	}
	return f.IntSum.Claims(b)
}

func (f exchanged) NewExchange(b block) (compress.Exchange, error) {
	inner := b
	if f.block != nil {
		inner = f.block(b)
	}
	x, err := f.IntSum.NewExchange(inner)
	if err == nil && f.wrap != nil {
		x = f.wrap(x, b)
	}
	return x, err
}

// greedy credits itself with an even share of the sum.
type greedy struct{ compress.Exchange }

func (x greedy) Credited(dst []float32, scale float32) error { return x.Output(dst, scale/3) }

// chatty asks for a sum of nothing that it has not claimed.
type chatty struct {
	compress.Exchange
	more bool
}

func (x *chatty) Begin(g []float32, s step) (compress.Op, error) {
	x.more = true
	return x.Exchange.Begin(g, s)
}

func (x *chatty) Next(done compress.Op) (compress.Op, error) {
	if !x.more {
		return compress.Op{}, nil
	}
	op, err := x.Exchange.Next(done)
	if err == nil && op.Kind == compress.OpNone {
		x.more, op.Kind = false, compress.OpSum
	}
	return op, err
}

// trusting takes whatever it is told.
type trusting struct{ compress.Exchange }

func (x trusting) Next(done compress.Op) (compress.Op, error) {
	op, err := x.Exchange.Next(done)
	if err != nil {
		return compress.Op{}, nil
	}
	return op, nil
}

// shaken draws otherwise after it has refused something.
type shaken struct {
	compress.Exchange
	refused int
}

func (x *shaken) Begin(g []float32, s step) (compress.Op, error) {
	s.N += x.refused
	op, err := x.Exchange.Begin(g, s)
	if err != nil {
		x.refused++
	}
	return op, err
}

// biasedRank adds a little that depends on the rank.
type biasedRank struct {
	compress.Exchange
	rank int
}

func (x biasedRank) Output(dst []float32, scale float32) error {
	return x.Exchange.Output(dst, scale*(1+float32(x.rank)*0x1p-23))
}

// parted is ef21 whose receiver does one thing wrong.
type parted struct {
	compress.EF21
	receive func(r compress.Receiver, dst []float32, scale float32, p []byte, fr from) error
}

func (f parted) NewReceiver(b block) (compress.Receiver, error) {
	r, err := f.EF21.NewReceiver(b)
	return partedReceiver{r, r.(compress.Stateful), f}, err
}

type partedReceiver struct {
	compress.Receiver
	compress.Stateful
	f parted
}

func (r partedReceiver) Receive(dst []float32, scale float32, p []byte, fr from) error {
	return r.f.receive(r.Receiver, dst, scale, p, fr)
}

func parse(s string) compress.Family { return compress.Families.MustParse(s) }

var ef21TopK = compress.EF21{In: compress.TopK{Keep: 0.1}}

var feedbackTopK = compress.Feedback{In: compress.TopK{Keep: 0.1}, Decay: 1}

// Each bug was found in a published system or is the one a hurried author makes.
// The suite must catch it, with the check named.
var bugs = []struct {
	name, check string
	f           compress.Family
}{
	{"one byte an element instead of one bit", "size", planted{in: parse("sign"),
		append: func(in codec, b block, dst []byte, g []float32, s step) ([]byte, error) {
			dst, err := in.Append(dst, g, s)
			return append(dst, make([]byte, len(g)-(len(g)+7)/8)...), err
		},
		addTo: func(in codec, b block, dst []float32, scale float32, p []byte, fr from) error {
			return in.AddTo(dst, scale, p[:len(p)-len(dst)+(len(dst)+7)/8], fr)
		}}},
	{"falls back to raw in silence", "raw", planted{in: parse("powersgd(rank=1)"),
		claims: func(c claims) claims { c.Raw = false; return c }}},
	{"is said to compress nothing", "raw", planted{in: parse("bf16"),
		claims: func(c claims) claims { c.Raw = true; return c }}},
	{"hides that it takes matrices", "shaped", planted{in: parse("powersgd(rank=1)"),
		claims: func(c claims) claims { c.Shaped = false; return c }}},
	{"wants matrices for nothing", "shaped", planted{in: parse("sign"),
		claims: func(c claims) claims { c.Shaped = true; return c }}},
	{"shrinks by two per cent", "unbiased", planted{in: parse("qsgd(bits=4)"),
		addTo: func(in codec, _ block, dst []float32, scale float32, p []byte, fr from) error {
			return in.AddTo(dst, 0.98*scale, p, fr)
		}}},
	{"claims a bias to be safe", "unbiased", planted{in: parse("qsgd(bits=8)"),
		claims: func(c claims) claims { c.Unbiased, c.Omega = false, 0; return c }}},
	{"the same draws every step", "streams", planted{in: parse("qsgd(bits=4)"),
		append: func(in codec, _ block, dst []byte, g []float32, s step) ([]byte, error) {
			s.N = 0
			return in.Append(dst, g, s)
		}}},
	{"the same support for every tensor", "streams", planted{in: parse("randomk(keep=0.1)"),
		block: func(b block) block { b.Name = ""; return b }}},
	{"the same draws on every rank", "streams", planted{in: parse("qsgd(bits=4)"),
		block: func(b block) block { b.Rank = 0; return b }}},
	{"keeps half of what it claims", "error", planted{in: parse("topk(keep=0.05)"),
		claims: func(c claims) claims { c.Delta = min(1, 2*c.Delta); return c }}},
	{"indices of 16 bits", "error", planted{in: parse("topk(keep=0.01)"),
		addTo: func(in codec, _ block, dst []float32, scale float32, p []byte, fr from) error {
			wide := make([]float32, len(dst))
			if err := in.AddTo(wide, scale, p, fr); err != nil {
				return err
			}
			for i, v := range wide {
				dst[i&0xffff] += v
			}
			return nil
		}}},
	{"writes before it checks", "hostile", planted{in: parse("bf16"),
		addTo: func(in codec, _ block, dst []float32, scale float32, p []byte, fr from) error {
			if len(dst) > 0 {
				dst[0]++
			}
			if err := in.AddTo(dst, scale, p, fr); err != nil {
				return err
			}
			if len(dst) > 0 {
				dst[0]--
			}
			return nil
		}}},
	{"trusts the length", "hostile", planted{in: parse("raw"),
		addTo: func(_ codec, _ block, dst []float32, scale float32, p []byte, _ from) error {
			for i := range dst {
				dst[i] += scale * math.Float32frombits(binary.LittleEndian.Uint32(p[4*i:]))
			}
			return nil
		}}},
	{"allocates what the payload says", "hostile", planted{in: parse("topk(keep=0.1)"),
		addTo: func(in codec, _ block, dst []float32, scale float32, p []byte, fr from) error {
			if len(p) > 2 {
				hog = make([]byte, int(p[1])<<12)
			}
			return in.AddTo(dst, scale, p, fr)
		}}},
	{"overwrites instead of adding", "pure", planted{in: parse("fp16"),
		addTo: func(in codec, _ block, dst []float32, scale float32, p []byte, fr from) error {
			clear(dst)
			return in.AddTo(dst, scale, p, fr)
		}}},
	{"clips its source in place", "pure", planted{in: parse("qsgd(bits=4)"),
		append: func(in codec, _ block, dst []byte, g []float32, s step) ([]byte, error) {
			for i := range g {
				g[i] = min(g[i], 2)
			}
			return in.Append(dst, g, s)
		}}},
	{"reads past the end of the source", "pure", planted{in: parse("sign"),
		append: func(in codec, _ block, dst []byte, g []float32, s step) ([]byte, error) {
			dst, err := in.Append(dst, g, s)
			if n := len(g); cap(g) > n && n%8 != 0 && g[:n+1][n] > 0 {
				dst[len(dst)-1] ^= 1
			}
			return dst, err
		}}},
	{"takes NaN for zero", "special", planted{in: parse("topk(keep=0.1)"),
		append: func(in codec, _ block, dst []byte, g []float32, s step) ([]byte, error) {
			g = slices.Clone(g)
			for i, v := range g {
				if v != v {
					g[i] = 0
				}
			}
			return in.Append(dst, g, s)
		}}},
	{"divides zero by zero", "zero", planted{in: parse("sign"),
		addTo: func(in codec, _ block, dst []float32, scale float32, p []byte, fr from) error {
			out := make([]float32, len(dst))
			err := in.AddTo(out, 1, p, fr)
			if m := f32.MaxAbs(out); err == nil {
				for i, v := range out {
					dst[i] += scale * (v / m * m)
				}
			}
			return err
		}}},
	{"allocates at every step", "allocations", planted{in: parse("onebit"),
		append: func(in codec, _ block, dst []byte, g []float32, s step) ([]byte, error) {
			p, err := in.Append(nil, g, s)
			return append(dst, p...), err
		}}},
	{"snaps to a fixed grid", "homogeneous", planted{in: parse("topk(keep=0.5)"),
		addTo: func(in codec, _ block, dst []float32, scale float32, p []byte, fr from) error {
			out := make([]float32, len(dst))
			err := in.AddTo(out, 1, p, fr)
			for i, v := range out {
				dst[i] += scale * float32(math.Round(float64(v)*1024)/1024)
			}
			return err
		}}},
	{"decodes by its own rank", "exchange", planted{in: parse("bf16"),
		addTo: func(in codec, b block, dst []float32, scale float32, p []byte, fr from) error {
			return in.AddTo(dst, scale*float32(1+b.Rank), p, fr)
		}}},
	{"lifts the sum twice", "linear", doubled{}},
	{"loses its residual now and then", "feedback", forgetful{feedbackTopK, 10}},
	{"an exchange that keeps its residual to itself", "residual", secretive{feedbackTopK}},
	{"a residual that a restart forgets", "residual", sumOnly{compress.Accumulate{In: feedbackTopK, Every: 4}}},
	{"state that no checkpoint reaches", "state", unsaved{feedbackTopK}},
	{"remembers nothing", "converge", forgetful{compress.Feedback{In: compress.TopK{Keep: 0.1}, Decay: 1}, 1}},
	{"sends the signs alone", "converge", planted{in: parse("sign"),
		append: func(in codec, _ block, dst []byte, g []float32, s step) ([]byte, error) {
			g = slices.Clone(g)
			for i, v := range g {
				g[i] = float32(math.Copysign(1, float64(v)))
			}
			return in.Append(dst, g, s)
		}}},
	{"leaves no room for the sum", "exchange", exchanged{IntSum: compress.IntSum{Bits: 8, Bucket: 64},
		block: func(b block) block { b.Rank, b.World = 0, 1; return b }}},
	{"takes the mean for its own share", "exchange", exchanged{IntSum: compress.IntSum{Bits: 8, Bucket: 64},
		wrap: func(x compress.Exchange, b block) compress.Exchange {
			if b.Rank == 0 {
				return greedy{x}
			}
			return x
		}}},
	{"a round that was not claimed", "exchange", exchanged{IntSum: compress.IntSum{Bits: 8, Bucket: 64},
		wrap: func(x compress.Exchange, _ block) compress.Exchange { return &chatty{Exchange: x} }}},
	{"believes a sum that is no number", "protocol", exchanged{IntSum: compress.IntSum{Bits: 8, Bucket: 64},
		wrap: func(x compress.Exchange, _ block) compress.Exchange { return trusting{x} }}},
	{"remembers that it refused NaN", "protocol", exchanged{IntSum: compress.IntSum{Bits: 8, Bucket: 64},
		wrap: func(x compress.Exchange, _ block) compress.Exchange { return &shaken{Exchange: x} }}},
	{"ranks that end with other bits", "exchange", exchanged{IntSum: compress.IntSum{Bits: 8, Bucket: 64},
		wrap: func(x compress.Exchange, b block) compress.Exchange { return biasedRank{x, b.Rank} }}},
	{"a receiver that forgets", "receiver", parted{compress.EF21{In: compress.TopK{Keep: 0.1}},
		func(r compress.Receiver, dst []float32, scale float32, p []byte, fr from) error {
			if fr.Step%10 == 9 { // answers, and takes nothing in
				kept, _ := r.(compress.Stateful).AppendBinary(nil)
				defer r.(compress.Stateful).UnmarshalBinary(kept)
			}
			return r.Receive(dst, scale, p, fr)
		}}},
	{"a receiver that takes in what it refuses", "receiver", parted{compress.EF21{In: compress.FP16{}},
		func(r compress.Receiver, dst []float32, scale float32, p []byte, fr from) error {
			err := r.Receive(dst, scale, p, fr)
			if err != nil {
				r.Receive(make([]float32, len(dst)), 1, make([]byte, 2*len(dst)), fr)
				if n := 2 * len(dst); len(p) > n {
					r.Receive(make([]float32, len(dst)), 1, p[:n], fr)
				}
			}
			return err
		}}},
}

var hog []byte

func TestPlantedBugs(t *testing.T) {
	for _, bug := range bugs {
		t.Run(bug.name, func(t *testing.T) {
			for _, c := range compresstest.Checks {
				if c.Name != bug.check {
					continue
				}
				err := func() (err error) {
					defer func() {
						if recover() != nil {
							err = nil // the suite itself must survive
						}
					}()
					return c.Run(bug.f)
				}()
				if err == nil {
					t.Fatalf("the check %q does not see it", bug.check)
				}
				t.Logf("%s: %v", bug.check, err)
				return
			}
			t.Fatalf("there is no check %q", bug.check)
		})
	}
	// Without a bug the same wrappers pass everything.
	honest := []compress.Family{
		exchanged{IntSum: compress.IntSum{Bits: 8, Bucket: 64}},
		parted{ef21TopK, func(r compress.Receiver, dst []float32, scale float32, p []byte, fr from) error {
			return r.Receive(dst, scale, p, fr)
		}},
	}
	for _, spec := range []string{"qsgd(bits=4)", "topk(keep=0.1)", "sign", "bf16", "onebit"} {
		honest = append(honest, planted{in: parse(spec)})
	}
	for _, f := range honest {
		for check, err := range compresstest.Failures(f) {
			t.Errorf("%T %+v without a bug fails %q: %v", f, f, check, err)
		}
	}
}

// secretive is feedback whose exchange does not tell its residual.
type secretive struct{ compress.Feedback }

func (f secretive) NewAround(_ compress.Family, b block, inside func(compress.Family) (compress.Exchange, compress.Road, error)) (compress.Exchange, error) {
	x, err := f.Feedback.NewAround(f.Feedback, b, inside)
	if err != nil {
		return nil, err
	}
	return struct {
		compress.Exchange
		compress.Stateful
	}{x, x.(compress.Stateful)}, nil
}

// sumOnly is accumulate that tells of its sum as if it were never sent.
type sumOnly struct{ compress.Accumulate }

func (f sumOnly) New(b block) (codec, error) {
	c, err := f.Accumulate.New(b)
	return &sumOnlyCodec{codec: c, Stateful: c.(compress.Stateful)}, err
}

type sumOnlyCodec struct {
	codec
	compress.Stateful
	sum float64
}

func (c *sumOnlyCodec) Append(dst []byte, g []float32, s step) ([]byte, error) {
	c.sum += float64(len(g))
	return c.codec.Append(dst, g, s)
}

func (c *sumOnlyCodec) ResidualNorm() float64 { return c.sum }
