package train_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// onlyOne is a codec of somebody else's that sends the largest value alone, and keeps the
// others for later. It claims whatever it is told.
type onlyOne struct {
	claims *compress.Claims // nil: it makes none of its own
}

func (f onlyOne) New(b compress.Block) (compress.Codec, error) {
	return &onlyOneCodec{residual: make([]float32, b.Len())}, nil
}

// claiming is onlyOne with claims.
type claiming struct{ onlyOne }

func (f claiming) Claims(b compress.Block) compress.Claims {
	c := *f.claims
	c.Size, c.Exact = 8*min(1, b.Len()), true
	return c
}

type onlyOneCodec struct{ residual []float32 }

func (c *onlyOneCodec) Append(dst []byte, g []float32, _ compress.Step) ([]byte, error) {
	at := 0
	for i, v := range g {
		if c.residual[i] += v; v-v != 0 {
			return dst, compress.ErrNotFinite
		}
		if math.Abs(float64(c.residual[i])) > math.Abs(float64(c.residual[at])) {
			at = i
		}
	}
	if len(g) == 0 {
		return dst, nil
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(at))
	dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(c.residual[at]))
	c.residual[at] = 0
	return dst, nil
}

func (c *onlyOneCodec) AddTo(dst []float32, scale float32, p []byte, _ compress.From) error {
	if len(p) == 0 && len(dst) == 0 {
		return nil
	}
	if len(p) != 8 || binary.LittleEndian.Uint32(p) >= uint32(len(dst)) {
		return compress.Corruptf("%d bytes", len(p))
	}
	dst[binary.LittleEndian.Uint32(p)] += scale * math.Float32frombits(binary.LittleEndian.Uint32(p[4:]))
	return nil
}

// wrapping is a wrapper of somebody else's: its option holds a codec that it does not
// list, its field hides one.
type wrapping struct {
	In     compress.Family
	hidden compress.Family
}

func (f wrapping) New(b compress.Block) (compress.Codec, error) {
	if f.hidden != nil {
		return f.hidden.New(b)
	}
	return f.In.New(b)
}

// halves is a cast of somebody else's: the upper half of every value.
type halves struct{ cast bool }

func (f halves) Claims(b compress.Block) compress.Claims {
	return compress.Claims{Size: 2 * b.Len(), Exact: true, Cast: f.cast, Delta: 1 - 0x1p-14, Homogeneous: true}
}

func (f halves) New(compress.Block) (compress.Codec, error) { return f, nil }

func (halves) Append(dst []byte, g []float32, _ compress.Step) ([]byte, error) {
	for _, v := range g {
		if v-v != 0 {
			return dst, compress.ErrNotFinite
		}
		dst = binary.LittleEndian.AppendUint16(dst, uint16(math.Float32bits(v)>>16))
	}
	return dst, nil
}

func (halves) AddTo(dst []float32, scale float32, p []byte, _ compress.From) error {
	if len(p) != 2*len(dst) {
		return compress.Corruptf("%d bytes", len(p))
	}
	for i := range dst {
		dst[i] += scale * math.Float32frombits(uint32(binary.LittleEndian.Uint16(p[2*i:]))<<16)
	}
	return nil
}

func downFamily(f compress.Family) option { return func(j *train.Job) { j.DownCodec = f } }
func upFamily(f compress.Family) option   { return func(j *train.Job) { j.Codec = f } }

// Codecs of somebody else's that keep what they leave out are refused where that would
// come back twice, whatever they say, and taken everywhere else. Taken as down_codec,
// one made the loss grow from 358 to 5.7e19, and NaN at step 47.
func TestMemoriesOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	honest := claiming{onlyOne{&compress.Claims{Stateful: true, Remembers: true}}}
	for name, f := range map[string]compress.Family{
		"claims it": honest, "claims nothing": onlyOne{}, "claims other things": claiming{onlyOne{&compress.Claims{Stateful: true}}},
		"claims a cast":             claiming{onlyOne{&compress.Claims{Cast: true}}},
		"inside feedback":           compress.Feedback{In: claiming{onlyOne{&compress.Claims{Delta: 1e-9, Stateful: true}}}, Decay: 1},
		"inside a wrapper":          wrapping{In: onlyOne{}},
		"hidden in a wrapper":       wrapping{In: compress.Raw{}, hidden: onlyOne{}},
		"in a wrapper for some":     compress.BySize{Large: onlyOne{}, Small: compress.Raw{}, Limit: 1 << 20},
		"in an honest one's option": wrapping{In: honest},
		"permitted inside alone":    compress.Accumulate{In: compress.Feedback{In: compress.TopK{Keep: 0.1}, Decay: 1, Unchecked: true}, Every: 2},
	} {
		for where, opts := range map[string][]option{
			"down_codec of server": {downFamily(f)},
			"codec of choco":       {mode("choco"), graph("ring"), upFamily(f)},
			"codec of easgd":       {mode("easgd(tau=2)"), optimizer("sgd"), upFamily(f)},
			"down_codec of easgd":  {mode("easgd(tau=2)"), optimizer("sgd"), downFamily(f)},
			"beside gap":           {policy("asp"), func(j *train.Job) { j.Gap = true }, downFamily(f)},
			"beside dcasgd":        {policy("asp"), corrector("dcasgd"), optimizer("sgd"), downFamily(f)},
		} {
			if err := unchecked(opts...).Check(); err == nil || !strings.Contains(err.Error(), "without memory") {
				t.Errorf("%s, %s: %v, want a refusal for its memory", where, name, err)
			}
		}
		for want, opts := range map[string][]option{
			"mode downpour takes":             {mode("downpour"), policy("asp"), downFamily(f)},
			"mode rudra(tree=4) takes":        {mode("rudra"), downFamily(f)},
			"mode sandblaster takes":          {mode("sandblaster"), optimizer("sgd"), downFamily(f)},
			"averages parameters":             {mode("dpsgd"), graph("ring"), upFamily(f)},
			"sends nothing that a codec":      {mode("hogwild"), upFamily(f)},
			"encodes parameters on their way": {mode("reduce"), downFamily(f)},
		} {
			if err := unchecked(opts...).Check(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want …%s…", name, err, want)
			}
		}
		for where, opts := range map[string][]option{
			"server": {upFamily(f)}, "reduce": {mode("reduce"), upFamily(f)}, "gather": {mode("gather"), upFamily(f)}, "localsgd": {mode("localsgd"), upFamily(f)},
		} {
			if err := unchecked(opts...).Check(); err != nil {
				t.Errorf("codec of %s, %s: %v", where, name, err)
			}
		}
	}
}

