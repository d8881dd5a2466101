package staletest

import (
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/gradlab/gradlab/internal/patience"
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
// Claims), and fails if a corrector is enrolled without a formula or has an option that
// was not tried. Of those that are not gradlab's own it shows the claims, with their
// defaults: they need no formula.
func Correctors[T patience.Tester[T]](t T) {
	var values []staleness.Corrector
	others := map[string]bool{}
	for _, name := range staleness.Correctors.Names() {
		c, _ := staleness.Correctors.Proto(name)
		if reflect.TypeOf(c).PkgPath() == reflect.TypeFor[staleness.None]().PkgPath() {
			continue
		}
		others[name] = true
		t.Run(name, func(t T) {
			if err := Claims(c); err != nil {
				t.Error(err)
			}
		})
	}
	for _, text := range Tried {
		c, err := staleness.Correctors.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, c)
		t.Run(text, func(t T) {
			if err := errors.Join(Corrector(c), Claims(c)); err != nil {
				t.Error(err)
			}
		})
	}
	for _, what := range staleness.Correctors.Untried(values...) {
		if others[what] {
			continue
		}
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
	const updates = 60
	make64, ok := Formulas[staleness.Correctors.Name(c)]
	if !ok {
		return fmt.Errorf("corrector %s has no formula; add one to Formulas", staleness.Correctors.Spec(c))
	}
	t := newTrial(c, make64(c, trialSize, trialWorkers))
	for update := range updates {
		sum, err := t.gradients(update, 1+update%3/2)
		if err != nil {
			return err
		}
		t.step(update, sum)
		if err := t.ahead(update); err != nil {
			return err
		}
		w := t.worker(t.push - 1)
		copy(t.sent[w], t.front)
		t.version[w] = update + 1
	}
	return nil
}

const trialSize, trialWorkers = 6, 3 // parameters, workers

// trial is a run in which a corrector is compared with its formula.
type trial struct {
	c        staleness.Corrector
	formula  Formula
	amenders []staleness.Amender // of the server, or of each worker; none if it only scales

	now, front, velocity []float32   // parameters, what workers are sent, momentum
	sent                 [][]float32 // to each worker
	version              []int       // of what it was sent
	late, taken, push    int         // staleness in all, gradients in updates, pushes
}

func newTrial(c staleness.Corrector, f Formula) *trial {
	t := &trial{c: c, formula: f, now: make([]float32, trialSize), front: make([]float32, trialSize), velocity: make([]float32, trialSize), version: make([]int, trialWorkers)}
	if a, ok := c.(staleness.Amending); ok {
		t.amenders = append(t.amenders, a.Amender(trialSize, trialWorkers))
		if c.Traits().AtWorker {
			for range trialWorkers - 1 {
				t.amenders = append(t.amenders, a.Amender(trialSize, trialWorkers))
			}
		}
	}
	for range trialWorkers {
		t.sent = append(t.sent, make([]float32, trialSize))
	}
	return t
}

// rate is the learning rate of an update.
func (t *trial) rate(update int) float64 {
	switch {
	case update == 20:
		return 0
	case update < 8:
		return 0.005 * float64(1+update)
	}
	return 0.04 * math.Pow(0.96, float64(update-8))
}

// worker is who makes a push.
func (t *trial) worker(push int) int { return [...]int{0, 1, 0, 2, 1, 0, 0, 1}[push%8] }

func (t *trial) near(what string, push int, got float32, want float64) error {
	if math.Abs(float64(got)-want) <= 1e-3*(math.Abs(want)+1e-6) {
		return nil
	}
	return fmt.Errorf("push %d: %s is %g, by the formula %g", push, what, got, want)
}

// gradients pushes the gradients of an update, and returns their mean as the formula
// corrects them.
func (t *trial) gradients(update, grads int) ([]float64, error) {
	sizes := [trialSize]float64{3e-4, 0.05, 0.2, 0.5, 1, 0}
	sum := make([]float64, trialSize)
	for range grads {
		w := t.worker(t.push)
		past := staleness.Past{Delay: update - t.version[w], Worker: w, Update: update, Mean: float64(t.late) / float64(max(1, t.taken)), Rate: t.rate(update)}
		g := make([]float32, trialSize)
		for i, size := range sizes {
			g[i] = float32(size * (float64(t.sent[w][i]) - 1 + 0.5*math.Sin(float64(7*t.push+3*i))))
		}
		g[trialSize-1] = 0.25
		want := wide(g)
		if t.formula.Amend != nil {
			want = t.formula.Amend(want, wide(t.now), wide(t.sent[w]), past)
		}
		if len(t.amenders) > 0 {
			t.amenders[min(w, len(t.amenders)-1)].Amend(g, t.now, t.sent[w], past)
		}
		for i := range g {
			if err := t.near(fmt.Sprintf("value %d of the gradient", i), t.push, g[i], want[i]); err != nil {
				return nil, err
			}
		}
		scale, by := t.c.Scale(past), 1.0
		if t.formula.Scale != nil {
			by = t.formula.Scale(past)
		}
		if err := t.near("the factor of the rate", t.push, float32(scale), by); err != nil {
			return nil, err
		}
		for i := range sum {
			sum[i] += by * want[i] / float64(grads)
		}
		t.late += past.Delay
		t.push++
	}
	t.taken += grads
	return sum, nil
}

// step makes an update of a mean gradient.
func (t *trial) step(update int, sum []float64) {
	const beta = 0.5
	v := make([]float64, trialSize)
	for i := range t.now {
		t.velocity[i] = beta*t.velocity[i] + float32(sum[i])
		if i == 0 { // as weight decay may
			t.velocity[i] += float32(math.Sin(float64(update)))
		}
		v[i] = float64(t.velocity[i])
		t.now[i] -= float32(t.rate(update)) * t.velocity[i]
	}
	if t.formula.Moved != nil {
		t.formula.Moved(v, t.rate(update))
	}
}

// ahead makes what workers are sent after an update.
func (t *trial) ahead(update int) error {
	copy(t.front, t.now)
	if t.formula.Ahead == nil {
		return nil
	}
	a, ok := t.amenders[0].(staleness.Ahead)
	if !ok {
		return fmt.Errorf("the formula looks ahead of the parameters, the corrector does not")
	}
	a.Ahead(t.front, t.now, t.rate(update+1))
	for i, want := range t.formula.Ahead(wide(t.now), t.rate(update+1)) {
		if err := t.near(fmt.Sprintf("value %d of what workers are sent", i), t.push, t.front[i], want); err != nil {
			return err
		}
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
