package train_test

import (
	"math"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"

	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/gossip"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// Every mode beside the equations of its paper: a short run through the engine on
// the virtual cluster, and the same computed by plain loops in float64 that take
// from the engine only what chance decides, the order in which ranks met.

// vec is a vector of the second computation.
type vec = []float64

// follow computes where a run ends: what its observer evaluates. It may complain
// of what it finds on the way.
type follow func(t *testing.T, j *train.Job, events []event) vec

// formulas are the runs that are computed twice. Every mode is among them, and
// every option of it away from its default.
var formulas = []struct {
	name string
	opts []option
	by   follow
}{
	{"server", []option{mode("server"), rate("cosine(lr=0.05)")}, bySum},
	{"server, barrier", []option{mode("server(barrier=true)"), optimizer("nesterov"), rate("cosine(lr=0.05)")}, bySum},
	{"server, asp", []option{mode("server"), policy("asp"), rate("cosine(lr=0.02)")}, byServer},
	{"reduce", []option{mode("reduce"), rate("cosine(lr=0.05)")}, bySum},
	{"gather", []option{mode("gather"), optimizer("adam(beta1=0.8,beta2=0.9,eps=0.01)"), rate("cosine(lr=0.02)")}, bySum},

	{"rudra", []option{mode("rudra(tree=2)"), policy("softsync(n=2)"), workers(8), rate("cosine(lr=0.05)")}, byTree},
	{"rudra, by staleness", []option{mode("rudra(tree=3)"), policy("asp"), workers(7), corrector("alpha_tau"), rate("cosine(lr=0.05)")}, byTree},
	{"rudra, threads", []option{mode("rudra(tree=2,threads=true)"), policy("softsync(n=2)"), workers(8), corrector("mean"), rate("cosine(lr=0.05)")}, byTree},

	{"downpour", []option{mode("downpour(n_fetch=3,n_push=2,warm_start=3)"), policy("asp"), optimizer("adagrad(eps=0.001)"), rate("cosine(lr=0.05)")}, byReplicas},
	{"downpour, overlap", []option{mode("downpour(n_fetch=2,n_push=3)"), policy("asp"), optimizer("sgd"), rate("cosine(lr=0.05)"), func(j *train.Job) { j.Overlap = train.Buckets{} }}, byReplicas},
	{"downpour, softsync, by staleness", []option{mode("downpour(n_fetch=2,n_push=2)"), policy("softsync(n=2)"), corrector("alpha_tau"), optimizer("sgd"), rate("cosine(lr=0.05)")}, byReplicas},

	{"EASGD, sync", []option{mode("easgd(tau=3,alpha=0.2)"), optimizer("sgd"), rate("cosine(lr=0.1)")}, byElastic},
	{"EASGD", []option{mode("easgd(tau=4,beta=0.6)"), policy("asp"), optimizer("sgd"), rate("cosine(lr=0.1)")}, byElastic},
	{"EAMSGD", []option{mode("easgd(tau=2)"), policy("asp"), optimizer("nesterov(beta=0.7)"), rate("cosine(lr=0.03)")}, byElastic},

	{"sandblaster", []option{mode("sandblaster(history=3)"), optimizer("sgd"), small("logistic", 300), func(j *train.Job) { j.Updates, j.Servers = 9, 2 }}, byBFGS},
	{"sandblaster, portions", []option{mode("sandblaster(portions=5,history=4,backup=2)"), optimizer("sgd"), small("logistic", 300), func(j *train.Job) { j.Updates, j.Batch = 8, 20 }}, byBFGS},

	{"local SGD", []option{mode("localsgd(h=4)"), rate("cosine(lr=0.05)")}, byRounds},
	{"post-local SGD", []option{mode("localsgd(h=5,start=13,inner=average)"), rate("cosine(lr=0.05)")}, byRounds},
	{"SlowMo", []option{mode("localsgd(h=6,lr=0.8,by_rate=true,inner=reset)"), outer("momentum(beta=0.5)"), rate("cosine(lr=0.05)")}, byRounds},
	{"DiLoCo", []option{mode("localsgd(h=7,lr=0.7)"), outer("nesterov(beta=0.6)"), optimizer("adam"), rate("cosine(lr=0.01)")}, byRounds},
	{"local adam, reset", []option{mode("localsgd(h=6,start=10,inner=reset)"), optimizer("adam"), rate("cosine(lr=0.01)")}, byRounds},

	{"D-PSGD", []option{mode("dpsgd"), graph("ring"), workers(5), rate("cosine(lr=0.05)")}, byGossip},
	{"D-PSGD, adapt", []option{mode("dpsgd(adapt=true)"), graph("pairs"), workers(6), rate("cosine(lr=0.05)")}, byGossip},
	{"SGP", []option{mode("sgp"), graph("one_peer"), workers(5), rate("cosine(lr=0.05)")}, byGossip},
	{"overlap-SGP", []option{mode("sgp(late=2)"), graph("one_peer"), workers(5), optimizer("sgd"), rate("cosine(lr=0.05)")}, byGossip},
	{"CHOCO", []option{mode("choco"), graph("ring"), workers(5), with("topk(keep=0.2)"), rate("cosine(lr=0.05)")}, byKnown},
	{"CHOCO, half", []option{mode("choco(gamma=0.5)"), graph("complete"), with("topk(keep=0.1)"), optimizer("sgd"), rate("cosine(lr=0.1)")}, byKnown},

	{"AD-PSGD", []option{mode("adpsgd"), graph("ring"), workers(5), rate("cosine(lr=0.02)"), uneven}, byPairs},
	{"AGP", []option{mode("agp"), graph("one_peer"), workers(5), optimizer("sgd"), rate("cosine(lr=0.05)"), uneven}, byPushes},
	{"AGP, least", []option{mode("agp(least=0.15)"), graph("ring"), rate("cosine(lr=0.02)"), uneven}, byPushes},
}

// uneven lets workers meet at all times of a step, so that weights gather at some.
func uneven(j *train.Job) {
	j.Timing = timing.Timing{FLOPS: 1e7, Law: timing.Lognormal{Sigma: 0.8}, Slow: timing.Slow{{Count: 1, Factor: 3}}}
}

// apartFormulas are compared elsewhere: hogwild has no virtual clock.
var apartFormulas = []train.Mode{gossip.Hogwild{}} // TestHogwildIsAsPublished

func TestModesAreAsPublished(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	tried := apartFormulas
	for i, c := range formulas {
		j := job(t, append([]option{func(j *train.Job) { j.Updates = 60 }}, c.opts...)...)
		if j.PerUpdate() == 1 { // as many steps of every worker
			j.Updates = 25 * j.Workers
			j.Prepare()
		}
		tried = append(tried, j.Mode)
		if !patience.Long && i%3 != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			net := &tape{Net: simulated(0)}
			o, _ := runOn(t, net, j, nil)
			want := c.by(t, j, net.events)
			if d := apartFrom(want, o.Params); !(d < 2e-5) {
				t.Errorf("relative distance to the paper's equations is %.3g", d)
			}
		})
	}
	for _, what := range train.Modes.Untried(tried...) {
		t.Errorf("mode %s: no run of it is computed by its equations; add one to formulas", what)
	}
}