// A cast of somebody else's is one everywhere; without the claim it is sent as
// differences where these will do.
func TestCastsOfOthers(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]option{
		"downpour": {mode("downpour"), policy("asp")}, "rudra": {mode("rudra")}, "sandblaster": {mode("sandblaster"), optimizer("sgd")},
		"gap": {policy("asp"), func(j *train.Job) { j.Gap = true }}, "dcasgd": {policy("asp"), corrector("dcasgd"), optimizer("sgd")},
	} {
		if err := unchecked(append(opts, downFamily(halves{cast: true}))...).Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := unchecked(append(opts, downFamily(halves{}))...).Check(); err == nil {
			t.Errorf("%s takes what does not claim to be a cast", name)
		}
	}
	for _, f := range []compress.Family{halves{cast: true}, halves{}, compress.BySize{Large: halves{}, Small: compress.Raw{}, Limit: 10}} {
		if err := unchecked(downFamily(f)).Check(); err != nil {
			t.Errorf("%+v as down_codec: %v", f, err)
		}
	}
	if err := unchecked(mode("dpsgd"), graph("ring"), upFamily(halves{cast: true})).Check(); err != nil {
		t.Error(err)
	}
}

// ball is heavy-ball momentum of somebody else's, whose only slot is called buf. It
// claims what it is told.
type ball struct{ claim bool }

func (o ball) Momentous() bool { return o.claim }

func (o ball) New(l sgd.Layout) (sgd.Transform, error) {
	return &ballState{buf: make([]float32, l.Size())}, nil
}

type ballState struct{ buf []float32 }

func (b *ballState) Apply(u, _ []float32, s sgd.Step) {
	for i, g := range u {
		b.buf[i] = 0.9*b.buf[i] + g
		u[i] = float32(s.LR) * b.buf[i]
	}
}

func (b *ballState) Slots() []sgd.Slot { return []sgd.Slot{{Name: "buf", V: b.buf}} }

// An optimizer of somebody else's with a momentum is refused beside correctors that bring
// one, whatever it says: with corrector dana the parameters were NaN at step 65.
func TestMomentaOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []sgd.Optimizer{ball{true}, ball{false}, sgd.Chain{Parts: []sgd.Optimizer{sgd.Decay{Rate: 1e-4}, ball{false}}},
		sgd.Groups{Parts: []sgd.Optimizer{sgd.On{Rule: ball{false}, Roles: []string{"bias"}, LR: 1}, sgd.Plain{}}}} {
		for _, c := range []string{"dana", "dana_slim", "dana_dc", "multi_asgd", "implicit"} {
			err := unchecked(policy("asp"), corrector(c), func(j *train.Job) { j.Optimizer = o }).Check()
			if err == nil || !strings.Contains(err.Error(), "its own momentum") {
				t.Errorf("%s beside %+v: %v", c, o, err)
			}
		}
		for _, c := range []string{"none", "dcasgd", "gap_aware"} {
			if err := unchecked(policy("asp"), corrector(c), func(j *train.Job) { j.Optimizer = o }).Check(); err != nil {
				t.Errorf("%s beside %+v: %v", c, o, err)
			}
		}
	}
	for _, o := range []string{"sgd", "adagrad", "momentum(beta=0)", "chain(clipvalue,sgd)"} {
		if err := unchecked(policy("asp"), corrector("dana"), optimizer(o)).Check(); err != nil {
			t.Errorf("dana beside %s: %v", o, err)
		}
	}
}

// bare is plain descent of somebody else's. It claims what it is told.
type bare struct{ claim bool }

func (o bare) Bare() bool                            { return o.claim }
func (bare) New(l sgd.Layout) (sgd.Transform, error) { return sgd.Plain{}.New(l) }

// A mode with a rule of its own takes plain descent, whoever wrote it, and nothing else.
func TestPlainDescentIsClaimed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o     sgd.Optimizer
		taken bool
	}{
		"claimed":      {bare{true}, true},
		"not claimed":  {bare{false}, false},
		"beta=0":       {sgd.Momentum{}, true},
		"with a decay": {sgd.Chain{Parts: []sgd.Optimizer{sgd.Decay{Rate: 1e-4}, sgd.Plain{}}}, false},
	} {
		err := unchecked(mode("sandblaster"), optimizer("sgd"), func(j *train.Job) { j.Optimizer = c.o }).Check()
		if (err == nil) != c.taken || err != nil && !strings.Contains(err.Error(), "set optimizer=sgd") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
