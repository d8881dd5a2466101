package sgd_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/sgdtest"
)

func TestOptimizers(t *testing.T) { sgdtest.Optimizers(t) }

// A model of a million values and one that no cache holds, beside copying and
// adding vectors of that length.
func BenchmarkOptimizers(b *testing.B) {
	for _, n := range []int{1 << 20, 25 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x, y := make([]float32, n), make([]float32, n)
			f32.Fill(x, 1) // or reads would find the page of zeros
			b.Run("copy", func(b *testing.B) {
				b.SetBytes(int64(8 * n))
				for b.Loop() {
					copy(y, x)
				}
			})
			b.Run("axpy", func(b *testing.B) {
				b.SetBytes(int64(12 * n))
				for b.Loop() {
					f32.Axpy(y, 0.5, x)
				}
			})
			sgdtest.BenchmarkOptimizers(b, n)
		})
	}
}

// The suite sees defaults only; these are the branches they miss.
func TestOptimizerOptions(t *testing.T) {
	for _, text := range []string{
		"momentum(beta=-0.3)",
		"adagrad(eps=0,initial=0.1)",
		"rmsprop(eps=1,momentum=0.9)",
		"adam(beta1=0)",
		"chain(decay(rate=0.001,momentum=0.9),sgd)",
		"chain(decay(rate=0.001,all=true),clipvalue(limit=0.5),chain(decay,adam(beta1=0.5)))",
		"chain(clip(norm=0.5),decay,nesterov)",
	} {
		t.Run(text, func(t *testing.T) { sgdtest.Optimizer(t, sgd.Optimizers.MustParse(text)) })
	}
}

// one is a layout of n weights.
func one(n int) sgd.Layout {
	var l sgd.Layout
	l.Add("w", sgd.Weight, 1, n)
	return l
}

// A number worked out by hand, so that test and code cannot share a mistake:
// the first Adam step is lr·g/(|g|+eps), the first Adagrad step lr·sign(g).
func TestFirstSteps(t *testing.T) {
	for text, want := range map[string]float32{
		"sgd":                           0.25,                // 0.5·0.5
		"nesterov":                      0.475,               // 0.5·(0.5+0.9·0.5)
		"adagrad":                       0.5,                 // 0.5·1
		"adam":                          0.5,                 // 0.5·0.5/0.5
		"rmsprop":                       1.5811388,           // 0.5·1/√0.1
		"rmsprop(eps=1)":                0.25 / 1.0124228366, // 0.25/√(1+0.1·0.25)
		"chain(clip(norm=0.1),sgd)":     0.05,
		"chain(clipvalue(limit=2),sgd)": 0.25,
	} {
		tr, err := sgd.Optimizers.MustParse(text).New(one(1))
		if err != nil {
			t.Fatal(err)
		}
		u := []float32{0.5}
		tr.Apply(u, []float32{3}, sgd.Step{LR: 0.5})
		if math.Abs(float64(u[0]-want)) > 1e-6 {
			t.Errorf("%s: first step %v, want %v", text, u[0], want)
		}
	}
}

func TestDecayRoles(t *testing.T) {
	l := sgdtest.Layout()
	for text, roles := range map[string][]sgd.Role{
		"chain(decay(rate=0.5),sgd)":          {sgd.Weight},
		"chain(decay(rate=0.5,all=true),sgd)": {sgd.Weight, sgd.Bias, sgd.Norm},
	} {
		tr, err := sgd.Optimizers.MustParse(text).New(l)
		if err != nil {
			t.Fatal(err)
		}
		u, params := make([]float32, l.Size()), make([]float32, l.Size())
		for i := range params {
			params[i] = 2
		}
		tr.Apply(u, params, sgd.Step{LR: 1})
		for i, s := range l.Spans {
			want := float32(0)
			for _, r := range roles {
				if s.Role == r {
					want = 1
				}
			}
			for _, got := range l.View(u, i) {
				if got != want {
					t.Errorf("%s: %s of role %v moves by %v, want %v", text, s.Name, s.Role, got, want)
				}
			}
		}
	}
}

