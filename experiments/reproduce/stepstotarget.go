package reproduce

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
)

// StepsToTarget measures how many updates a target takes over the batch, and compares
// the critical batch with the gradient noise scale (Shallue et al. 2018; McCandlish et
// al. 2018).
type StepsToTarget struct {
	Target float64 `doc:"test accuracy to reach"`
}

var _ = Studies.Add("steps-to-target", "updates to a target over the batch: as 1/B, then flat; the critical batch beside the noise scale", StepsToTarget{Target: 0.93})

// Group implements Study.
func (StepsToTarget) Group() Group { return LargeBatch }

// Mechanisms implements Study.
func (StepsToTarget) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "tuning", Doc: "every batch has the rate of the smallest", Slow: true},
	}
}

// atBatch is what the study measured at a batch.
type atBatch struct {
	batch   int
	updates stats.Summary
	noise   float64 // geometric mean over the seeds that told one, in samples; NaN: none did
	*side
}

// Run implements Study.
func (s StepsToTarget) Run(ctx context.Context, lab *Lab) (*Report, error) {
	if !(s.Target > 0 && s.Target < 1) {
		return nil, fmt.Errorf("option %q is %v; want an accuracy between 0 and 1, such as 0.93", "target", s.Target)
	}
	batches, tries, size := []int{8, 32, 128, 512, 2048}, 2, 12288
	if !lab.Quick {
		batches, tries, size = []int{4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}, 3, 49152
	}
	const workers = 4
	r := &Report{
		Title: fmt.Sprintf("updates to a test accuracy of %g, the rate tuned at every batch", s.Target),
		Source: "Shallue et al. 2018: updates fall as 1/B with the batch B, then more slowly, then not at all; " +
			"McCandlish et al. 2018: they follow S·(1 + B_crit/B), and the critical batch B_crit is near the noise scale of gradients",
		Stated: []string{
			fmt.Sprintf("mlp(hidden=[64]) on the first %d samples of MNIST, tested on all 10,000; plain SGD at a constant rate; %d workers share the batch, mean of all gradients", size, workers),
			"the rate with the fewest updates to the target on held-out samples is chosen, of seven octaves from 0.025, at every batch",
			"updates are counted up to the evaluation that reaches the target; there is one every 512/B updates, and at least every second",
			"noise scale: the median over a run of those told, the geometric mean of that over seeds",
			"near 1/B and flat: powers of B within 0.3 of −1 and 0. The critical batch is fitted to all means in logarithms",
		},
	}
	c := &contest{lab: lab, tries: tries, seeds: 5, score: func(a *sample) float64 { return -a.updatesToTarget().Mean },
		keys: []string{"data=mnist", fmt.Sprintf("train_limit=%d", size), "model=mlp(hidden=[64])", "mode=reduce", fmt.Sprintf("workers=%d", workers),
			"optimizer=sgd", "observe=noise_scale", "until=target", "nonfinite=zero", fmt.Sprintf("target=%g", s.Target)}}
	var all []*atBatch
	for _, batch := range batches {
		name, tried := fmt.Sprintf("batch %d", batch), grid(octaves(0.025, 7), nil, func(rate float64, _ string) []string {
			return []string{fmt.Sprintf("batch=%d", batch/workers), fmt.Sprintf("schedule=constant(lr=%g)", rate),
				fmt.Sprintf("eval_every=%d", max(2, 512/batch)), fmt.Sprintf("steps=%d", max(800, 32000/batch))}
		})
		at := &atBatch{batch: batch}
		if len(all) > 0 && lab.lacks("tuning") {
			at.side = c.follow(all[0].side, name, tried)
		} else {
			at.side = c.tune(name, tried)
		}
		all = append(all, at)
	}
	if err := c.hold(ctx); err != nil {
		return nil, err
	}
	for _, at := range all {
		if err := at.measure(); err != nil {
			return nil, err
		}
	}
	r.Notes = append(r.Notes, c.narrow()...)
	return r, s.judge(lab, r, all)
}

// updatesToTarget describes the updates that the runs took. If one did not reach the target
// their mean is infinite: it would be that of the lucky ones.
func (s *sample) updatesToTarget() stats.Summary {
	updates := s.of(func(r *experiments.Result) float64 { return float64(r.Steps) })
	if slices.ContainsFunc(s.Runs, func(r *store.Run) bool { return !r.Result.TargetReached }) {
		updates.Mean, updates.Half = math.Inf(1), math.NaN()
	}
	return updates
}

// measure reads what the runs at a batch told.
func (a *atBatch) measure() error {
	a.updates = a.updatesToTarget()
	sum, of := 0.0, 0.0
	for _, run := range a.Runs {
		m, err := run.Curve()
		if err != nil {
			return err
		}
		var told []float64
		for _, p := range m.Progress {
			if p.NoiseScale > 0 {
				told = append(told, p.NoiseScale)
			}
		}
		if len(told) > 0 {
			slices.Sort(told)
			sum, of = sum+math.Log(told[len(told)/2]), of+1
		}
	}
	a.noise = math.Exp(sum / of)
	return nil
}

// law is S·(1 + B_crit/B) (McCandlish et al. 2018, section 2.3).
type law struct{ least, critical float64 }

func (l law) at(batch float64) float64 { return l.least * (1 + l.critical/batch) }

