package train_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/lbfgs"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// alone is L-BFGS on one machine: the model on all samples at once.
type alone struct {
	model sgd.Model
	batch sgd.Batch
	mem   lbfgs.Memory
}

func (a *alone) Do(_ context.Context, ops ...lbfgs.Op) ([]float64, error) {
	return a.mem.Do(nil, ops), nil
}

func (a *alone) Evaluate(ctx context.Context) (float64, error) {
	return a.model.Grad(ctx, sgd.Pass{Params: a.mem[lbfgs.X], Grad: a.mem[lbfgs.G], Scratch: a.model.NewScratch()}, a.batch)
}

// single is where L-BFGS on one machine is after so many iterations.
func single(t *testing.T, j *train.Job, history, iterations int) []float32 {
	a := &alone{model: j.Model, mem: lbfgs.NewMemory(history, j.Model.Layout().Size())}
	if err := j.Data.Train.Batch(sgd.Draw{N: j.Data.Train.Len()}, &a.batch); err != nil {
		t.Fatal(err)
	}
	j.Model.Init(a.mem[lbfgs.X], j.Seed)
	m := lbfgs.New(a, history)
	for range iterations {
		if _, err := m.Iterate(context.Background()); errors.Is(err, lbfgs.ErrConverged) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return a.mem[lbfgs.X]
}

func blasting(updates int, opts ...option) []option {
	return append([]option{mode("sandblaster"), optimizer("sgd"), func(j *train.Job) { j.Updates, j.Servers, j.Batch = updates, 2, 30 }}, opts...)
}

func small(name string, samples int) option {
	return func(j *train.Job) {
		shape := sgd.Shape{C: 1, H: 2, W: 4}
		j.Model = model(nil, name, shape)
		j.Data = sgd.Dataset{Train: clusters{samples, shape, 3, false}, Test: clusters{200, shape, 3, true}}
	}
}

func accounted(t *testing.T, o *train.Observer) (applied, rejected uint64) {
	t.Helper()
	var sent uint64
	for _, r := range o.Reports {
		sent += r.Sent
		applied += r.Ledger.Applied
		rejected += r.Ledger.Rejected
	}
	for _, r := range o.Reports {
		for w, n := range r.Taken {
			if dead := !hasRank(o, w); dead {
				sent += n
			}
		}
	}
	if sent != applied+rejected {
		t.Errorf("ledger: sent %d, applied %d, rejected %d", sent, applied, rejected)
	}
	return applied, rejected
}

func hasRank(o *train.Observer, rank int) bool {
	for _, r := range o.Reports {
		if r.Rank == rank {
			return true
		}
	}
	return false
}

// Spread over workers and shards, it goes where one machine goes, on every net,
// with portions that do not divide the batch.
func TestSandblasterIsLBFGS(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		model      string
		iterations int
		apart      float64
	}{{"quadratic(dim=50,condition=30,noise=0)", 20, 1e-4}, {"logistic", 15, 1e-3}, {"mlp(hidden=[6])", 8, 1e-3}} {
		j := job(t, blasting(c.iterations, small(c.model, 1000))...)
		want := single(t, j, 10, c.iterations)
		vir, _ := runOn(t, simulated(0), j, nil)
		loc, _ := runOn(t, &local.Net{}, job(t, blasting(c.iterations, small(c.model, 1000))...), nil)
		for net, o := range map[string]*train.Observer{"sim": vir, "local": loc} {
			if d := distance(want, o.Params); d > c.apart || o.Final.Step != c.iterations {
				t.Errorf("%s on %s: %g apart after %d iterations", c.model, net, d, o.Final.Step)
			}
			accounted(t, o)
		}
		again, _ := runOn(t, simulated(0), job(t, blasting(c.iterations, small(c.model, 1000))...), nil)
		if again.SHA256 != vir.SHA256 || !reflect.DeepEqual(again.Final, vir.Final) {
			t.Errorf("%s: two virtual runs differ", c.model)
		}
	}
}