// apartFrom is the relative distance of got from want.
func apartFrom(want vec, got []float32) float64 {
	var d, n float64
	for i, x := range want {
		d += (float64(got[i]) - x) * (float64(got[i]) - x)
		n += x * x
	}
	return math.Sqrt(d / n)
}

// begin is where all parameters begin.
func begin(j *train.Job) vec {
	x := make([]float32, j.Model.Layout().Size())
	j.Model.Init(x, j.Seed)
	return widen(x)
}

func widen(x []float32) vec {
	out := make(vec, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func narrow(x vec) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

func dup(x vec) vec { return append(vec(nil), x...) }

// add adds scale·y to x.
func add(x vec, scale float64, y vec) {
	for i := range x {
		x[i] += scale * y[i]
	}
}

// gradientAt is the gradient of a worker's step.
func gradientAt(t *testing.T, j *train.Job, x vec, worker, step int) vec {
	return widen(gradient(t, j, narrow(x), worker, step))
}

// learningRate is the rate after so many of the run's updates.
func learningRate(t *testing.T, j *train.Job, updates int) float64 {
	switch s := j.Schedule.(type) {
	case lrschedule.Constant:
		return s.LR
	case lrschedule.Cosine:
		return s.End + (s.LR-s.End)*(1+math.Cos(math.Pi*min(1, float64(updates)/float64(j.Updates))))/2
	}
	t.Fatalf("schedule %s has no formula here", lrschedule.Specs.Spec(j.Schedule))
	return 0
}

// ownRate is the rate of a worker that goes by its own steps.
func ownRate(t *testing.T, j *train.Job, step int) float64 {
	return learningRate(t, j, step*j.Workers/j.PerUpdate())
}

// rule is an update rule with its moments: what is subtracted in step n, from 0 on.
type rule struct {
	of     sgd.Optimizer
	m1, m2 vec
}

func newRule(o sgd.Optimizer, size int) *rule { return &rule{o, make(vec, size), make(vec, size)} }

func (r *rule) update(t *testing.T, g vec, rate float64, n int) vec {
	u := make(vec, len(g))
	for i, x := range g {
		m, s := &r.m1[i], &r.m2[i]
		switch o := r.of.(type) {
		case sgd.Plain:
			u[i] = rate * x
		case sgd.Momentum:
			*m = o.Beta**m + x
			u[i] = rate * *m
		case sgd.Nesterov:
			*m = o.Beta**m + x
			u[i] = rate * (x + o.Beta**m)
		case sgd.Adagrad:
			*s += x * x
			u[i] = rate * x / (math.Sqrt(*s) + o.Eps)
		case sgd.Adam:
			*m, *s = o.Beta1**m+(1-o.Beta1)*x, o.Beta2**s+(1-o.Beta2)*x*x
			mean, square := *m/(1-math.Pow(o.Beta1, float64(n+1))), *s/(1-math.Pow(o.Beta2, float64(n+1)))
			u[i] = rate * mean / (math.Sqrt(square) + o.Eps)
		default:
			t.Fatalf("optimizer %s has no formula here", sgd.Optimizers.Spec(r.of))
		}
	}
	return u
}

// meanOf several vectors.
func meanOf(of []vec) vec {
	out := make(vec, len(of[0]))
	for _, x := range of {
		add(out, 1/float64(len(of)), x)
	}
	return out
}
