package compresstest_test

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/compress"
)

// keeping is topk of somebody else's, with a residual that it claims, or does not.
type keeping struct {
	Keep      float64
	Remembers bool
	From      int // step from which on it keeps anything
}

func (f keeping) Claims(b block) claims {
	in := compress.TopK{Keep: f.Keep}.Claims(b)
	return claims{Size: in.Size, Exact: in.Exact, Stateful: true, Remembers: f.Remembers}
}

func (f keeping) New(b block) (codec, error) {
	in, err := compress.Feedback{In: compress.TopK{Keep: f.Keep}, Decay: 1}.New(b)
	return struct {
		keepingCodec
		compress.Stateful
	}{keepingCodec{in}, in.(compress.Stateful)}, err
}

type keepingCodec struct{ in codec }

func (c keepingCodec) Append(dst []byte, g []float32, s step) ([]byte, error) {
	return c.in.Append(dst, g, s)
}

func (c keepingCodec) AddTo(dst []float32, scale float32, p []byte, fr from) error {
	return c.in.AddTo(dst, scale, p, fr)
}

// pretending claims something of what it holds that is not so.
type pretending struct {
	compress.Family
	change func(*claims)
}

func (f pretending) Claims(b block) claims {
	c, _ := compress.ClaimsOf(f.Family, b)
	f.change(&c)
	return c
}

func pretend(spec string, change func(*claims)) compress.Family {
	return pretending{parse(spec), change}
}

// scaled sends values as fp16 of a share of the largest, whose exponent lies in the
// bytes of all of them: four bytes for each value, and none alone.
type scaled struct{}

func (scaled) Claims(b block) claims {
	return claims{Size: 4 * b.Len(), Exact: true, Cast: true, Homogeneous: true, Delta: 1 - 0x1p-16}
}

func (scaled) New(b block) (codec, error) { return scaledCodec{}, nil }

type scaledCodec struct{}

func (scaledCodec) Append(dst []byte, g []float32, _ step) ([]byte, error) {
	most := 0.
	for _, v := range g {
		most = max(most, math.Abs(float64(v)))
	}
	_, exp := math.Frexp(most)
	for _, v := range g {
		q := int16(math.Round(math.Ldexp(float64(v), 14-exp)))
		dst = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(dst, uint16(q)), uint16(int16(exp)))
	}
	return dst, nil
}

func (scaledCodec) AddTo(dst []float32, scale float32, p []byte, _ from) error {
	for i := range dst {
		q, exp := int16(binary.LittleEndian.Uint16(p[4*i:])), int16(binary.LittleEndian.Uint16(p[4*i+2:]))
		dst[i] += scale * float32(math.Ldexp(float64(q), int(exp)-14))
	}
	return nil
}

// swapped is raw with the bytes of a value the other way round, from a step on.
func swapped(since int) compress.Family {
	turn := func(p []byte) []byte {
		p = slices.Clone(p)
		for i := 0; i < len(p); i += 4 {
			slices.Reverse(p[i : i+4])
		}
		return p
	}
	return planted{in: parse("raw"),
		append: func(in codec, _ block, dst []byte, g []float32, s step) ([]byte, error) {
			p, err := in.Append(nil, g, s)
			if s.N >= since {
				p = turn(p)
			}
			return append(dst, p...), err
		},
		addTo: func(in codec, _ block, dst []float32, scale float32, p []byte, fr from) error {
			if fr.Step >= since {
				p = turn(p)
			}
			return in.AddTo(dst, scale, p, fr)
		}}
}

// shrinking sends its payload twice up to an epoch.
type shrinking struct {
	compress.TopK
	until   float64
	warmsUp bool
}

func (f shrinking) Claims(b block) claims {
	c := f.TopK.Claims(b)
	return claims{Size: 2 * c.Size, WarmsUp: f.warmsUp}
}

func (f shrinking) New(b block) (codec, error) {
	in, err := f.TopK.New(b)
	return shrinkingCodec{in, f.until, f.TopK.Claims(b).Size}, err
}

type shrinkingCodec struct {
	in    codec
	until float64
	size  int
}

