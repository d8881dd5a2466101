package staletest

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/gradlab/gradlab/staleness"
)

// Tried are the correctors that the suite compares with their Formulas: every
// one, and every option at something else than its default.
var Tried = []string{
	"none", "alpha_tau", "mean", "power", "power(a=1.5)", "exponential", "exponential(rho=0.4)", "adadelay", "adadelay(c=0.3)",
	"adadelay_each", "adadelay_each(k=0.2)", "dcasgd", "dcasgd(lambda=0.7)", "dcasgd_a", "dcasgd_a(lambda=0.6,mu=0.5)",
	"gap_aware", "gap_aware(beta=0.7)", "gap_bound", "gap_bound(c=0.003)", "fasgd", "fasgd(gamma=0.6,beta=0.8)",
	"multi_asgd", "multi_asgd(gamma=0.5)", "dana", "dana(gamma=0.4)", "dana_slim", "dana_slim(gamma=0.6)",
	"dana_dc", "dana_dc(gamma=0.5,lambda=0.4,mu=0.6)", "implicit", "implicit(beta=0.5)",
}

// Correctors compares every one Tried with its formula, shows what it claims (see
// Claims), and fails if a corrector is enrolled without a formula or has an option that was not tried.
func Correctors(t *testing.T) {
	var values []staleness.Corrector
	for _, text := range Tried {
		c, err := staleness.Correctors.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, c)
		t.Run(text, func(t *testing.T) {
			if err := errors.Join(Corrector(c), Claims(c)); err != nil {
				t.Error(err)
			}
		})
	}
	for _, what := range staleness.Correctors.Untried(values...) {
		t.Errorf("corrector %s: no formula was compared with it; add one to Formulas and spec text to Tried", what)
	}
}

// Corrector compares c with its formula on the pushes of a run of three workers
// and six parameters: descent towards a point, with noise, by momentum, at a rate
// that rises, falls and rests at 0 for an update, every third update from two
// gradients. Staleness runs from 0 to 7. Both see the same gradients and the
// same parameters, those that the corrector leads to. Every term of a formula
// matters to one parameter at least: the first has gradients so small that what
// is added under a root shows, the last one's are always the same.
//
// A thousandth is allowed: a variance is a small difference of float32s.
func Corrector(c staleness.Corrector) error {
	const n, workers, updates, beta = 6, 3, 60, 0.5
	sizes := [n]float64{3e-4, 0.05, 0.2, 0.5, 1, 0}
	make64, ok := Formulas[staleness.Correctors.Name(c)]
	if !ok {
		return fmt.Errorf("corrector %s has no formula; add one to Formulas", staleness.Correctors.Spec(c))
	}
	formula := make64(c, n, workers)
	var amenders []staleness.Amender // of the server, or of each worker
	if a, ok := c.(staleness.Amending); ok {
		amenders = append(amenders, a.Amender(n, workers))
		if c.Traits().AtWorker {
			for range workers - 1 {
				amenders = append(amenders, a.Amender(n, workers))
			}
		}
	}
	rate := func(update int) float64 {
		switch {
		case update == 20:
			return 0
		case update < 8:
			return 0.005 * float64(1+update)
		}
		return 0.04 * math.Pow(0.96, float64(update-8))
	}
	near := func(what string, push int, got float32, want float64) error {
		if math.Abs(float64(got)-want) <= 1e-3*(math.Abs(want)+1e-6) {
			return nil
		}
		return fmt.Errorf("push %d: %s is %g, by the formula %g", push, what, got, want)
	}

	now, front, velocity := make([]float32, n), make([]float32, n), make([]float32, n)
	sent, version := make([][]float32, workers), make([]int, workers)
	for w := range sent {
		sent[w] = make([]float32, n)
	}
	late, taken, push := 0, 0, 0
	for update := range updates {
		grads := 1 + update%3/2
		sum := make([]float64, n)
		for range grads {
			w := [...]int{0, 1, 0, 2, 1, 0, 0, 1}[push%8]
			past := staleness.Past{Delay: update - version[w], Worker: w, Update: update, Mean: float64(late) / float64(max(1, taken)), Rate: rate(update)}
			g := make([]float32, n)
			for i, size := range sizes {
				g[i] = float32(size * (float64(sent[w][i]) - 1 + 0.5*math.Sin(float64(7*push+3*i))))
			}
			g[n-1] = 0.25
			want := wide(g)
			if formula.Amend != nil {
				want = formula.Amend(want, wide(now), wide(sent[w]), past)
			}
			if len(amenders) > 0 {
				amenders[min(w, len(amenders)-1)].Amend(g, now, sent[w], past)
			}
			for i := range g {
				if err := near(fmt.Sprintf("value %d of the gradient", i), push, g[i], want[i]); err != nil {
					return err
				}
			}
			scale, by := c.Scale(past), 1.0
			if formula.Scale != nil {
				by = formula.Scale(past)
			}
			if err := near("the factor of the rate", push, float32(scale), by); err != nil {
				return err
			}
			for i := range sum {
				sum[i] += by * want[i] / float64(grads)
			}
			late += past.Delay
			push++
		}
		taken += grads
		v := make([]float64, n)
		for i := range now {
			velocity[i] = beta*velocity[i] + float32(sum[i])
			if i == 0 { // as weight decay may
				velocity[i] += float32(math.Sin(float64(update)))
			}
			v[i] = float64(velocity[i])
			now[i] -= float32(rate(update)) * velocity[i]
		}
		if formula.Moved != nil {
			formula.Moved(v, rate(update))
		}
		copy(front, now)
		if formula.Ahead != nil {
			a, ok := amenders[0].(staleness.Ahead)
			if !ok {
				return fmt.Errorf("the formula looks ahead of the parameters, the corrector does not")
			}
			a.Ahead(front, now, rate(update+1))
			for i, want := range formula.Ahead(wide(now), rate(update+1)) {
				if err := near(fmt.Sprintf("value %d of what workers are sent", i), push, front[i], want); err != nil {
					return err
				}
			}
		}
		w := [...]int{0, 1, 0, 2, 1, 0, 0, 1}[(push-1)%8]
		copy(sent[w], front)
		version[w] = update + 1
	}
	return nil
}

func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
