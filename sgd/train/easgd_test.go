package train_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/replicas"
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/staleness"
)

// gradient is that of one worker's step, without the engine.
func gradient(t testing.TB, j *train.Job, params []float32, worker, step int) []float32 {
	t.Helper()
	var b sgd.Batch
	d := sgd.Draw{First: uint64(step*j.Workers+worker) * uint64(j.Batch), N: j.Batch}
	if err := j.Data.Train.Batch(d, &b); err != nil {
		t.Fatal(err)
	}
	g := make([]float32, len(params))
	if _, err := j.Model.Grad(context.Background(), sgd.Pass{Params: params, Grad: g, Scratch: j.Model.NewScratch()}, b); err != nil {
		t.Fatal(err)
	}
	return g
}

// The engine's elastic averaging is what the paper's two lines say, computed in
// a loop: synchronous with four workers, and with one worker either way.
func TestEASGDIsElasticAveraging(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	const lr, tau, exchanges = 0.1, 3, 20
	for name, c := range map[string]struct {
		workers int
		policy  string
	}{"bsp": {4, "bsp"}, "asp, one worker": {1, "asp"}} {
		j := job(t, mode("easgd(tau=3,alpha=0.2)"), policy(c.policy), optimizer("sgd"), rate("constant(lr=0.1)"), func(j *train.Job) {
			j.Workers, j.Updates, j.Servers = c.workers, exchanges, 2
		})
		o, _ := runOn(t, simulated(0), j, nil)

		n := j.Model.Layout().Size()
		centre := make([]float32, n)
		j.Model.Init(centre, j.Seed)
		x := make([][]float32, j.Workers)
		for w := range x {
			x[w] = append([]float32(nil), centre...)
		}
		for s := range tau * exchanges {
			at := append([]float32(nil), centre...)
			for w := range x {
				g := gradient(t, j, x[w], w, s)
				for i := range g {
					if (s+1)%tau == 0 {
						f := 0.2 * (at[i] - x[w][i])
						x[w][i] += f
						centre[i] -= f
					}
					x[w][i] -= lr * g[i]
				}
			}
		}
		if d := distance(centre, o.Params); d > 1e-5 {
			t.Errorf("%s: relative distance to the paper's lines is %g", name, d)
		}
	}
}

// A worker fetches the centre and pushes a force, once in tau steps.
func TestEASGDBytes(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"bsp", "asp"} {
		const updates = 12
		j := job(t, mode("easgd(tau=5)"), policy(p), optimizer("sgd"), func(j *train.Job) { j.Updates, j.Servers, j.Timing.Law = updates, 2, nil })
		o, _ := runOn(t, simulated(0), j, nil)
		forces := updates
		if p == "bsp" {
			forces *= j.Workers
		}
		n := uint64(4 * j.Model.Layout().Size())
		var up, down, sent, got uint64
		for _, r := range o.Reports {
			if r.Role == "server" {
				up += r.Traffic.RecvBytes[comm.Gradient]
				down += r.Traffic.SentBytes[comm.Parameters]
				got += r.Ledger.Applied + r.Ledger.Rejected
			} else {
				sent += r.Sent
			}
		}
		if got != sent {
			t.Errorf("%s: %d forces sent, %d accounted for", p, sent, got)
		}
		if p == "bsp" && (up != n*uint64(forces) || down != up) {
			t.Errorf("%s: %d bytes up, %d down, want %d each", p, up, down, n*uint64(forces))
		}
		if up != n*sent/2 { // counted per shard
			t.Errorf("%s: %d bytes up in %d pushes of %d", p, up, sent, n/2)
		}
	}
}

// A slow worker holds up the barrier, not the others.
func TestEASGDWithASlowWorker(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	seconds := map[string]float64{}
	for _, p := range []string{"bsp", "asp"} {
		o, _ := runOn(t, simulated(0), job(t, mode("easgd(tau=4)"), policy(p), optimizer("sgd"), func(j *train.Job) {
			j.Updates, j.Timing.Slow = 40, timing.Slow{{Count: 1, Factor: 50}}
			if p == "asp" {
				j.Updates *= 4
			}
		}), nil)
		seconds[p] = o.Final.Seconds
	}
	if seconds["asp"] > seconds["bsp"]/5 {
		t.Errorf("as many gradients take %v s", seconds)
	}
}

// With a barrier all forces act on the centre at once: more than 1/workers each
// would throw it past the workers' mean.
func TestEASGDRefusesToOvershoot(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{"alpha=0.25": true, "alpha=0.26": false, "beta=1": true} {
		j := job(t)
		mode("easgd(tau=3," + text + ")")(j)
		j.Prepare()
		err := j.Check()
		if ok != (err == nil) || !ok && !strings.Contains(err.Error(), "beta = workers·alpha is 1.04") {
			t.Errorf("%s, bsp, 4 workers: %v", text, err)
		}
		policy("asp")(j)
		if err := j.Check(); err != nil {
			t.Errorf("%s, asp: %v", text, err)
		}
	}
}

// What would break the symmetry of a force is refused.
func TestEASGDRefuses(t *testing.T) {
	t.Parallel()
	for want, opt := range map[string]option{
		"policy":    policy("softsync(n=2)"),
		"corrector": func(j *train.Job) { j.Corrector = staleness.AlphaTau{} },
		"feedback":  with("feedback(topk(keep=0.1))"),
		"ef21":      with("ef21(topk(keep=0.1))"),
		"overlap":   func(j *train.Job) { j.Overlap = train.Buckets{} },
	} {
		j := job(t)
		j.Mode, j.Schedule = replicas.EASGD{Tau: 4, Beta: 0.9}, lrschedule.Constant{LR: 0.1}
		opt(j)
		j.Prepare()
		if err := j.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// whose notes on which parameters each worker took its gradients.
type whose struct {
	sgd.Model
	workers, batch int
	mu             *sync.Mutex
	points         map[int][][]float32
}

func (m whose) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	m.mu.Lock()
	w := int(b.First) / m.batch % m.workers
	m.points[w] = append(m.points[w], slices.Clone(p.Params))
	m.mu.Unlock()
	return m.Model.Grad(ctx, p, b)
}

// A worker that comes into a run begins at the centre as the server has just sent it, and so
// does one that comes back.
func TestEASGDComesAtTheCentre(t *testing.T) {
	t.Parallel()
	points := map[int][][]float32{}
	j := job(t, mode("easgd(tau=2)"), policy("asp"), open, leaving(train.Departure{Worker: 1, Step: 30}),
		joining(train.Joining{Worker: 2, Step: 20}, train.Joining{Worker: 1, Step: 50}), func(j *train.Job) {
			j.Servers = 1
			j.Model = whose{j.Model, j.Workers, j.Batch, new(sync.Mutex), points}
		})
	tp := &tape{Net: simulated(0)}
	runOn(t, tp, j, nil)
	came := map[int]int{}
	for _, e := range tp.events {
		if e.deed != receives || e.Tag != train.TagWelcome {
			continue
		}
		came[e.rank]++
		centre := make([]float32, j.Model.Layout().Size())
		f32.FromBytes(centre, e.body)
		at := slices.IndexFunc(points[e.rank], func(x []float32) bool { return slices.Equal(x, centre) })
		if at < 0 || (at > 0) != (e.rank == 1) {
			t.Errorf("worker %d comes, and the gradient at the centre it was sent is its number %d", e.rank, at)
		}
	}
	if came[1] != 1 || came[2] != 1 {
		t.Errorf("who has come, and how often: %v", came)
	}
}
