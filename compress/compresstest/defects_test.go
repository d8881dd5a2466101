package compresstest_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/compress/compresstest"
	"github.com/gradlab/gradlab/internal/rng"
)

// double is a codec that is worse than it looks: good bytes, then as many again
// that nobody needs.
func double(in string, extra func(d int) int) compress.Family {
	return planted{in: parse(in),
		append: func(in codec, _ block, dst []byte, g []float32, s step) ([]byte, error) {
			dst, err := in.Append(dst, g, s)
			return append(dst, make([]byte, extra(len(g)))...), err
		},
		addTo: func(in codec, _ block, dst []float32, scale float32, p []byte, fr from) error {
			return in.AddTo(dst, scale, p[:max(0, len(p)-extra(len(dst)))], fr)
		}}
}

// replacing draws its support with replacement and sends it unscaled.
type replacing struct{ compress.RandomK }

func (f replacing) Claims(b block) claims {
	c := f.RandomK.Claims(b)
	c.Linear = compress.NotLinear
	return c
}

func (f replacing) New(b block) (codec, error) {
	d := b.Len()
	return replacingCodec{d, min(d, max(1, int(math.Ceil(f.Keep*float64(d))))), rng.New(b.Seed, b.Name).With(uint64(b.Dir))}, nil
}

type replacingCodec struct {
	d, k int
	key  rng.Key
}

func (c replacingCodec) Append(dst []byte, g []float32, s step) ([]byte, error) {
	for j := range c.k {
		v := g[c.key.With(uint64(s.N)).IntN(uint64(j), c.d)]
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
	}
	return dst, nil
}

func (c replacingCodec) AddTo(dst []float32, scale float32, p []byte, fr from) error {
	seen := map[int]bool{}
	for j := range c.k {
		i := c.key.With(uint64(fr.Step)).IntN(uint64(j), c.d)
		if !seen[i] {
			dst[i] += scale * math.Float32frombits(binary.LittleEndian.Uint32(p[4*j:]))
		}
		seen[i] = true
	}
	return nil
}

// normMatched is sign with the scale ‖g‖₂/√d, and the claims of the mean.
func normMatched() compress.Family {
	return planted{in: parse("sign"),
		append: func(in codec, _ block, dst []byte, g []float32, s step) ([]byte, error) {
			at := len(dst)
			dst, err := in.Append(dst, g, s)
			square := 0.0
			for _, v := range g {
				square += float64(v) * float64(v)
			}
			if err == nil && len(g) > 0 {
				binary.LittleEndian.PutUint32(dst[at:], math.Float32bits(float32(math.Sqrt(square/float64(len(g))))))
			}
			return dst, err
		}}
}

// remembering decodes a momentum of what it has decoded before.
func remembering() compress.Family {
	last := map[int]float32{}
	return planted{in: parse("topk(keep=0.5)"),
		addTo: func(in codec, _ block, dst []float32, scale float32, p []byte, fr from) error {
			out := make([]float32, len(dst))
			if err := in.AddTo(out, 1, p, fr); err != nil {
				return err
			}
			for i, v := range out {
				last[i] = v + 0.1*last[i]
				dst[i] += scale * last[i]
			}
			return nil
		}}
}