// fitLaw finds the law with the least squares of logarithms. Of a critical batch the
// best S is known, so there is one number to look for: between 1 and a million, to a
// hundredth of a per cent.
func fitLaw(batches, updates []float64) law {
	try := func(logCritical float64) (law, float64) {
		l, mean, squares := law{1, math.Exp(logCritical)}, 0.0, 0.0
		for i, b := range batches {
			mean += math.Log(updates[i]/l.at(b)) / float64(len(batches))
		}
		for i, b := range batches {
			d := math.Log(updates[i]/l.at(b)) - mean
			squares += d * d
		}
		l.least = math.Exp(mean)
		return l, squares
	}
	lo, hi := 0.0, math.Log(1e6)
	const golden = 0.6180339887498949
	for hi-lo > 1e-4 {
		a, b := hi-golden*(hi-lo), lo+golden*(hi-lo)
		_, atA := try(a)
		if _, atB := try(b); atA < atB {
			hi = b
		} else {
			lo = a
		}
	}
	l, _ := try((lo + hi) / 2)
	return l
}

// power is the exponent of B between two measurements.
func power(a, b *atBatch) float64 {
	return math.Log(b.updates.Mean/a.updates.Mean) / math.Log(float64(b.batch)/float64(a.batch))
}

// judge adds tables, points and the figure.
func (s StepsToTarget) judge(lab *Lab, r *Report, all []*atBatch) error {
	var batches, updates []float64
	for _, a := range all {
		if math.IsInf(a.updates.Mean, 0) {
			r.Notes = append(r.Notes, fmt.Sprintf("batch %d with a rate of %s did not reach the target with every seed, and is left out of the fit", a.batch, a.setting()))
			continue
		}
		batches, updates = append(batches, float64(a.batch)), append(updates, a.updates.Mean)
	}
	if len(batches) < 3 {
		return fmt.Errorf("a target of %g was reached at %d batches; want one that at least 3 reach", s.Target, len(batches))
	}
	fitted := fitLaw(batches, updates)
	nearest := slices.MinFunc(all, func(a, b *atBatch) int {
		d := func(x *atBatch) float64 { return math.Abs(math.Log(float64(x.batch) / fitted.critical)) }
		return int(math.Copysign(1, d(a)-d(b)))
	})
	t := figure.Table{Title: fmt.Sprintf("updates to %g, 5 seeds, 95 %% intervals", s.Target), Header: []string{"batch", "rate", "updates", "samples", "by the law", "noise scale"}}
	tuned := figure.Table{Title: "what was tuned: the rate; mean updates to the target on held-out samples, seeds that are not reported", Header: []string{"batch", "chosen", "tried"}}
	for _, a := range all {
		noise := "none told"
		if !math.IsNaN(a.noise) {
			noise = fmt.Sprintf("%.0f", a.noise)
		}
		t.Rows = append(t.Rows, []string{fmt.Sprint(a.batch), a.setting(), plusMinus(a.updates), fmt.Sprintf("%.3g", a.updates.Mean*float64(a.batch)),
			fmt.Sprintf("%.0f", fitted.at(float64(a.batch))), noise})
		var tried []string
		for i, k := range a.tried {
			took := "never"
			if mean := k.updatesToTarget().Mean; !math.IsInf(mean, 0) {
				took = fmt.Sprintf("%.0f", mean)
			}
			tried = append(tried, a.candidates[i].name+": "+took)
		}
		tuned.Rows = append(tuned.Rows, []string{fmt.Sprint(a.batch), a.setting(), strings.Join(tried, "; ")})
	}
	r.Tables = append(r.Tables, tuned, t)
	last := len(all) - 1
	r.between(Claim, fmt.Sprintf("near 1/B: power of the batch from %d to %d", all[0].batch, all[1].batch), "", -1, power(all[0], all[1]), -1.3, -0.7)
	r.between(Claim, fmt.Sprintf("flat: power of the batch from %d to %d", all[last-1].batch, all[last].batch), "", 0, power(all[last-1], all[last]), -0.3, 0.3)
	r.between(Claim, "the critical batch over the noise scale, measured at the batch nearest to it", "×", 1, fitted.critical/nearest.noise, 0.5, 2)
	r.Notes = append(r.Notes, fmt.Sprintf("the law: %.1f·(1 + %.0f/B) updates; the noise scale at a batch of %d is %.0f samples", fitted.least, fitted.critical, nearest.batch, nearest.noise))
	return s.draw(lab, r, all, fitted)
}

// draw shows updates over the batch beside the law, and the noise scale at each batch.
func (StepsToTarget) draw(lab *Lab, r *Report, all []*atBatch, fitted law) error {
	measured, curve, noise, crit := figure.Series{Name: "measured", Marks: true}, figure.Series{Name: "S·(1 + B_crit/B)"}, figure.Series{Name: "noise scale", Marks: true}, figure.Series{Name: "critical batch, fitted"}
	for _, a := range all {
		b := float64(a.batch)
		curve.X, curve.Y = append(curve.X, b), append(curve.Y, fitted.at(b))
		if !math.IsInf(a.updates.Mean, 0) {
			measured.X, measured.Y = append(measured.X, b), append(measured.Y, a.updates.Mean)
			measured.Lo, measured.Hi = append(measured.Lo, max(1, a.updates.Mean-a.updates.Half)), append(measured.Hi, a.updates.Mean+a.updates.Half)
		}
		if !math.IsNaN(a.noise) {
			noise.X, noise.Y = append(noise.X, b), append(noise.Y, a.noise)
		}
		crit.X, crit.Y = append(crit.X, b), append(crit.Y, fitted.critical)
	}
	x := figure.Axis{Label: "batch, samples", Log: true}
	files, err := figure.Save(filepath.Join(lab.Out, "steps-to-target"),
		figure.Figure{Title: "updates to the target", X: x, Y: figure.Axis{Label: "updates", Log: true}, Series: []figure.Series{measured, curve}},
		figure.Figure{Title: "noise scale", X: x, Y: figure.Axis{Label: "samples", Log: true}, Series: []figure.Series{noise, crit}})
	r.Figures = append(r.Figures, files...)
	return err
}