// What crosses the network is exact: a gradient a portion, the point once an
// evaluation and worker; and the coordinator sees none of either.
func TestSandblasterBytes(t *testing.T) {
	t.Parallel()
	const n = 8*10 + 10 // of logistic
	j := job(t, blasting(6, small("logistic", 960), mode("sandblaster(backup=0)"), func(j *train.Job) { j.Timing.Law = nil })...)
	o, _ := runOn(t, simulated(0), j, nil)
	applied, rejected := accounted(t, o)
	evaluations := o.Final.Samples / 960
	if applied != 2*32*evaluations || rejected != 0 {
		t.Errorf("%d evaluations, %d applied, %d rejected", evaluations, applied, rejected)
	}
	if up, down := 32*evaluations*4*n, 4*evaluations*4*n; o.Final.BytesUp != up || o.Final.BytesDown != down {
		t.Errorf("up %d, down %d, want %d and %d", o.Final.BytesUp, o.Final.BytesDown, up, down)
	}
	for _, r := range o.Reports {
		if r.Role != "coordinator" {
			continue
		}
		c := r.Traffic
		for _, k := range []comm.Kind{comm.Gradient, comm.Parameters} {
			if c.SentFrames[k]+c.RecvFrames[k] > 0 {
				t.Errorf("the coordinator dealt in %v", k)
			}
		}
		// Two dozen short commands an iteration, to two shards.
		if most := 6 * 2 * 1000; c.SentBody[comm.Control] > uint64(most) {
			t.Errorf("the coordinator sent %d bytes of commands", c.SentBody[comm.Control])
		}
	}
}

// One worker of eight that is ten times slower holds everybody up at the end of
// every batch, unless what it is at is copied.
func TestSandblasterBackup(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	run := func(m, slow string) (*train.Observer, float64) {
		j := job(t, blasting(5, small("mlp(hidden=[16])", 2400), mode(m), func(j *train.Job) {
			j.Workers, j.Batch, j.Timing.FLOPS = 8, 25, 1e7
			j.Timing.Slow, _ = timing.ParseSlow(slow)
		})...)
		o, _ := runOn(t, simulated(0), j, nil)
		accounted(t, o)
		return o, o.Final.Seconds
	}
	_, even := run("sandblaster(backup=0)", "none")
	_, held := run("sandblaster(backup=0)", "1x10")
	_, helped := run("sandblaster", "1x10")
	t.Logf("%.4f s; with a slow worker %.4f s, with copies %.4f s", even, held, helped)
	if held < 1.3*even || helped > 1.15*even*8/7 {
		t.Errorf("%.4f s; with a slow worker %.4f s, with copies %.4f s", even, held, helped)
	}
}

// A copy that comes second is rejected and in the ledger, and changes nothing.
func TestSandblasterCopies(t *testing.T) {
	t.Parallel()
	run := func(m string) *train.Observer {
		j := job(t, blasting(5, small("logistic", 990), mode(m), func(j *train.Job) { j.Workers, j.Timing.FLOPS, j.Timing.Law = 8, 1e6, nil })...)
		o, _ := runOn(t, &sim.Net{Network: &sim.Fair{Bandwidth: 1e6, Latency: 20 * time.Millisecond}}, j, nil)
		return o
	}
	plain, copied := run("sandblaster(backup=0)"), run("sandblaster(backup=3)")
	applied, rejected := accounted(t, copied)
	if want, _ := accounted(t, plain); applied != want || rejected == 0 {
		t.Errorf("applied %d, want %d; rejected %d", applied, want, rejected)
	}
	if d := distance(plain.Params, copied.Params); d > 1e-4 {
		t.Errorf("copies lead %g astray", d)
	}
	causes := map[string]uint64{}
	for _, r := range copied.Reports {
		for cause, n := range r.Causes {
			causes[cause] += n
		}
	}
	if causes["a copy came first"] == 0 {
		t.Errorf("causes %v", causes)
	}
}