// Every defect that reading other systems turned up, rebuilt, and the check that
// must see it. Where a defect is one of our planted bugs too, it stands in both
// lists: this one is the record of what was found where.
func TestDefectsOfOtherSystems(t *testing.T) {
	bytesNotBits := func(d int) int { return d - (d+7)/8 }
	for _, c := range []struct {
		name, check string
		f           compress.Family
	}{
		{"GRACE: a byte an element for signs", "size", double("sign", bytesNotBits)},
		{"GRACE: a byte an element for trits", "size", double("terngrad(clip=0,bucket=64)", func(d int) int { return d - (d+4)/5 })},
		{"GRACE: two bytes an element for 8-bit levels", "size", double("qsgd(bits=8)", func(d int) int { return d })},
		{"GRACE: zero divided by zero", "zero", planted{in: parse("qsgd(bits=4,norm=l2)"),
			addTo: func(in codec, _ block, dst []float32, scale float32, p []byte, fr from) error {
				out := make([]float32, len(dst))
				if err := in.AddTo(out, 1, p, fr); err != nil {
					return err
				}
				var norm float32
				for _, v := range out {
					norm = max(norm, v, -v)
				}
				for i, v := range out {
					dst[i] += scale * (v / norm * norm)
				}
				return nil
			}}},
		{"GRACE: feedback whose first step has another scale", "feedback", scaledFirst{feedbackTopK}},
		{"GRACE: decoding moves a momentum", "pure", remembering()},
		{"GRACE: random entries unscaled, called unbiased", "unbiased", planted{in: parse("randomk(keep=0.5)"),
			claims: func(c claims) claims { c.Unbiased, c.Omega = true, 1; return c }}},
		{"GRACE: one seed for tensors whose names have the same letters", "streams", planted{in: parse("randomk(keep=0.1)"),
			block: func(b block) block { b.Name = ""; return b }}},
		{"GRACE: exponents clamped at 2^18", "homogeneous", planted{in: parse("natural"),
			append: func(in codec, _ block, dst []byte, g []float32, s step) ([]byte, error) {
				g = slices.Clone(g)
				for i, v := range g {
					g[i] = max(-0x1p18, min(0x1p18, v))
				}
				return in.Append(dst, g, s)
			}}},
		{"GRACE: NaN becomes 2^18", "special", planted{in: parse("natural"),
			append: func(in codec, _ block, dst []byte, g []float32, s step) ([]byte, error) {
				g = slices.Clone(g)
				for i, v := range g {
					if !(v >= -0x1p18 && v <= 0x1p18) {
						g[i] = 0x1p18
					}
				}
				return in.Append(dst, g, s)
			}}},
		{"BytePS: reads behind the source to fill a word", "pure", planted{in: parse("sign"),
			append: func(in codec, _ block, dst []byte, g []float32, s step) ([]byte, error) {
				dst, err := in.Append(dst, g, s)
				if n := len(g); cap(g) > n && n%8 != 0 && math.Signbit(float64(g[:n+1][n])) == false {
					dst[len(dst)-1] ^= 0x80
				}
				return dst, err
			}}},
		{"BytePS: indices as wide as values", "error", planted{in: parse("topk(keep=0.01,values=fp16)"),
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
		{"BytePS: random entries drawn with replacement", "error", replacing{compress.RandomK{Keep: 0.5}}},
		{"BytePS: a length in sixteen bits", "lossless", planted{in: parse("raw"),
			addTo: func(in codec, _ block, dst []float32, scale float32, p []byte, fr from) error {
				wide := make([]float32, len(dst))
				err := in.AddTo(wide, scale, p, fr)
				for i := range wide[:len(wide)&0xffff] {
					dst[i] += wide[i]
				}
				return err
			}}},
		{"MXNet: decodes to ±1 whatever the scale", "homogeneous", planted{in: parse("sign(scale=none)"),
			claims: func(c claims) claims { c.Homogeneous = true; return c }}},
		{"DeepSpeed: a norm-matched scale is no contraction", "error", normMatched()},
		{"PyTorch: a whole bucket of padding", "size", double("qsgd(bits=8,bucket=64)", func(d int) int {
			if d > 0 && d%64 == 0 {
				return 64
			}
			return 0
		})},
		{"Templar: two-bit values in a byte each", "size", double("sparseloco(keep=0.1,chunk=64)", func(d int) int {
			k := d/64*7 + (d%64+9)/10
			return k - (2*k+7)/8
		})},
		{"DeMo: what is decoded depends on the device", "exchange", planted{in: parse("dct(topk(keep=0.1),side=8)"),
			addTo: func(in codec, b block, dst []float32, scale float32, p []byte, fr from) error {
				return in.AddTo(dst, scale*(1+float32(b.Rank)*0x1p-23), p, fr)
			}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := slices.IndexFunc(compresstest.Checks, func(k compresstest.Check) bool { return k.Name == c.check })
			err := func() (err error) {
				defer func() {
					if p := recover(); p != nil {
						t.Fatalf("the suite panics: %v", p)
					}
				}()
				return compresstest.Checks[i].Run(c.f)
			}()
			if err == nil {
				t.Fatalf("the check %q does not see it", c.check)
			}
			t.Logf("%s: %v", c.check, err)
		})
	}
}

// scaledFirst is feedback that takes its first gradient times a rate.
type scaledFirst struct{ compress.Feedback }

func (f scaledFirst) New(b block) (codec, error) {
	c, err := f.Feedback.New(b)
	return scaledFirstCodec{c, c.(compress.Residualer)}, err
}

type scaledFirstCodec struct {
	codec
	compress.Residualer
}

func (c scaledFirstCodec) Append(dst []byte, g []float32, s step) ([]byte, error) {
	if s.N > 0 {
		return c.codec.Append(dst, g, s)
	}
	g = slices.Clone(g)
	for i := range g {
		g[i] *= 0.1
	}
	return c.codec.Append(dst, g, s)
}

// GRACE draws PowerSGD's factor anew each step, which gives its warm start away:
// on one matrix, step after step, the approximation must get better, down to what
// no factors of that rank can do.
func TestDefectWarmStart(t *testing.T) {
	b := block{Name: "w", Rows: 32, Cols: 32, World: 1, Peer: -1, Seed: 1}
	g := compresstest.Vector("gaussian", b.Len(), 0)
	for i := range g { // a spectrum that falls slowly
		g[i] *= float32(math.Pow(0.9, float64(i/b.Cols)))
	}
	c, err := compress.PowerSGD{Rank: 4, Gain: 1}.New(b)
	if err != nil {
		t.Fatal(err)
	}
	var errs []float64
	for n := range 12 {
		p, err := c.Append(nil, g, step{N: n})
		if err != nil {
			t.Fatal(err)
		}
		out := slices.Clone(g)
		if err := c.AddTo(out, -1, p, from{Step: n}); err != nil {
			t.Fatal(err)
		}
		s := 0.0
		for _, v := range out {
			s += float64(v) * float64(v)
		}
		errs = append(errs, s)
	}
	if !(errs[11] < 0.9*errs[0]) || slices.ContainsFunc(errs[1:], func(e float64) bool { return e > errs[0] }) {
		t.Errorf("squared errors over the steps: %.4g", errs)
	}
}

// GRACE makes a matrix of a kernel by its first dimension, which may be 3: here
// the shape is the block's, and the size follows from it alone.
func TestDefectMatrixShape(t *testing.T) {
	for _, b := range []block{{Rows: 3, Cols: 3 * 64 * 64}, {Rows: 64, Cols: 9 * 64}, {Rows: 9 * 64, Cols: 64}} {
		f := compress.PowerSGD{Rank: 1, Gain: 1}
		if c, _ := compress.ClaimsOf(f, b); c.Size != 4*(b.Rows+b.Cols) {
			t.Errorf("%d×%d: %d bytes, want %d", b.Rows, b.Cols, c.Size, 4*(b.Rows+b.Cols))
		}
	}
}

// GRACE hangs where a threshold selects nothing, BytePS aborts where k is more
// than half.
func TestDefectNothingAndEverything(t *testing.T) {
	for _, spec := range []string{"threshold(tau=1e30)", "strom(tau=1e30)", "feedback(threshold(tau=1e30))", "topk(keep=1)", "topk(keep=0.51)", "randomk(keep=1)"} {
		if err := compresstest.Checks[slices.IndexFunc(compresstest.Checks, func(k compresstest.Check) bool { return k.Name == "exchange" })].Run(parse(spec)); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
	}
	c, err := parse("threshold(tau=1e30)").New(block{Rows: 1, Cols: 10, World: 1, Peer: -1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Append(nil, compresstest.Vector("gaussian", 10, 0), step{})
	if err != nil || !bytes.Equal(p, []byte{0}) {
		t.Errorf("no hits travel as %x (%v), want one zero byte", p, err)
	}
}
