package reproduce

import (
	"context"
	"fmt"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/nn"
)

// What studies of large batches judge apart from learning: that a rule does in a
// step what it is for. Such points follow from the paper's equations, and turn red
// without the rule whatever is learned.

// advance makes updates by a rule on one tensor of n values with role weight, all of
// them w to begin with, and returns how far each took the first value.
func advance(rule string, n int, w float32, updates int, grad, rate func(step int) float64) ([]float64, error) {
	var l sgd.Layout
	l.Add("weight", sgd.Weight, n, 1)
	t, err := sgd.Optimizers.MustParse(rule).New(l)
	if err != nil {
		return nil, err
	}
	params, u, moved := make([]float32, n), make([]float32, n), make([]float64, updates)
	for i := range params {
		params[i] = w
	}
	for step := range updates {
		for i := range u {
			u[i] = float32(grad(step))
		}
		before := params[0]
		sgd.Advance(t, u, params, sgd.Step{N: step, LR: rate(step)})
		moved[step] = float64(before) - float64(params[0])
	}
	return moved, nil
}

// afterFall adds what momentum correction is about (Goyal et al. 2017, remark 2): the
// gradient is constant, and so is the velocity, when the rate is divided by ten.
// With the rate outside the velocity the next step is a tenth of the one before. A
// velocity that absorbed the old rate goes on: the step is β²·1 + (1−β²)/10 of it
// with Nesterov momentum, which steps by g + β·v.
func (l *Lab) afterFall(r *Report) error {
	const beta, fall, long = 0.9, 0.1, 400
	for _, c := range []struct {
		name, options string
		want          float64
	}{
		{"corrected", "", fall}, {"not corrected", ",inside=true", beta*beta + (1-beta*beta)*fall},
	} {
		rule := l.spec("optimizer", fmt.Sprintf("nesterov(beta=%g%s)", beta, c.options))
		moved, err := advance(rule, 4, 0, long+1, func(int) float64 { return 1 }, func(step int) float64 {
			if step == long {
				return 0.001 * fall
			}
			return 0.001
		})
		if err != nil {
			return err
		}
		r.within(Claim, "a steady gradient, the rate divided by ten: the next step over the one before, "+c.name, "×", c.want, moved[long]/moved[long-1], 0.01)
	}
	return nil
}

// scaleFree adds what LARS is for (You et al. 2017, equation 6): how long a step is
// does not depend on how long the gradient is.
func (l *Lab) scaleFree(r *Report) error {
	rule := l.spec("optimizer", "lars(decay=0)")
	var steps [2]float64
	for i, scale := range []float64{1, 1000} {
		moved, err := advance(rule, 16, 1, 1, func(int) float64 { return scale }, func(int) float64 { return 1 })
		if err != nil {
			return err
		}
		steps[i] = moved[0]
	}
	r.within(Claim, "LARS: length of a step whose gradient is 1000 times as long", "×", 1, steps[1]/steps[0], 0.001)
	return nil
}

// identity adds what a first scale of 0 is for (Goyal et al. 2017, section 5.1):
// blocks begin as the identity, so that no gradient comes to their filters.
func (l *Lab) identity(ctx context.Context, r *Report) error {
	ds, err := data.Open("synthetic(dim=3072,side=32,n=64,test=16)", data.Options{Seed: 1})
	if err != nil {
		return err
	}
	for _, zero := range []bool{true, false} {
		m, err := nn.Models.MustParse(l.spec("model", fmt.Sprintf("resnet20(zero_gamma=%v)", zero))).New(ds.Train.Sample())
		if err != nil {
			return err
		}
		layout := m.Layout()
		p := sgd.Pass{Params: make([]float32, layout.Size()), Grad: make([]float32, layout.Size()), Scratch: m.NewScratch()}
		m.Init(p.Params, 1)
		var b sgd.Batch
		if err := ds.Train.Batch(sgd.Draw{N: 4}, &b); err != nil {
			return err
		}
		if _, err := m.Grad(ctx, p, b); err != nil {
			return err
		}
		var weights []sgd.Span
		for _, s := range layout.Spans {
			if s.Role == sgd.Weight {
				weights = append(weights, s)
			}
		}
		still, all := 0, 0
		for _, s := range weights[1 : len(weights)-1] { // the first filter and the classifier are in no block
			for _, g := range p.Grad[s.Off : s.Off+s.Len()] {
				all++
				if g == 0 {
					still++
				}
			}
		}
		want, name := 0.0, "γ = 1"
		if zero {
			want, name = 100, "γ = 0"
		}
		r.between(Claim, name+": filters in blocks whose first gradient is 0", "%", want, 100*float64(still)/float64(all), max(0, want-0.1), min(100, want+0.1))
	}
	return nil
}

// oneForMany adds equations 3 and 4 of Goyal et al. 2017: while parameters move
// little, an update of a batch k times as large at k times the rate does what k
// updates do. Logistic regression on digits, one epoch at a small rate.
func (l *Lab) oneForMany(ctx context.Context, r *Report) error {
	const small, large, rate = 32, 256, 0.0005
	train := func(name string, batch int, schedule string) (float64, error) {
		res, err := l.run(ctx, "equations 3 and 4, "+name, "data=digits", "model=logistic", "mode=reduce", "optimizer=sgd", "batch=32",
			fmt.Sprintf("workers=%d", batch/32), fmt.Sprintf("steps=%d", 1280/batch), "epochs=0", "eval_every=1", "schedule="+schedule)
		if err != nil {
			return 0, err
		}
		evals := res.Evals
		return evals[0].Values["loss"] - evals[len(evals)-1].Values["loss"], nil
	}
	// The first evaluation is behind one update; what is learned from there on is a
	// little less than all with the large batch.
	learned, err := train("small batch", small, fmt.Sprintf("constant(lr=%g)", rate))
	if err != nil {
		return err
	}
	scaled, err := train("large batch, linear", large, fmt.Sprintf("linear(step(lr=%g,at=[99]),reference=%d)", rate, small))
	if err != nil {
		return err
	}
	k, n := float64(large/small), float64(1280/small)
	r.within(Claim, fmt.Sprintf("a small rate, one epoch: loss taken off with a batch of %d and linear scaling, over that with %d", large, small), "×",
		(n-k)/(n-1), scaled/learned, 0.1)
	return nil
}