func (c shrinkingCodec) Append(dst []byte, g []float32, s step) ([]byte, error) {
	at := len(dst)
	dst, err := c.in.Append(dst, g, s)
	if s.Epoch < c.until {
		dst = append(dst, dst[at:]...)
	}
	return dst, err
}

func (c shrinkingCodec) AddTo(dst []float32, scale float32, p []byte, fr from) error {
	return c.in.AddTo(dst, scale, p[:min(len(p), c.size)], fr)
}

// halving claims of cltk's sums what it is told.
type halving struct {
	compress.CLTK
	claimed bool
}

func (f halving) Claims(b block) claims {
	c := f.CLTK.Claims(b)
	c.HalfSums = f.claimed
	return c
}

// holding is a wrapper that lists nothing, part or all of what it holds.
type holding struct {
	In    compress.Family
	Other []compress.Family
	shows int
}

func (f holding) New(b block) (codec, error) { return f.In.New(b) }

func (f holding) Inner() []compress.Family {
	return append([]compress.Family{f.In}, f.Other...)[:f.shows]
}

// hiding is a wrapper that has no Inner at all, and one that hands blocks on.
type hiding struct{ In compress.Family }

func (f hiding) New(b block) (codec, error)         { return f.In.New(b) }
func (f hiding) Choose(b block) compress.Family     { return f.In }
func (f hiding) Claims(b block) (c compress.Claims) { c, _ = compress.ClaimsOf(f.In, b); return c }

// choosy wants long blocks.
type choosy struct{ keeping }

func (f choosy) New(b block) (codec, error) {
	if b.Len() < 5000 {
		return nil, errors.New("too short")
	}
	return f.keeping.New(b)
}

// Every trait is proved both ways: who claims more than it shows fails, and so does who
// claims less.
func TestTraitsAreProved(t *testing.T) {
	two := []compress.Family{parse("sign"), parse("fp16")}
	for _, c := range []struct {
		check string
		f     compress.Family
		want  string // "" passes
	}{
		{"memory", keeping{Keep: 0.1}, "claim Remembers"},
		{"memory", keeping{Keep: 0.1, Remembers: true}, ""},
		{"memory", keeping{Keep: 1, Remembers: true}, "drop Remembers"},
		{"memory", pretend("powersgd(rank=2)", func(c *claims) { c.Remembers = true }), "drop Remembers"},
		{"memory", pretend("topk(keep=0.1)", func(c *claims) { c.Remembers = true }), "no state"},
		{"memory", pretend("ef21(topk(keep=0.1))", func(c *claims) { c.Remembers = true }), "drop Remembers"},
		{"memory", pretend("strom(tau=100)", func(c *claims) { c.Remembers = false }), "claim Remembers"},
		{"memory", pretend("dgc(keep=0.05)", func(c *claims) { c.Remembers = false }), "claim Remembers"},
		{"memory", pretend("accumulate(powersgd(rank=1),every=5)", func(c *claims) { c.Remembers = false }), "claim Remembers"},
		{"memory", parse("strom(tau=1e6)"), ""},
		{"memory", parse("strom(tau=1e-7)"), ""},
		{"memory", parse("accumulate(raw,every=1)"), ""},
		{"memory", parse("accumulate(raw,every=100)"), ""},
		{"memory", parse("dgc(keep=1,warmup=0)"), ""},
		{"cast", scaled{}, "drop Cast"},
		{"cast", pretend("qsgd(bits=8)", func(c *claims) { c.Cast = true }), "drop Cast"},
		{"cast", pretend("natural", func(c *claims) { c.Cast = true }), "drop Cast"},
		{"cast", pretend("feedback(bf16)", func(c *claims) { c.Cast = true }), "a state"},
		{"cast", pretend("entropy(fp16)", func(c *claims) { c.Cast = true }), "drop Cast"},
		{"cast", pretend("bf16", func(c *claims) { c.Cast = false }), "claim Cast"},
		{"cast", pretend("bysize(raw,topk)", func(c *claims) { c.Cast = false }), ""},
		{"cast", pretend("bysize(raw,fp16)", func(c *claims) { c.Cast = false }), "claim Cast"},
		{"cast", parse("contraction(bf16(stochastic=true))"), ""},
		{"raw", swapped(0), "claimed: true"},
		{"raw", swapped(2), "other bytes than the values at step 2"},
		{"warmup", shrinking{compress.TopK{Keep: 0.1}, 4, false}, "claim WarmsUp"},
		{"warmup", shrinking{compress.TopK{Keep: 0.1}, 1e6, false}, "claim WarmsUp"},
		{"warmup", shrinking{compress.TopK{Keep: 0.1}, 1e6, true}, ""},
		{"warmup", shrinking{compress.TopK{Keep: 0.1}, 0, true}, "drop WarmsUp"},
		{"warmup", pretend("scatter(dgc(keep=0.01))", func(c *claims) { c.WarmsUp = false }), "claim WarmsUp"},
		{"warmup", parse("dgc(keep=0.95,warmup=5,unit=steps)"), ""},
		{"sums", halving{compress.CLTK{Keep: 0.1}, true}, "claims: true"},
		{"sums", halving{compress.CLTK{Keep: 0.1, Values: "bf16"}, false}, "claims: false"},
		{"sums", pretend("bf16", func(c *claims) {}), ""}, // it hides that it is linear: payloads are gathered
		{"inner", holding{parse("sign"), two, 0}, "Inner does not list"},
		{"inner", holding{parse("sign"), two, 2}, "Inner does not list"},
		{"inner", holding{parse("sign"), two, 3}, ""},
		{"inner", hiding{parse("sign")}, "Inner does not list"},
		{"inner", pretending{parse("sign"), nil}, ""}, // what it embeds is itself
	} {
		err := checkNamed(t, c.check)(c.f)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %T %+v: %v, want …%s…", c.check, c.f, c.f, err, c.want)
		}
	}
}

