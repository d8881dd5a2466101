package train_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// statistic is a model with a running mean, of what is always 1.
type statistic struct{}

func (statistic) Layout() sgd.Layout {
	var l sgd.Layout
	l.Add("weight", sgd.Weight, 1, 4)
	l.Add("mean", sgd.Buffer, 1, 4)
	return l
}
func (statistic) Init(params []float32, _ uint64) { clear(params) }
func (statistic) NewScratch() sgd.Scratch         { return nil }
func (statistic) SpanFLOPs() []float64            { return []float64{1e5, 0} }
func (statistic) Metrics() []sgd.Metric           { return []sgd.Metric{sgd.Loss} }
func (statistic) Grad(_ context.Context, p sgd.Pass, _ sgd.Batch) (float64, error) {
	for s := range 2 {
		if p.Need != nil {
			if err := p.Need(s); err != nil {
				return 0, err
			}
		}
	}
	clear(p.Grad)
	for i := 4; i < 8; i++ {
		p.Grad[i] = 0.1 * (p.Params[i] - 1)
	}
	for s := 1; s >= 0; s-- {
		if p.Ready != nil {
			if err := p.Ready(s); err != nil {
				return 0, err
			}
		}
	}
	return 1, nil
}
func (statistic) Eval(params []float32, _ sgd.Scratch, b sgd.Batch) (sgd.Score, error) {
	return sgd.Score{N: 1, Sums: []float64{float64(params[4])}}, nil
}

// Running statistics settle where they are however late workers tell of theirs,
// and however small the learning rate is.
func TestLateStatisticsSettle(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, opts := range map[string][]option{
		"asp, 16":        {policy("asp"), func(j *train.Job) { j.Workers = 16 }},
		"asp, 64":        {policy("asp"), func(j *train.Job) { j.Workers = 64 }},
		"downpour":       {mode("downpour(n_fetch=5,n_push=5)"), policy("asp")},
		"downpour alone": {mode("downpour(n_fetch=25,n_push=25)"), policy("asp"), func(j *train.Job) { j.Workers = 1 }},
		"bsp":            {},
	} {
		o, _ := runOn(t, simulated(0), job(t, append(opts, optimizer("sgd"), learning(1e-4), func(j *train.Job) {
			j.Model, j.Updates = statistic{}, 3200
		})...), nil)
		if x := o.Params[4]; math.Abs(float64(x)-1) > 0.05 {
			t.Errorf("%s: the running mean of 1 is %g", name, x)
		}
	}
}

// A replica of Downpour alone is plain descent however rarely it pushes, at the
// rates of the schedule.
func TestDownpourKeepsToTheSchedule(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	of := func(n int) []float32 {
		o, _ := runOn(t, simulated(0), job(t, mode(fmt.Sprintf("downpour(n_fetch=%d,n_push=%d)", n, n)), policy("asp"), optimizer("sgd"), rate("cosine(lr=0.1)"), func(j *train.Job) {
			j.Workers, j.Updates = 1, 200/n
		}), nil)
		return o.Params
	}
	one := of(1)
	for _, n := range []int{5, 20} {
		if d := distance(one, of(n)); d > 0.03 {
			t.Errorf("n_push = n_fetch = %d: %g from pushing every gradient", n, d)
		}
	}
}

// DANA is DANA-Slim seen from where it looks ahead, also where an update is the
// mean of several gradients.
func TestDANAInGroups(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for _, p := range []string{"softsync(n=1)", "kbatchasync(k=2)"} {
		of := func(text string) []float32 {
			o, _ := runOn(t, simulated(0), job(t, policy(p), optimizer("sgd"), corrector(text), learning(0.02), func(j *train.Job) { j.Updates = 200 }), nil)
			return o.Params
		}
		// What is left is Slim's being ahead of where DANA is evaluated.
		if d := distance(of("dana"), of("dana_slim")); d > 0.02 {
			t.Errorf("%s: dana is %g from dana_slim", p, d)
		}
	}
}

// What cannot work is refused before it runs.
func TestLateRefusals(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]option{
		"never wait for others, as they may with policy ssp":    {mode("downpour"), policy("ssp(slack=3)")},
		"never wait for others, as they may with policy kasync": {mode("downpour"), policy("kasync(k=2)")},
		"may drop a push":           {policy("bounded(max=1)"), with("ef21(topk(keep=0.1))"), optimizer("sgd")},
		"brings its own momentum":   {policy("asp"), corrector("dana_slim")},
		"chain(clip,adam) has one":  {policy("asp"), corrector("multi_asgd"), optimizer("chain(clip,adam)")},
		"rmsprop(momentum=0.5) has": {policy("asp"), corrector("implicit"), optimizer("rmsprop(momentum=0.5)")},
	} {
		j := job(t)
		for _, o := range opts {
			o(j)
		}
		if err := j.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if err := job(t, policy("asp"), corrector("dana"), optimizer("rmsprop")).Check(); err != nil {
		t.Error(err)
	}
	// A rule of one's own says it of itself, whatever its slots are called.
	j := job(t, policy("asp"), corrector("dana"), optimizer("sgd"))
	j.Optimizer = heavy{}
	if err := j.Check(); err == nil || !strings.Contains(err.Error(), "brings its own momentum") {
		t.Errorf("an optimizer that claims a momentum: %v", err)
	}
}

// heavy is a heavy ball from elsewhere, which keeps its velocity in "buf".
type heavy struct{}

func (heavy) Momentous() bool { return true }

func (heavy) New(l sgd.Layout) (sgd.Transform, error) {
	return &heavyBall{make([]float32, l.Size())}, nil
}

type heavyBall struct{ v []float32 }

func (t *heavyBall) Apply(u, _ []float32, s sgd.Step) {
	for i := range u {
		t.v[i] = 0.9*t.v[i] + u[i]
		u[i] = float32(s.LR) * t.v[i]
	}
}

func (t *heavyBall) Slots() []sgd.Slot { return []sgd.Slot{{Name: "buf", V: t.v}} }