// Workers that die leave their portions to others; all of them is too many.
func TestSandblasterOutlivesWorkers(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	opts := blasting(8, small("logistic", 1000), func(j *train.Job) { j.Timing.FLOPS = 1e7 })
	whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
	net := simulated(0).(*sim.Net)
	for i, share := range []float64{0.3, 0.31, 0.7} {
		net.Faults = append(net.Faults, nemesis.Act{Rank: 3 - i, At: time.Duration(share * whole.Final.Seconds * 1e9)})
	}
	o, _ := runOn(t, net, job(t, opts...), nil)
	accounted(t, o)
	if d := distance(whole.Params, o.Params); d > 1e-3 || len(o.Dead) != 3 || o.Final.Step != 8 {
		t.Errorf("%g apart, %d iterations, dead: %q", d, o.Final.Step, o.Dead)
	}
	net.Faults = append(net.Faults, nemesis.Act{Rank: 0, At: time.Duration(0.8 * whole.Final.Seconds * 1e9)})
	j := job(t, opts...)
	programs, err := j.Programs(&train.Observer{Job: j, Sink: &sink{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := net.Run(context.Background(), programs); err == nil || !strings.Contains(err.Error(), "all workers are gone") {
		t.Errorf("without workers: %v", err)
	}
}

// Resumed at any mark, it ends with the same bits, whole batch or portions.
func TestSandblasterResumes(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for _, m := range []string{"sandblaster(history=3)", "sandblaster(portions=12,history=4)"} {
		opts := blasting(9, small("mlp(hidden=[6])", 1000), mode(m), func(j *train.Job) { j.CheckpointEvery, j.EvalEvery = 2, 3 })
		whole, s, again := resumes(t, 4, opts...)
		if len(s.states) != 4 || len(s.evals) != 3 {
			t.Fatalf("%s: %d checkpoints, %d evaluations", m, len(s.states), len(s.evals))
		}
		for _, o := range again {
			if o.Final.Seconds != whole.Final.Seconds || o.Final.Samples != whole.Final.Samples {
				t.Errorf("%s: %+v, want %+v", m, o.Final, whole.Final)
			}
			accounted(t, o)
		}
	}
}

// A run that is stopped leaves a checkpoint that goes on, on real clocks too.
func TestSandblasterStops(t *testing.T) {
	t.Parallel()
	for name, mk := range map[string]func() comm.Net{"local": func() comm.Net { return &local.Net{} }, "sim": func() comm.Net { return simulated(0) }} {
		polls := 0
		opts := blasting(10, small("logistic", 1000))
		o, s := stops(t, mk(), job(t, append(opts, func(j *train.Job) { j.Stopping = func() bool { polls++; return polls > 3 } })...))
		if at := map[string]int{"local": 4, "sim": 8}[name]; s.last == nil || o.Final.Step != at { // at a mark
			t.Fatalf("%s: not stopped: %+v", name, o.Final)
		}
		full, _ := runOn(t, mk(), job(t, append(opts, func(j *train.Job) { j.CheckpointEvery = o.Job.CheckpointEvery })...), s.last)
		if full.Final.Step != 10 {
			t.Errorf("%s: went on to step %d", name, full.Final.Step)
		}
		accounted(t, full)
	}
}

// A step that leads where there is no loss is taken back.
func TestSandblasterWhereThereIsNoLoss(t *testing.T) {
	t.Parallel()
	far := 0.0
	var beyond atomic.Int32
	j := job(t, blasting(4, small("logistic", 300), func(j *train.Job) {
		start := make([]float32, j.Model.Layout().Size())
		j.Model.Init(start, j.Seed)
		far = 1.2 * sumSq(start)
		j.Model = edge{j.Model, far, &beyond}
	})...)
	o, _ := runOn(t, simulated(0), j, nil)
	accounted(t, o)
	for _, r := range o.Reports {
		if r.Zeroed != 0 {
			t.Errorf("rank %d counts %d gradients as lost", r.Rank, r.Zeroed)
		}
	}
	if at := sumSq(o.Params); o.Final.Step == 0 || at > far || beyond.Load() == 0 {
		t.Errorf("%d iterations, %d gradients beyond the edge, to %g of %g", o.Final.Step, beyond.Load(), at, far)
	}
}

// edge has no loss beyond a squared norm of far.
type edge struct {
	sgd.Model
	far    float64
	beyond *atomic.Int32 // gradients asked for there
}

func (e edge) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	loss, err := e.Model.Grad(ctx, p, b)
	if sumSq(p.Params) > e.far {
		e.beyond.Add(1)
		p.Grad[0] = float32(math.NaN())
	}
	return loss, err
}

func sumSq(x []float32) (s float64) {
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return s
}

// Workers come into runs and leave them between iterations, by plan, and as other processes
// in the place of the dead, who take portions at once. The result is that of a run in which
// nobody does, but for the order of sums, on real clocks too, and after a stop at any mark.
func TestSandblasterOpen(t *testing.T) {
	t.Parallel()
	draws := 4 // of faults
	if !patience.Long {
		draws = 1
	}
	for _, m := range []string{"sandblaster", "sandblaster(portions=40,backup=2)"} {
		opts := blasting(12, small("logistic", 1000), mode(m), func(j *train.Job) { j.Elastic, j.CheckpointEvery, j.Timing.FLOPS = true, 2, 1e7 })
		whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
		near := func(o *train.Observer, what string) {
			t.Helper()
			checkOpen(t, o)
			if d := distance(whole.Params, o.Params); d > 1e-3 || t.Failed() {
				t.Fatalf("%s, %s: %g apart", m, what, d)
			}
		}
		plan := append(opts, leaving(train.Departure{Worker: 1, Step: 3}, train.Departure{Worker: 3, Step: 9}), joining(train.Joining{Worker: 0, Step: 5}, train.Joining{Worker: 1, Step: 7}))
		o, s := runOn(t, simulated(0), job(t, plan...), nil)
		near(o, "by plan")
		if n := len(o.Members); n != 5 || !slices.Equal(o.Members[n-1].Workers, []int{0, 1, 2}) || !slices.Equal(o.Members[0].Workers, []int{1, 2, 3}) {
			t.Errorf("%s: memberships %+v", m, o.Members)
		}
		real, _ := runOn(t, &local.Net{}, job(t, plan...), nil)
		near(real, "on a real clock")
		all := []*sink{s}
		for seed := range draws {
			faults := fmt.Sprintf("kill(w1,at=%v)+rejoin(w1,at=%v)+poisson(every=%v,of=[kill,rejoin,rejoin,pause],ranks=[w*],for=2ms,until=1s,seed=%d)",
				seconds(0.2*whole.Final.Seconds), seconds(0.3*whole.Final.Seconds), seconds(whole.Final.Seconds/15), seed+1)
			o, s := runOn(t, faulty(t, faults), job(t, plan...), nil)
			near(o, faults)
			all = append(all, s)
		}
		for i, s := range all {
			for at, st := range s.states {
				if leftOut(fmt.Sprint(m, i, at), 4) {
					continue
				}
				again, _ := runOn(t, simulated(seconds(float64(st.Ints["nanoseconds"])/1e9)), job(t, plan...), st)
				near(again, fmt.Sprintf("run %d resumed at %d", i, at))
			}
		}
	}
}

func TestSandblasterRefuses(t *testing.T) {
	t.Parallel()
	for want, opt := range map[string]option{
		"set optimizer=sgd":             optimizer("adam"),
		"set policy=bsp":                policy("asp"),
		"differences of":                with("topk(keep=0.1)"),
		"nothing to overlap":            func(j *train.Job) { j.Overlap = train.Buckets{} },
		"take order_log out of observe": func(j *train.Job) { j.LogOrder = true },
		"statistics (batch norm)":       func(j *train.Job) { j.Model = model(t, "resnet20", sgd.Shape{C: 3, H: 32, W: 32}) },
	} {
		j := job(t, blasting(3)...)
		opt(j)
		j.Schedule = lrschedule.Constant{LR: 0.1}
		if err := j.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for _, text := range []string{"sandblaster(history=0)", "sandblaster(portions=-1)", "sandblaster(backup=-1)"} {
		if _, err := train.Modes.Parse(text); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}
