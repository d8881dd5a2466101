package train_test

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// withCores sets the number of cores for the rest of a test.
func withCores(t testing.TB, n int) {
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// crowd is a model that counts the passes that compute, those that wait for a
// peer in Need left out, and notes the most at once and their threads.
type crowd struct {
	sgd.Model
	want               int32 // passes that must be seen at once
	now, most, threads *atomic.Int32
}

func newCrowd(m sgd.Model, want int) crowd {
	return crowd{m, int32(want), new(atomic.Int32), new(atomic.Int32), new(atomic.Int32)}
}

func raise(to *atomic.Int32, n int32) {
	for m := to.Load(); n > m && !to.CompareAndSwap(m, n); m = to.Load() {
	}
}

func (c crowd) enter() {
	raise(c.most, c.now.Add(1))
	for range 200 { // the others have time to come, as long as they have not been seen
		if time.Sleep(50 * time.Microsecond); c.most.Load() >= c.want {
			return
		}
	}
}

func (c crowd) leave() { c.now.Add(-1) }

func (c crowd) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	c.enter()
	defer c.leave()
	raise(c.threads, int32(p.Threads))
	if need := p.Need; need != nil {
		p.Need = func(span int) error {
			c.leave()
			defer c.enter()
			return need(span)
		}
	}
	return c.Model.Grad(ctx, p, b)
}

func (c crowd) Eval(params []float32, s sgd.Scratch, b sgd.Batch) (sgd.Score, error) {
	c.enter()
	defer c.leave()
	return c.Model.Eval(params, s, b)
}

// However many workers there are, no more passes compute at once than the cores
// have room for, and as many as that do.
func TestGateOfCores(t *testing.T) {
	all := []struct{ cores, threads, passes int }{
		{2, 0, 2}, {4, 2, 2}, {1, 0, 1}, {2, 1, 2}, {2, 2, 1}, {4, 3, 1}, {2, 8, 1},
	}
	if !patience.Long {
		all = all[:2]
	}
	for _, c := range all {
		for name, opts := range map[string][]option{
			"bsp": {}, "asp": {policy("asp")}, "reduce": {mode("reduce")},
			"bsp overlap":    {func(j *train.Job) { j.Overlap, j.Servers = train.Buckets{}, 2 }},
			"reduce overlap": {mode("reduce"), func(j *train.Job) { j.Overlap = train.Buckets{} }},
			"downpour":       {mode("downpour"), policy("asp")},
		} {
			for netName, net := range map[string]comm.Net{"local": &local.Net{}, "sim": simulated(0)} {
				t.Run(fmt.Sprintf("%d cores, threads %d, %s on %s", c.cores, c.threads, name, netName), func(t *testing.T) {
					withCores(t, c.cores)
					var m crowd
					runOn(t, net, job(t, append(opts, func(j *train.Job) {
						m = newCrowd(j.Model, c.passes)
						j.Model, j.Threads, j.Workers, j.Updates, j.EvalEvery = m, c.threads, 6, 12, 4
					})...), nil)
					if got := int(m.most.Load()); got > c.passes {
						t.Errorf("%d passes at once, want at most %d", got, c.passes)
					} else if got < c.passes {
						t.Errorf("never more than %d passes at once, want %d", got, c.passes)
					}
					if got := int(m.threads.Load()); got != c.threads {
						t.Errorf("passes may use %d threads, want %d", got, c.threads)
					}
				})
			}
		}
	}
}

// The number of cores and of threads changes no bit, where a run is a function
// of its programs at all: everywhere on the virtual cluster, and on real clocks
// if it is synchronous.
func TestBitsDoNotDependOnCores(t *testing.T) {
	if !patience.Long {
		t.Skip("ten seconds")
	}
	nets := map[string]func() comm.Net{"local": func() comm.Net { return &local.Net{} }, "sim": func() comm.Net { return simulated(0) }}
	for _, c := range []struct {
		name, net string
		opts      []option
	}{
		{"reduce", "sim", []option{mode("reduce")}},
		{"reduce", "local", []option{mode("reduce")}},
		{"reduce overlap", "local", []option{mode("reduce"), func(j *train.Job) { j.Overlap = train.Buckets{} }}},
		{"bsp", "sim", nil},
		{"bsp", "local", []option{func(j *train.Job) { j.Servers = 2 }}},
		{"bsp overlap", "local", []option{func(j *train.Job) { j.Overlap, j.Servers = train.Buckets{}, 2 }}},
		{"asp", "sim", []option{policy("asp")}},
		{"downpour", "sim", []option{mode("downpour"), policy("asp"), optimizer("adagrad")}},
	} {
		t.Run(c.name+" on "+c.net, func(t *testing.T) {
			var want string
			var eval record.Eval
			for _, cores := range []int{1, 2} {
				for _, threads := range []int{0, 1, 2} {
					withCores(t, cores)
					o, s := runOn(t, nets[c.net](), job(t, append(c.opts, wide, func(j *train.Job) { j.Threads = threads })...), nil)
					first := s.evals[0]
					first.Seconds = 0
					if want == "" {
						want, eval = o.SHA256, first
					}
					if o.SHA256 != want {
						t.Errorf("%d cores, threads %d: other bits", cores, threads)
					}
					if !reflect.DeepEqual(first, eval) {
						t.Errorf("%d cores, threads %d: evaluated to %+v, want %+v", cores, threads, first, eval)
					}
				}
			}
		})
	}
}

// wide is a job whose passes, updates and evaluations are worth several threads.
func wide(j *train.Job) {
	shape := sgd.Shape{C: 1, H: 12, W: 12}
	m, err := nn.Models.MustParse("mlp(hidden=[300,100])").New(sgd.Sample{Shape: shape, Classes: 10})
	if err != nil {
		panic(err)
	}
	j.Model, j.Batch, j.Updates, j.EvalEvery = m, 32, 16, 8
	j.Data = sgd.Dataset{Name: "clusters", Train: clusters{1000, shape, 3, false}, Test: clusters{700, shape, 3, true}}
}

// A step allocates nothing in steady state: reports, evaluations and
// checkpoints do.
func TestStepAllocatesNothing(t *testing.T) {
	if !patience.Long {
		t.Skip("long runs")
	}
	shape := sgd.Shape{C: 1, H: 4, W: 4}
	data := newConstant(shape, 16)
	for name, opts := range map[string][]option{
		"reduce": {mode("reduce")}, "server": {}, "server, 2 shards": {func(j *train.Job) { j.Servers = 2 }},
		"asp":      {policy("asp")},
		"downpour": {mode("downpour"), policy("asp")},
		"composed": {policy("asp"), func(j *train.Job) { j.Mode = composed{} }},
		"easgd":    {mode("easgd(tau=1)"), policy("asp")},
	} {
		for _, workers := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d workers", name, workers), func(t *testing.T) {
				mallocs := func(updates int) float64 {
					var a, b runtime.MemStats
					j := job(t, append(opts, func(j *train.Job) {
						j.Workers, j.Batch, j.Updates = workers, 16/workers, updates
						j.Data = sgd.Dataset{Train: data, Test: data}
					})...)
					runtime.ReadMemStats(&a)
					runOn(t, &local.Net{}, j, nil)
					runtime.ReadMemStats(&b)
					return float64(b.Mallocs - a.Mallocs)
				}
				const few, many = 800, 8800 // both report 400 times
				if n := (mallocs(many) - mallocs(few)) / (many - few); n > 0.5 {
					t.Errorf("%.2f allocations an update", n)
				} else {
					t.Logf("%.2f allocations an update", n)
				}
			})
		}
	}
}