// What an engine asks before a run is asked through wrappers that hide what they hold,
// and finds what nobody claims.
func TestProbesSeeThroughWrappers(t *testing.T) {
	for _, f := range []compress.Family{keeping{Keep: 0.1}, hiding{keeping{Keep: 0.1}}, holding{In: parse("raw"), Other: []compress.Family{keeping{Keep: 0.1}}},
		pretend("feedback(topk)", func(c *claims) { c.Remembers = false })} {
		if compress.FeedsBack(f) && !compress.Remembers(f) || !compress.ShowsMemory(f) {
			t.Errorf("%T %+v: its memory is not seen", f, f)
		}
		if compress.Casts(f) || compress.Plain(f) {
			t.Errorf("%T %+v is taken for a cast", f, f)
		}
	}
	if !compress.ShowsMemory(choosy{keeping{Keep: 0.1}}) {
		t.Error("the memory of a codec that refuses small blocks is not seen")
	}
	for spec, want := range map[string]bool{
		"feedback(topk)": true, "feedback(topk,unchecked=true)": false, "accumulate(feedback(topk,unchecked=true),every=2)": true,
		"entropy(feedback(topk,unchecked=true))": false, "bysize(feedback(topk,unchecked=true),dgc)": true, "bysize(raw,entropy(strom))": true,
		"topk": false, "powersgd": false, "ef21(topk)": false, "feedback(raw)": false, "accumulate(raw,every=1)": false,
	} {
		if got := compress.FeedsBack(parse(spec)); got != want {
			t.Errorf("%s feeds back: %t, want %t", spec, got, want)
		}
	}
	for _, f := range []compress.Family{hiding{compress.EF21{In: compress.TopK{Keep: 0.1}}}, hiding{parse("bysize(raw,ef21(topk),limit=1)")}} {
		if _, err := compress.NewReceiver(f, compress.Block{Name: "x", Rows: 1, Cols: 9, World: 2, Peer: -1}); err == nil || !strings.Contains(err.Error(), "cannot stand inside") {
			t.Errorf("%+v: %v", f, err)
		}
		if _, _, err := compress.NewExchange(f, compress.Block{Name: "x", Rows: 1, Cols: 9, World: 2, Peer: -1}); err == nil || !strings.Contains(err.Error(), "cannot stand inside") {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if !compress.ShowsCast(parse("byrole(bf16,raw,fp16)")) || compress.ShowsCast(scaled{}) || compress.ShowsCast(hiding{scaled{}}) {
		t.Error("casts are not told from others")
	}
}
