package train_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/grpcnet"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// processes runs every rank on a net of its own, and with a job of its own, as
// processes would, over loopback.
type processes struct {
	t    testing.TB
	opts []option
}

func (p processes) Run(ctx context.Context, programs []comm.Program) error {
	id := []grpcnet.Field{{Name: "test", Value: p.t.Name()}}
	last := len(programs) - 1
	lead, err := grpcnet.New(grpcnet.Config{Ranks: []int{last}, World: len(programs), Identity: id, Token: "0f1e2d3c4b5a69788796a5b4c3d2e1f0", Run: 42})
	if err != nil {
		return err
	}
	nets := []*grpcnet.Net{lead}
	for r := range last {
		j := job(p.t, append(p.opts[:len(p.opts):len(p.opts)], func(j *train.Job) { j.Here = 1 })...)
		if programs[r], err = j.Program(r); err != nil {
			return err
		}
		n, err := grpcnet.New(grpcnet.Config{Ranks: []int{r}, World: len(programs), Coordinator: lead.Addr(), Identity: id, Token: "0f1e2d3c4b5a69788796a5b4c3d2e1f0", Run: 42})
		if err != nil {
			return err
		}
		nets = append(nets, n)
	}
	errs := make([]error, len(nets))
	var wg sync.WaitGroup
	for i, n := range nets {
		wg.Go(func() {
			defer n.Close()
			errs[i] = n.Run(ctx, []comm.Program{programs[(last+i)%len(programs)]})
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func rate(text string) option {
	return func(j *train.Job) { j.Schedule = lrschedule.Specs.MustParse(text) }
}
func graph(text string) option {
	return func(j *train.Job) { j.Graph = collective.Graphs.MustParse(text) }
}
func outer(text string) option {
	return func(j *train.Job) { j.Outer = sgd.Optimizers.MustParse(text) }
}

// each is how many updates a step of every worker is.
func each(j *train.Job) int {
	if j.PerUpdate() == 1 {
		return j.Workers
	}
	return 1
}

// apart are modes whose workers step on parameters of their own.
var apart = []struct {
	name string
	free bool // bits depend on who comes first
	opts []option
}{
	{"local SGD", false, []option{mode("localsgd(h=4)"), rate("constant(lr=0.02)")}},
	{"local SGD, codec", false, []option{mode("localsgd(h=3)"), with("feedback(topk(keep=0.2))"), rate("constant(lr=0.02)")}},
	{"local SGD, powersgd", false, []option{mode("localsgd(h=3)"), with("feedback(powersgd(rank=2))"), rate("constant(lr=0.02)")}},
	{"post-local SGD", false, []option{mode("localsgd(h=5,start=33,inner=average)"), rate("constant(lr=0.02)")}},
	{"SlowMo", false, []option{mode("localsgd(h=6,by_rate=true,inner=reset)"), outer("momentum(beta=0.5)"), rate("cosine(lr=0.02)")}},
	{"DiLoCo", false, []option{mode("localsgd(h=10,lr=0.7)"), outer("nesterov(beta=0.6)"), optimizer("adam"), rate("constant(lr=0.01)")}},
	{"EASGD, sync", false, []option{mode("easgd(tau=4)"), optimizer("sgd"), rate("constant(lr=0.1)")}},
	{"EASGD, sync, 3 shards", false, []option{mode("easgd(tau=2)"), optimizer("sgd"), rate("constant(lr=0.1)"), func(j *train.Job) { j.Servers = 3 }}},
	{"EASGD, codec both ways", false, []option{mode("easgd(tau=2)"), optimizer("sgd"), rate("constant(lr=0.1)"), with("topk(keep=0.3)"), down("topk(keep=0.5)")}},
	{"EASGD", true, []option{mode("easgd(tau=4,beta=0.9)"), policy("asp"), optimizer("sgd"), rate("constant(lr=0.1)")}},
	{"EAMSGD", true, []option{mode("easgd(tau=4)"), policy("asp"), optimizer("nesterov"), rate("constant(lr=0.02)"), func(j *train.Job) { j.Servers = 2 }}},
	{"D-PSGD", false, []option{mode("dpsgd"), graph("ring")}},
	{"D-PSGD, pairs, fp16", false, []option{mode("dpsgd(adapt=true)"), graph("pairs"), with("fp16")}},
	{"SGP", false, []option{mode("sgp"), graph("one_peer")}},
	{"overlap-SGP", false, []option{mode("sgp(late=2)"), graph("one_peer")}},
	{"CHOCO", false, []option{mode("choco(gamma=0.4)"), graph("ring"), with("topk(keep=0.2)")}},
	{"CHOCO, random", false, []option{mode("choco(gamma=0.1)"), graph("ring"), with("contraction(qsgd(bits=4))")}},
	{"AD-PSGD", true, []option{mode("adpsgd"), graph("ring")}},
	{"AD-PSGD, fp16", true, []option{mode("adpsgd"), graph("complete"), with("fp16")}},
	{"AGP", true, []option{mode("agp"), graph("one_peer"), optimizer("sgd")}},
}

// Modes with parameters apart learn, end with the same bits on every net unless
// nobody waits for anybody, and repeat themselves on the virtual cluster.
func TestApart(t *testing.T) {
	t.Parallel()
	updates, right := 200, 0.8
	if !patience.Long { // that they run, not that they learn
		updates, right = 20, 0
	}
	for _, c := range apart {
		t.Run(c.name, func(t *testing.T) {
			opts := append(c.opts, func(j *train.Job) {
				j.Updates, j.EvalEvery = updates*each(j), updates/4*each(j)
			})
			vir, s := runOn(t, simulated(0), job(t, opts...), nil)
			if vir.Final.Values["accuracy"] < right || vir.Final.Step != vir.Job.Updates {
				t.Errorf("ended with %+v", vir.Final)
			}
			if patience.Long && len(s.evals) < 3 {
				t.Errorf("%d evaluations", len(s.evals))
			}
			repeats(t, vir, opts)
			least := right
			if c.free { // one worker may be done before the others have begun: the virtual cluster judges what is learned
				least = 0
			}
			loc, _ := runOn(t, &local.Net{}, job(t, opts...), nil)
			if f := loc.Final; f.Values["accuracy"] < least || f.Step != loc.Job.Updates || math.IsNaN(f.Values["loss"]) || math.IsInf(f.Values["loss"], 0) {
				t.Errorf("local ended with %+v", f)
			}
			few := append(opts, func(j *train.Job) { j.Updates = 20 * each(j) })
			short, _ := runOn(t, simulated(0), job(t, few...), nil)
			proc, _ := runOn(t, processes{t, few}, job(t, few...), nil)
			if proc.Final.Step != proc.Job.Updates {
				t.Errorf("grpc ended with %+v", proc.Final)
			}
			if !c.free && (loc.SHA256 != vir.SHA256 || proc.SHA256 != short.SHA256) {
				t.Error("local, grpc and sim differ in their bits")
			}
		})
	}
}

// A run resumed at any mark ends with the bits of one that was not stopped.
func TestApartResumes(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for i, c := range apart {
		if !patience.Long && i%4 != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			opts := append(c.opts, func(j *train.Job) { j.CheckpointEvery, j.Updates, j.EvalEvery = 25, 90*each(j), 20 })
			whole, _, again := resumes(t, 2, opts...)
			for _, o := range again {
				sameSteps(t, whole, o)
				if len(c.opts) > 0 && o.Final.Step != whole.Final.Step {
					t.Errorf("ended at step %d, not %d", o.Final.Step, whole.Final.Step)
				}
			}
		})
	}
}

// Stopping ends every mode with a checkpoint that goes on.
func TestApartStops(t *testing.T) {
	t.Parallel()
	for _, c := range apart {
		t.Run(c.name, func(t *testing.T) {
			for name, mk := range map[string]func() comm.Net{"local": func() comm.Net { return &local.Net{} }, "sim": func() comm.Net { return simulated(0) }} {
				updates := 200
				if c.free && name == "local" { // they are quick
					updates = 20000
				}
				polls := 0
				var mu sync.Mutex
				o, s := stops(t, mk(), job(t, append(c.opts, func(j *train.Job) {
					j.Updates = updates * each(j)
					j.Stopping = func() bool { mu.Lock(); defer mu.Unlock(); polls++; return polls > 10 }
				})...))
				if s.last == nil || o.Final.Step >= o.Job.Updates {
					t.Errorf("%s: no checkpoint, or not stopped: %+v", name, o.Final)
					continue
				}
				stopped := false
				for _, r := range o.Reports {
					stopped = stopped || r.Stopped
				}
				if !stopped {
					t.Errorf("%s: no rank says that it was stopped", name)
				}
				full, _ := runOn(t, mk(), job(t, append(c.opts, func(j *train.Job) { j.Updates = o.Final.Step + 40 })...), s.last)
				if full.Final.Step != o.Final.Step+40 {
					t.Errorf("%s: went on to step %d", name, full.Final.Step)
				}
			}
		})
	}
}

// In its limits local SGD is synchronous SGD: with rounds of one step, with one
// worker, and before its start.
func TestLocalSGDLimits(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	few := func(j *train.Job) { j.Updates = 120 }
	sync, _ := runOn(t, simulated(0), job(t, mode("reduce"), few), nil)
	one := func(j *train.Job) { j.Workers, j.Batch, j.Updates = 1, 32, 120 }
	alone, _ := runOn(t, simulated(0), job(t, mode("reduce"), one), nil)
	for name, c := range map[string]struct {
		o    *train.Observer
		opts []option
	}{
		"rounds of one step":      {sync, []option{mode("localsgd(h=1)"), few}},
		"averaged until the end":  {sync, []option{mode("localsgd(h=7,start=120)"), few}},
		"reset from its start on": {sync, []option{mode("localsgd(h=7,start=120,inner=reset)"), few}},
		"averaged moments too":    {sync, []option{mode("localsgd(h=1,inner=average)"), few}},
		"one worker":              {alone, []option{mode("localsgd(h=7)"), one}},
	} {
		o, _ := runOn(t, simulated(0), job(t, c.opts...), nil)
		if d := distance(c.o.Params, o.Params); d > 1e-5 {
			t.Errorf("%s: relative distance to synchronous SGD is %g", name, d)
		}
	}
}

// At an inner rate of 0 SlowMo stands still: its outer rate is a multiple of the
// inner one.
func TestSlowMoRestsAtRateZero(t *testing.T) {
	t.Parallel()
	slowmo := func(updates int) *train.Observer {
		o, _ := runOn(t, simulated(0), job(t, mode("localsgd(h=5,by_rate=true)"), outer("momentum(beta=0.5)"), optimizer("sgd"),
			rate("step(lr=0.1,at=[1],factor=0)"), func(j *train.Job) { j.Batch, j.Updates = 25, updates }), nil) // ten steps an epoch
		return o
	}
	if d := distance(slowmo(10).Params, slowmo(30).Params); d != 0 {
		t.Errorf("twenty steps at rate 0 move the parameters by %g of their length", d)
	}
}

// With inner=reset the moments, and the steps that adam counts, go on through the
// start phase; the first round of several steps begins without them.
func TestLocalSGDResetsFromItsStart(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	adam := func(inner string, updates int) string {
		o, _ := runOn(t, simulated(0), job(t, mode("localsgd(h=5,start=20,inner="+inner+")"), optimizer("adam"), rate("constant(lr=0.01)"),
			func(j *train.Job) { j.Updates = updates }), nil)
		return o.SHA256
	}
	if adam("reset", 20) != adam("keep", 20) {
		t.Error("moments are lost in the start phase")
	}
	if adam("reset", 21) == adam("keep", 21) {
		t.Error("moments of the start phase live on in the first round")
	}
}

// A round costs what one all-reduce costs, however many steps are in it.
func TestLocalSGDBytes(t *testing.T) {
	t.Parallel()
	few := func(j *train.Job) {
		shape := sgd.Shape{C: 1, H: 1, W: 7}
		j.Updates = 21
		j.Model = model(t, "logistic", shape) // 80 parameters
		j.Data = sgd.Dataset{Train: clusters{100, shape, 3, false}, Test: clusters{20, shape, 3, true}}
	}
	for text, rounds := range map[string]int{"localsgd(h=1)": 21, "localsgd(h=4)": 6, "localsgd(h=4,start=5)": 9, "localsgd(h=100)": 1} {
		o, _ := runOn(t, simulated(0), job(t, few, mode(text)), nil)
		for _, r := range o.Reports {
			if got, want := r.Traffic.SentBytes[comm.Gradient], uint64(2*4*80*3/4*rounds); got != want {
				t.Errorf("%s: rank %d sent %d bytes, want %d", text, r.Rank, got, want)
			}
		}
		if want := uint64(4 * 2 * 4 * 80 * 3 / 4 * rounds); o.Final.BytesUp != want {
			t.Errorf("%s: the last evaluation says %d bytes, want %d", text, o.Final.BytesUp, want)
		}
	}
}