func TestClipNorm(t *testing.T) {
	l := sgdtest.Layout()
	tr, err := sgd.Optimizers.MustParse("chain(clip(norm=3),sgd)").New(l)
	if err != nil {
		t.Fatal(err)
	}
	norm := func(v []float32) (sum float64) {
		for i, s := range l.Spans {
			if s.Role != sgd.Buffer {
				for _, x := range l.View(v, i) {
					sum += float64(x) * float64(x)
				}
			}
		}
		return math.Sqrt(sum)
	}
	for _, scale := range []float32{0.01, 1, 1e6, 1e25} {
		u := make([]float32, l.Size())
		for i := range u {
			u[i] = scale * float32(i%5-2)
		}
		before := norm(u)
		tr.Apply(u, u, sgd.Step{LR: 1})
		if got, want := norm(u), min(before, 3); math.Abs(got-want) > 1e-5 {
			t.Errorf("norm %g was clipped to %g, want %g", before, got, want)
		}
	}
}

func TestUpdate(t *testing.T) {
	params := []float32{1, 2, 3}
	sgd.Update(params, []float32{0.5, -1, 0})
	if want := []float32{0.5, 3, 3}; !reflect.DeepEqual(params, want) {
		t.Errorf("got %v, want %v", params, want)
	}
	defer func() {
		if recover() == nil {
			t.Error("lengths that differ went unnoticed")
		}
	}()
	sgd.Update(params, params[:2])
}

