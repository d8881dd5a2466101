package reproduce

import (
	"context"
	"fmt"
	"math"
	"path/filepath"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/compress/compresstest"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/nn"
)

// CodecError is the error of codecs against the bits they send, on vectors of
// several laws and on gradients of a net in training; on Gaussian vectors beside
// what theory says.
//
// Source: Max 1960 (Lloyd-Max quantisers) and order statistics of the normal
// law.
type CodecError struct {
	Elements int `doc:"length of a vector"`
}

var _ = Studies.Add("codec-error", "error against bits of all codecs, beside theory where it is known", CodecError{Elements: 1 << 18})

// codecFamilies are the codecs whose error depends on a dial, by the name a
// curve has. The dial is bits or the fraction kept.
var codecFamilies = []struct {
	name, spec string
	dial       []float64
}{
	{"qsgd", "qsgd(bits=%g)", []float64{2, 3, 4, 5, 6, 7, 8}},
	{"qsgd, entropy coded", "entropy(qsgd(bits=%g,bucket=128),fse)", []float64{2, 3, 4, 5, 6}},
	{"uniform", "uniform(bits=%g)", []float64{1, 2, 3, 4, 5, 6, 7, 8}},
	{"eden", "eden(bits=%g)", []float64{1, 2, 3, 4}},
	{"eden, least error", "eden(bits=%g,scale=mse)", []float64{1, 2, 3, 4}},
	{"topk", "topk(keep=%g,values=bf16)", []float64{0.001, 0.003, 0.01, 0.03, 0.1, 0.3}},
	{"randomk", "randomk(keep=%g)", []float64{0.001, 0.01, 0.1, 0.3}},
}

// codecPoints are single ones.
var codecPoints = []string{
	"bf16", "fp16", "float8(format=e4m3)", "float8(format=e5m2)", "float8(format=dynamic)",
	"natural", "terngrad", "terngrad(clip=0,bucket=512)", "threelc", "sign", "onebit",
}

// lloydMax is the mean squared error of the best quantiser of a standard normal
// variable with b bits, b = 1 … 4 (Max 1960, table I).
var lloydMax = []float64{0, 1 - 2/math.Pi, 0.1175, 0.03454, 0.009497}

// Group implements Study.
func (CodecError) Group() Group { return Codecs }

// Mechanisms implements Study.
func (CodecError) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "rotation", Doc: "uniform levels, unrotated, in place of eden's", Off: swap("codec", `^eden\((bits=)?(\d).*`, "uniform(bits=$2)")},
		{Name: "choice of the largest", Doc: "random entries in place of the largest", Off: swap("codec", `^topk\((keep=[^,)]*).*`, "randomk($1)")},
		{Name: "random choice", Doc: "the first k entries of the largest in place of random ones", Off: swap("codec", `^randomk\(`, "topk(")},
	}
}

// Run implements Study.
func (s CodecError) Run(ctx context.Context, lab *Lab) (*Report, error) {
	d, vectors := s.Elements, 4
	if lab.Quick {
		d, vectors = min(d, 1<<16), 2
	}
	if d < 1<<12 {
		return nil, fmt.Errorf("option %q is %d; want at least %d, for the laws to show", "elements", d, 1<<12)
	}
	r := &Report{
		Title:  "E‖C(g)−g‖²/‖g‖² of codecs against bits an element",
		Source: "for the points: Lloyd-Max quantisers (Max 1960), order statistics of the normal law; vectors of " + fmt.Sprint(d) + " elements",
		Stated: []string{"captured: gradients of mlp on digits at steps 1, 20 and 100 of SGD at rate 0.1, batch 32"},
	}
	captured, err := captureGradients(ctx, d)
	if err != nil {
		return nil, err
	}
	laws := []struct {
		name    string
		vectors [][]float32
	}{
		{"gaussian", draw("gaussian", d, vectors)}, {"laplace", draw("laplace", d, vectors)}, {"t3", draw("t3", d, vectors)},
		{"mixed", draw("mixed", d, vectors)}, {"lognormal", lognormal(d, vectors)}, {"captured", captured},
	}
	var panels []figure.Figure
	table := figure.Table{Title: "bits an element, and error on each law", Header: []string{"codec", "bits"}}
	rows := map[string][]string{}
	var order []string
	for _, law := range laws {
		lab.logf("%s", law.name)
		table.Header = append(table.Header, law.name)
		fig := figure.Figure{
			Title: law.name, X: figure.Axis{Label: "bits an element", Log: true}, Y: figure.Axis{Label: "error", Log: true},
		}
		measure := func(spec string) (compresstest.Errors, error) {
			if err := ctx.Err(); err != nil {
				return compresstest.Errors{}, err
			}
			f, err := compress.Parse(lab.spec("codec", spec))
			if err != nil {
				return compresstest.Errors{}, err
			}
			e, err := compresstest.MeasureOn(f, law.vectors)
			if err != nil {
				return e, fmt.Errorf("%s on %s: %w", spec, law.name, err)
			}
			if rows[spec] == nil {
				order = append(order, spec)
				rows[spec] = []string{spec, fmt.Sprintf("%.3f", e.Bits)}
			}
			rows[spec] = append(rows[spec], fmt.Sprintf("%.3g", e.VNMSE))
			return e, nil
		}
		for _, f := range codecFamilies {
			curve := figure.Series{Name: f.name, Marks: true}
			for _, dial := range f.dial {
				e, err := measure(fmt.Sprintf(f.spec, dial))
				if err != nil {
					return nil, err
				}
				curve.X, curve.Y = append(curve.X, e.Bits), append(curve.Y, e.VNMSE)
				s.judge(r, law.name, f.name, dial, e)
			}
			fig.Series = append(fig.Series, curve)
		}
		for _, spec := range codecPoints {
			e, err := measure(spec)
			if err != nil {
				return nil, err
			}
			fig.Series = append(fig.Series, figure.Series{Name: spec, X: []float64{e.Bits}, Y: []float64{e.VNMSE}, Marks: true})
			if law.name == "gaussian" && spec == "sign" {
				r.within(Claim, "sign, gaussian: 1 − 2/π", "", 1-2/math.Pi, e.VNMSE, 0.02)
			}
		}
		panels = append(panels, fig)
	}
	for _, spec := range order {
		table.Rows = append(table.Rows, rows[spec])
	}
	r.Tables = append(r.Tables, table)
	for i := 0; i < len(panels); i += 3 {
		files, err := figure.Save(filepath.Join(lab.Out, fmt.Sprintf("codec-error-%d", i/3+1)), panels[i:i+3]...)
		if err != nil {
			return nil, err
		}
		r.Figures = append(r.Figures, files...)
	}
	return r, nil
}