func TestRanges(t *testing.T) {
	l := sgdtest.Layout()
	for what, c := range map[string]struct {
		keep func(sgd.Span) bool
		want string
	}{
		"trainable": {func(s sgd.Span) bool { return s.Role != sgd.Buffer }, "[{3 31} {39 54}]"},
		"weights":   {func(s sgd.Span) bool { return s.Role == sgd.Weight }, "[{3 23} {39 51}]"},
		"all":       {func(sgd.Span) bool { return true }, "[{0 55}]"},
		"none":      {func(sgd.Span) bool { return false }, "[]"},
	} {
		if got := fmt.Sprint(l.Ranges(c.keep)); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}

func TestWhole(t *testing.T) {
	for text, want := range map[string]bool{
		"sgd": false, "chain": false, "clip": true, "chain(decay,clip,sgd)": true,
		"chain(decay,chain(clip,sgd))": true, "chain(clipvalue,adam)": false, "groups(muon,adamw)": true,
		"soap": true, "shampoo": true, "dion": true, "normuon": true,
	} {
		if got := sgd.NeedsWhole(sgd.Optimizers.MustParse(text)); got != want {
			t.Errorf("%s needs whole tensors: %v, want %v", text, got, want)
		}
	}
}

// twice is a filter with state, to see that names of slots stay unique.
type twice struct{ sgd.Momentum }

func (o twice) NewFilter(l sgd.Layout) (sgd.Transform, error) { return o.New(l) }

func TestChainSlots(t *testing.T) {
	m := sgd.Momentum{Beta: 0.9}
	tr, err := sgd.Chain{Parts: []sgd.Optimizer{twice{m}, twice{m}, sgd.Nesterov(m)}}.New(one(2))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range tr.(sgd.Stateful).Slots() {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "velocity velocity#2 velocity#3" {
		t.Errorf("slots %s", got)
	}
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"momentum(beta=1)":           `"beta" is 1; want more than -1 and less than 1`,
		"nesterov(beta=-1)":          `"beta" is -1`,
		"adagrad(eps=-1)":            `"eps" is -1; want at least 0`,
		"muon(coefficients=none)":    `"coefficients" is "none"; want jordan, polar or cubic`,
		"muon(scale=none)":           `"scale" is "none"; want jordan, moonshot or spectral`,
		"muon(beta=1)":               `"beta" is 1`,
		"muon(decay=-1)":             `"decay" is -1`,
		"normuon(beta2=1)":           `"beta2" is 1`,
		"normuon(scale=none)":        `"scale" is "none"`,
		"soap(beta=1)":               `"beta" is 1; want at least 0 and less than 1`,
		"soap(every=0)":              `"every" is 0; want at least 1 update`,
		"soap(most=0)":               `"most" is 0; want at least 1`,
		"soap(decay=-1)":             `"decay" is -1`,
		"dion(0)":                    `"fraction" is 0; want more than 0 and at most 1`,
		"dion(mu=1)":                 `"mu" is 1`,
		"dion(decay=-1)":             `"decay" is -1`,
		"shampoo(graft=0)":           `"graft" is 0; want more than 0`,
		"shampoo(eps=0)":             `"eps" is 0; want more than 0`,
		"shampoo(every=0)":           `"every" is 0; want at least 1 update`,
		"muon(steps=-1)":             `"steps" is -1; want 0 to 100`,
		"adagrad(initial=-1)":        `"initial" is -1`,
		"adagrad(eps=0)":             `both 0`,
		"adagrad(eps=1e-60)":         `both 0`,
		"adagrad(eps=+Inf)":          `"eps" is +Inf`,
		"rmsprop(decay=1)":           `"decay" is 1`,
		"rmsprop(eps=0)":             `"eps" is 0; want more than 0`,
		"rmsprop(momentum=-0.1)":     `"momentum" is -0.1`,
		"adam(beta1=1)":              `"beta1" is 1`,
		"adam(beta2=1)":              `"beta2" is 1`,
		"adam(eps=0)":                `"eps" is 0`,
		"chain(decay(rate=-1),sgd)":  `"rate" is -1`,
		"chain(clip(norm=0),sgd)":    `"norm" is 0`,
		"chain(clip(norm=Inf),sgd)":  `"norm" is +Inf`,
		"chain(clipvalue(0),sgd)":    `"limit" is 0`,
		"chain(decay,clip)":          `ends in clip(norm=1), which only changes the gradient`,
		"chain(sgd,momentum)":        `sgd is an update rule and must come last in a chain; before it may stand clip, clipvalue, decay`,
		"chain(momentum,decay)":      `momentum is an update rule`,
		"chain(chain(decay),sgd)":    `ends in decay`,
		"momentum(betta=0.9)":        `did you mean "beta"`,
		"momentun":                   `did you mean "momentum"`,
		"decay":                      `decay only changes the gradient; put an update rule behind it, as in chain(decay,sgd)`,
		"clip(norm=2)":               `as in chain(clip(norm=2),sgd)`,
		"clipvalue":                  `as in chain(clipvalue,sgd)`,
		"chain(decay(rate=NaN),sgd)": `want a number`,
	} {
		o, err := sgd.Optimizers.Parse(text)
		if err == nil {
			_, err = o.New(one(2))
		}
		want = strings.ReplaceAll(want, "clip(norm=1)", "clip")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant …%s…", text, err, want)
		}
	}
	if _, err := (sgd.Chain{}).New(one(2)); err == nil || !strings.Contains(err.Error(), "chain is empty") {
		t.Errorf("empty chain: %v", err)
	}
	if _, err := (sgd.Chain{Parts: []sgd.Optimizer{nil}}).New(one(2)); err == nil {
		t.Error("a nil part went unnoticed")
	}
	// Values made in code are checked as well as parsed ones.
	for _, o := range []sgd.Optimizer{sgd.Momentum{Beta: 2}, sgd.Nesterov{Beta: math.NaN()}, sgd.Adagrad{}, sgd.RMSProp{}, sgd.Adam{},
		sgd.Chain{Parts: []sgd.Optimizer{sgd.Decay{Rate: -1}, sgd.Plain{}}}} {
		if tr, err := o.New(one(2)); err == nil || tr != nil {
			t.Errorf("%#v was taken", o)
		}
	}
}

func ExampleChain() {
	o, err := sgd.Optimizers.Parse("chain(decay(rate=0.5), clip(norm=10), momentum)")
	if err != nil {
		panic(err)
	}
	var l sgd.Layout
	l.Add("w", sgd.Weight, 1, 2)
	l.Add("b", sgd.Bias, 1, 1)
	tr, err := o.New(l)
	if err != nil {
		panic(err)
	}
	params := []float32{1, 2, 3}
	for n := range 2 {
		u := []float32{1, 0, 1} // the gradient goes in, the update comes out
		tr.Apply(u, params, sgd.Step{N: n, LR: 0.5})
		sgd.Update(params, u)
		fmt.Printf("%.4f\n", params)
	}
	// Output:
	// [0.2500 1.5000 2.5000]
	// [-0.9875 0.6750 1.5500]
}