// judge holds a measurement to what theory says of it.
func (s CodecError) judge(r *Report, law, family string, dial float64, e compresstest.Errors) {
	// Rotation makes any law normal. Where a few entries have most of a chunk's
	// energy not quite, and the error is less: only the normal law is held to
	// theory from below.
	rotated := func(name string, theory float64) {
		least := 0.95 * theory
		if law != "gaussian" {
			least = 0
		}
		r.between(Claim, fmt.Sprintf("%s, %g bits, %s", name, dial, law), "", theory, e.VNMSE, least, 1.05*theory)
	}
	switch {
	case family == "eden":
		d := lloydMax[int(dial)]
		rotated("eden: D/(1−D)", d/(1-d))
	case family == "eden, least error":
		rotated("eden(scale=mse): D", lloydMax[int(dial)])
	case law == "gaussian" && family == "topk":
		r.within(Claim, fmt.Sprintf("topk, %g kept, gaussian", dial), "", 1-keptEnergy(dial), e.VNMSE, 0.01)
	case law == "gaussian" && family == "randomk":
		r.within(Claim, fmt.Sprintf("randomk, %g kept, gaussian: 1 − k/d", dial), "", 1-dial, e.VNMSE, 0.02)
	}
}

// keptEnergy is the share of Σx² that the largest fraction of normal |x| has:
// with P(|x| > t) = keep, 2·(t·φ(t) + 1 − Φ(t)).
func keptEnergy(keep float64) float64 {
	t := math.Sqrt2 * math.Erfinv(1-keep)
	return 2*t*math.Exp(-t*t/2)/math.Sqrt(2*math.Pi) + keep
}

func draw(law string, d, n int) (out [][]float32) {
	for i := range n {
		out = append(out, compresstest.Vector(law, d, i))
	}
	return out
}

// lognormal is of either sign, σ = 2: a few entries have most of the energy.
func lognormal(d, n int) (out [][]float32) {
	for i := range n {
		k, x := rng.New(1, "lognormal").With(uint64(i)), make([]float32, d)
		for j := range x {
			x[j] = float32(math.Exp(2*k.Norm(uint64(2*j))) * float64(1-2*int(k.Uint64(uint64(2*j+1))&1)))
		}
		out = append(out, x)
	}
	return out
}

// captureGradients trains a small net and returns its gradients, up to d
// elements of each, from the end, which all layers but the first fill.
func captureGradients(ctx context.Context, d int) (out [][]float32, err error) {
	ds, err := data.Open("digits", data.Options{Seed: 1})
	if err != nil {
		return nil, err
	}
	m, err := nn.Models.MustParse("mlp").New(ds.Train.Sample())
	if err != nil {
		return nil, err
	}
	l := m.Layout()
	p := sgd.Pass{Params: make([]float32, l.Size()), Grad: make([]float32, l.Size()), Scratch: m.NewScratch()}
	m.Init(p.Params, 1)
	opt, err := sgd.Optimizers.MustParse("sgd").New(l)
	if err != nil {
		return nil, err
	}
	const n = 32
	var b sgd.Batch
	for i := 1; i <= 100; i++ {
		if err := ds.Train.Batch(sgd.Draw{First: uint64(i * n), N: n}, &b); err != nil {
			return nil, err
		}
		if _, err := m.Grad(ctx, p, b); err != nil {
			return nil, err
		}
		if i == 1 || i == 20 || i == 100 {
			out = append(out, append([]float32(nil), p.Grad[max(0, l.Size()-d):]...))
		}
		sgd.Advance(opt, p.Grad, p.Params, sgd.Step{N: i, LR: 0.1})
	}
	return out, nil
}

// normal is a vector of independent standard normal values.
func normal(d, n int) []float32 {
	k, x := rng.New(1, "normal").With(uint64(n)), make([]float32, d)
	for i := range x {
		x[i] = float32(k.Norm(uint64(i)))
	}
	return x
}
