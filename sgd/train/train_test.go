package train_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/ps"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/staleness"
)

// clusters is a small data set: Gaussian clusters by address.
type clusters struct {
	n     int
	shape sgd.Shape
	seed  uint64
	fixed bool // no shuffle
}

func (c clusters) Len() int           { return c.n }
func (c clusters) Sample() sgd.Sample { return sgd.Sample{Shape: c.shape, Classes: 10} }
func (c clusters) Batch(d sgd.Draw, b *sgd.Batch) error {
	dim := c.shape.Len()
	if cap(b.X) < d.N*dim {
		b.X, b.Y = make([]float32, d.N*dim), make([]int32, d.N)
	}
	b.X, b.Y = b.X[:d.N*dim], b.Y[:d.N]
	b.N, b.First, b.Seed = d.N, d.First, c.seed
	for i := 0; i < d.N; i++ {
		p := d.First + uint64(i)
		id := int(p) % c.n
		if !c.fixed {
			id = rng.New(c.seed, "order").With(p/uint64(c.n)).Permute(id, c.n)
		}
		y := id % 10
		b.Y[i] = int32(y)
		copy(b.X[i*dim:], drawn.sample(id, dim))
	}
	return nil
}

// drawn are the samples of all clusters: a draw takes longer than a step of these networks.
var drawn = drawing{kept: map[[2]int][]float32{}}

type drawing struct {
	mu   sync.Mutex
	kept map[[2]int][]float32 // by number and length
}

func (d *drawing) sample(id, dim int) []float32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	x, ok := d.kept[[2]int{id, dim}]
	if !ok {
		x = make([]float32, dim)
		mean, noise := rng.New(7, "mean").With(uint64(id%10)), rng.New(7, "noise").With(uint64(id))
		for k := range x {
			x[k] = float32(mean.Norm(uint64(k)) + noise.Norm(uint64(k)))
		}
		d.kept[[2]int{id, dim}] = x
	}
	return x
}

type option func(*train.Job)

func ofSandblaster(updates int) []option {
	return []option{mode("sandblaster"), optimizer("sgd"), func(j *train.Job) { j.Updates, j.Servers, j.Batch = updates, 2, 30 }}
}

func with(text string) option {
	return func(j *train.Job) {
		if f, err := compress.Parse(text); err == nil {
			j.Codec = f
			return
		}
		panic(text)
	}
}

func mode(text string) option { return func(j *train.Job) { j.Mode = train.Modes.MustParse(text) } }
func policy(text string) option {
	return func(j *train.Job) { j.Policy = staleness.Policies.MustParse(text) }
}
func topology(text string) option {
	return func(j *train.Job) { j.Topology = collective.Topologies.MustParse(text) }
}
func down(text string) option {
	return func(j *train.Job) { j.DownCodec = compress.Families.MustParse(text) }
}
func optimizer(text string) option {
	return func(j *train.Job) { j.Optimizer = sgd.Optimizers.MustParse(text) }
}

func corrector(text string) option {
	return func(j *train.Job) { j.Corrector = staleness.Correctors.MustParse(text) }
}
func learning(lr float64) option {
	return func(j *train.Job) { j.Schedule = lrschedule.Constant{LR: lr} }
}

func model(t testing.TB, text string, shape sgd.Shape) sgd.Model {
	m, err := nn.Models.MustParse(text).New(sgd.Sample{Shape: shape, Classes: 10})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// job is 4 workers on an mlp with one server, changed by options.
func job(t testing.TB, opts ...option) *train.Job {
	j := unchecked(opts...)
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	return j
}

// unchecked is a job that may be impossible.
func unchecked(opts ...option) *train.Job {
	shape := sgd.Shape{C: 1, H: 4, W: 4}
	net, err := nn.Models.MustParse("mlp(hidden=[24])").New(sgd.Sample{Shape: shape, Classes: 10})
	if err != nil {
		panic(err)
	}
	j := &train.Job{
		Model:     net,
		Data:      sgd.Dataset{Name: "clusters", Train: clusters{1000, shape, 3, false}, Test: clusters{200, shape, 3, true}},
		Optimizer: sgd.Optimizers.MustParse("momentum"), Schedule: lrschedule.Specs.MustParse("constant(lr=0.05)"),
		Codec: compress.Raw{}, DownCodec: compress.Raw{},
		Mode: train.Server{}, Policy: staleness.BSP{}, Corrector: staleness.None{},
		Topology: collective.Ring{}, Placement: ps.Balanced{},
		Workers: 4, Servers: 1, Batch: 8, Updates: 60, Seed: 3,
		Timing: timing.Timing{FLOPS: 1e9, Law: timing.Lognormal{Sigma: 0.2}}, Run: 42,
	}
	for _, o := range opts {
		o(j)
	}
	j.Prepare()
	return j
}

type sink struct {
	evals  []record.Eval
	states map[int]*checkpoint.State
	last   *checkpoint.State
}

func (s *sink) Progress(record.Progress) {}
func (s *sink) Eval(e record.Eval)       { s.evals = append(s.evals, e) }
func (s *sink) Checkpoint(v int, st *checkpoint.State) error {
	if s.states == nil {
		s.states = map[int]*checkpoint.State{}
	}
	s.states[v], s.last = st, st
	return nil
}

func simulated(start time.Duration) comm.Net {
	return &sim.Net{Start: start, Network: &sim.Fair{Bandwidth: 1e8, Latency: 100 * time.Microsecond}}
}

func runOn(t testing.TB, net comm.Net, j *train.Job, start *checkpoint.State) (*train.Observer, *sink) {
	t.Helper()
	s := &sink{}
	return observeOn(t, net, j, start, s), s
}

func observeOn(t testing.TB, net comm.Net, j *train.Job, start *checkpoint.State, s train.Sink) *train.Observer {
	t.Helper()
	o := &train.Observer{Job: j, Sink: s, Start: start}
	programs, err := j.Programs(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := net.Run(ctx, programs); err != nil {
		t.Fatal(err)
	}
	return o
}

func distance(a, b []float32) float64 {
	var d, n float64
	for i := range a {
		d += float64(a[i]-b[i]) * float64(a[i]-b[i])
		n += float64(a[i]) * float64(a[i])
	}
	return math.Sqrt(d / n)
}

// roads are synchronous training on joint batches.
var roads = map[string][]option{
	"server":               {},
	"server, 3 shards":     {func(j *train.Job) { j.Servers = 3 }},
	"server, overlap":      {func(j *train.Job) { j.Servers, j.Overlap = 2, train.Buckets{} }},
	"ring":                 {mode("reduce")},
	"ring, overlap":        {mode("reduce"), func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 600} }},
	"direct":               {mode("reduce"), topology("direct")},
	"gather":               {mode("gather")},
	"server, delta raw":    {down("bysize(limit=1,small=raw,large=raw)")},
	"server, parts":        {func(j *train.Job) { j.Servers, j.Overlap = 2, train.Buckets{Bytes: 1} }},
	"server, parts, delta": {down("bysize(limit=1,small=raw,large=raw)"), func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 600} }},
	"server, barrier":      {mode("server(barrier=true)"), func(j *train.Job) { j.Servers = 2 }},
	"server, barrier, parts": {mode("server(barrier=true)"), func(j *train.Job) {
		j.Servers, j.Overlap, j.Placement = 3, train.Buckets{Bytes: 1}, ps.RoundRobin{}
	}},
}

// Three roads, one answer: one worker on the joint batch, a barrier server and
// both collectives.
func TestThreeRoads(t *testing.T) {
	t.Parallel()
	updates := func(j *train.Job) { j.Updates = 200 }
	one, _ := runOn(t, &local.Net{}, job(t, updates, func(j *train.Job) { j.Workers, j.Batch = 1, 32 }), nil)
	for name, opts := range roads {
		t.Run(name, func(t *testing.T) {
			loc, _ := runOn(t, &local.Net{}, job(t, append(opts, updates)...), nil)
			if d := distance(one.Params, loc.Params); d > 1e-4 {
				t.Errorf("relative distance to one worker is %g", d)
			}
			if loc.Final.Values["accuracy"] < 0.8 || loc.Final.Step != 200 {
				t.Errorf("ended with %+v", loc.Final)
			}
			vir, _ := runOn(t, simulated(0), job(t, append(opts, updates)...), nil)
			if vir.SHA256 != loc.SHA256 {
				t.Error("sim and local differ in their bits")
			}
		})
	}
}

var asynchronous = map[string][]option{
	"asp":                         {policy("asp")},
	"asp, 2 shards":               {policy("asp"), func(j *train.Job) { j.Servers = 2 }},
	"asp, overlap":                {policy("asp"), func(j *train.Job) { j.Servers, j.Overlap = 3, train.Buckets{} }},
	"asp, parts":                  {policy("asp"), func(j *train.Job) { j.Servers, j.Overlap = 2, train.Buckets{Bytes: 1} }},
	"asp, barrier":                {mode("server(barrier=true)"), policy("asp"), func(j *train.Job) { j.Servers = 2 }},
	"ssp":                         {policy("ssp(slack=1)"), func(j *train.Job) { j.Timing.Law = timing.Lognormal{Sigma: 1} }},
	"softsync":                    {policy("softsync(n=2)"), func(j *train.Job) { j.Corrector = staleness.AlphaTau{} }},
	"ksync":                       {policy("ksync(k=2)"), with("feedback(topk(keep=0.2))"), func(j *train.Job) { j.Timing.Law = timing.Lognormal{Sigma: 1} }},
	"ksync, 2 shards":             {policy("ksync(k=3)"), func(j *train.Job) { j.Servers, j.Timing.Law = 2, timing.Lognormal{Sigma: 1} }},
	"kbatchsync":                  {policy("kbatchsync(k=3)"), down("topk(keep=0.5)"), func(j *train.Job) { j.Timing.Law = timing.Lognormal{Sigma: 1} }},
	"dropslowest":                 {policy("dropslowest(share=0.25)"), func(j *train.Job) { j.Timing.Law = timing.Lognormal{Sigma: 1} }},
	"adasync":                     {policy("adasync(k=1,of=kasync)")},
	"kasync":                      {policy("kasync(k=2)")},
	"backup":                      {policy("backup(b=1)"), func(j *train.Job) { j.Timing.Law = timing.Lognormal{Sigma: 1} }},
	"dcasgd":                      {corrector("dcasgd(lambda=0.5)"), policy("softsync(n=3)"), func(j *train.Job) { j.Gap = true }},
	"dcasgd_a":                    {corrector("dcasgd_a"), policy("asp"), func(j *train.Job) { j.Servers = 2 }},
	"gap_aware":                   {corrector("gap_aware"), policy("asp"), down("bf16")},
	"gap_bound":                   {corrector("gap_bound"), policy("kasync(k=2)")},
	"fasgd":                       {corrector("fasgd"), policy("asp"), optimizer("sgd"), learning(0.002)},
	"adadelay_each":               {corrector("adadelay_each(k=0.1)"), policy("asp")},
	"multi_asgd":                  {corrector("multi_asgd(gamma=0.5)"), policy("asp"), optimizer("sgd")},
	"dana":                        {corrector("dana"), policy("asp"), optimizer("sgd"), down("topk(keep=0.5)")},
	"dana_slim":                   {corrector("dana_slim"), policy("asp"), optimizer("sgd"), with("feedback(topk(keep=0.3))")},
	"dana_dc":                     {corrector("dana_dc"), policy("asp"), optimizer("sgd")},
	"implicit":                    {corrector("implicit"), policy("asp"), optimizer("sgd")},
	"softsync, strom, delta topk": {policy("softsync(n=2)"), corrector("alpha_tau"), with("feedback(strom(tau=0.01),unchecked=true)"), down("topk(keep=0.3)"), func(j *train.Job) { j.Servers = 2 }},
	"asp, delta topk":             {policy("asp"), with("feedback(topk(keep=0.1))"), down("topk(keep=0.2)")},
	"downpour":                    {mode("downpour"), policy("asp"), optimizer("adagrad"), func(j *train.Job) { j.Servers = 2 }},
	"downpour, 2, 3":              {mode("downpour(n_fetch=3,n_push=2,warm_start=10)"), policy("asp"), func(j *train.Job) { j.Overlap = train.Buckets{} }},
}

// Asynchronous runs learn, repeat bit for bit on the virtual cluster, and
// account for every gradient.
func TestAsynchronous(t *testing.T) {
	t.Parallel()
	updates, right := 300, 0.6
	if !patience.Long { // that they run, not that they learn
		updates, right = 60, 0
	}
	for name, opts := range asynchronous {
		t.Run(name, func(t *testing.T) {
			opts := append(opts, func(j *train.Job) {
				j.Updates = updates
				if j.Schedule == lrschedule.Spec(lrschedule.Constant{LR: 0.05}) {
					j.Schedule = lrschedule.Constant{LR: 0.01}
				}
				j.EvalEvery = updates / 6
			})
			a, sa := runOn(t, simulated(0), job(t, opts...), nil)
			repeats(t, a, opts)
			if a.Final.Values["accuracy"] < right || len(sa.evals) != 6 {
				t.Errorf("%d evaluations, ended with %+v", len(sa.evals), a.Final)
			}
			l, _ := runOn(t, &local.Net{}, job(t, opts...), nil)
			for _, o := range []*train.Observer{a, l} {
				var sent, applied, rejected, held uint64
				for _, r := range o.Reports {
					sent += r.Sent
					applied += r.Ledger.Applied
					rejected += r.Ledger.Rejected
					held += r.Ledger.Held
					if r.Role == "server" && r.Version != updates {
						t.Errorf("shard %d ended at version %d", r.Shard, r.Version)
					}
				}
				if sent != applied+rejected+held {
					t.Errorf("ledger: sent %d, applied %d, rejected %d, held %d", sent, applied, rejected, held)
				}
			}
		})
	}
}

// leftOut says whether a case is not tried with -short, of which one in so many is, by its
// name. That is for the race detector, and for tests whose runs are on the virtual cluster
// for the most part.
func leftOut(name string, of uint32) bool {
	return !patience.Long && crc32.ChecksumIEEE([]byte(name))%of > 0
}

// repeats makes a virtual run again, which ends as it did. With -short it is not made: a
// virtual cluster runs one goroutine at a time, and has nothing to race.
func repeats(t *testing.T, was *train.Observer, opts []option) {
	t.Helper()
	if !patience.Long {
		return
	}
	if again, _ := runOn(t, simulated(0), job(t, opts...), nil); again.SHA256 != was.SHA256 || !reflect.DeepEqual(again.Final, was.Final) {
		t.Error("two virtual runs differ")
	}
}

// Raw bytes are exact: W·4N up and down a step for a server, 2·4N(P−1)/P for
// each rank of a ring where P divides N.
func TestBytesAreExact(t *testing.T) {
	t.Parallel()
	const steps = 7
	few := func(j *train.Job) {
		j.Updates = steps
		j.Model = model(t, "logistic", sgd.Shape{C: 1, H: 1, W: 7}) // 80 parameters
		shape := sgd.Shape{C: 1, H: 1, W: 7}
		j.Data = sgd.Dataset{Train: clusters{100, shape, 3, false}, Test: clusters{20, shape, 3, true}}
	}
	for _, servers := range []int{1, 3} {
		o, _ := runOn(t, simulated(0), job(t, few, func(j *train.Job) { j.Servers = servers }), nil)
		var up, down uint64
		for _, r := range o.Reports {
			if r.Role == "server" {
				up += r.Traffic.RecvBytes[comm.Gradient]
				down += r.Traffic.SentBytes[comm.Parameters]
			}
		}
		if want := uint64(4 * 80 * 4 * steps); up != want || down != want {
			t.Errorf("%d servers: %d up, %d down, want %d", servers, up, down, want)
		}
		if o.Final.BytesUp != up || o.Final.BytesDown != down {
			t.Errorf("the last evaluation says %d up, %d down", o.Final.BytesUp, o.Final.BytesDown)
		}
	}
	o, _ := runOn(t, simulated(0), job(t, few, mode("reduce")), nil)
	for _, r := range o.Reports {
		if got, want := r.Traffic.SentBytes[comm.Gradient], uint64(2*4*80*3/4*steps); got != want {
			t.Errorf("rank %d sent %d bytes, want %d", r.Rank, got, want)
		}
	}
}

// A run that was stopped and resumed ends with the same bits as one that was
// not.
func TestResumeIsBitEqual(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	codec := with("feedback(topk(keep=0.1))")
	cases := map[string][]option{
		"bsp":            {codec, optimizer("adam")},
		"bsp, delta":     {with("feedback(qsgd(bits=4),unchecked=true)"), down("topk(keep=0.2)"), func(j *train.Job) { j.Servers = 2 }},
		"ring":           {mode("reduce"), with("feedback(randomk(keep=0.3))")},
		"gather overlap": {mode("gather"), codec, func(j *train.Job) { j.Overlap = train.Buckets{} }},
	}
	for name, opts := range asynchronous {
		cases[name] = opts
	}
	for name, opts := range cases {
		t.Run(name, func(t *testing.T) {
			opts := append(opts, func(j *train.Job) { j.CheckpointEvery = 12 })
			whole, _, again := resumes(t, 1, opts...)
			for _, o := range again {
				sameSteps(t, whole, o)
			}
		})
	}
}

// resumes makes a run on the virtual cluster, and again from each of its
// checkpoints, as a file would keep it, to the same bits at the end. It returns
// the run, what its sink heard, and what followed the checkpoints.
func resumes(t *testing.T, least int, opts ...option) (whole *train.Observer, s *sink, again []*train.Observer) {
	t.Helper()
	whole, s = runOn(t, simulated(0), job(t, opts...), nil)
	if len(s.states) < least {
		t.Fatalf("%d checkpoints were written, want %d", len(s.states), least)
	}
	for v, st := range s.states {
		b, err := st.Encode(nil, whole.Job.Model.Layout())
		if err != nil {
			t.Fatal(err)
		}
		back, err := checkpoint.Decode(b, whole.Job.Model.Layout())
		if err != nil {
			t.Fatal(err)
		}
		o, _ := runOn(t, simulated(time.Duration(back.Ints["nanoseconds"])), job(t, opts...), back)
		if o.SHA256 != whole.SHA256 {
			t.Errorf("resumed at %d: other bits at the end (step %d, %d)", v, o.Final.Step, whole.Final.Step)
		}
		again = append(again, o)
	}
	return whole, s, again
}

// sameSteps expects steps of a leg of a run to take as long as those of the whole.
func sameSteps(t *testing.T, whole, leg *train.Observer) {
	t.Helper()
	computing := func(o *train.Observer) (all float64) {
		n := 0
		for _, r := range o.Reports {
			if r.Role == "worker" && r.TimedSteps() > 0 {
				all += r.Spent().Compute / float64(r.TimedSteps())
				n++
			}
		}
		return all / float64(max(n, 1))
	}
	if a, b := computing(whole), computing(leg); b < 0.5*a || b > 2*a {
		t.Errorf("a step computes for %.3g s, after resuming for %.3g s", a, b)
	}
}

// Stopping ends every mode at a whole step, with a checkpoint that goes on.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]option{{}, {mode("reduce")}, {mode("reduce"), func(j *train.Job) { j.Overlap = train.Buckets{} }}, {mode("reduce"), prior(500)}, {policy("ssp(slack=0)")}, {policy("asp"), func(j *train.Job) { j.Servers = 2 }}, {mode("downpour"), policy("asp")}} {
		for netName, mk := range map[string]func() comm.Net{"local": func() comm.Net { return &local.Net{} }, "sim": func() comm.Net { return simulated(0) }} {
			polls := 0
			j := job(t, append(opts, func(j *train.Job) {
				j.Updates = 500
				j.Stopping = func() bool { polls++; return polls > 40 }
				if j.Servers > 1 && netName == "local" {
					j.Stopping = func() bool { return true }
				}
			})...)
			name := fmt.Sprintf("%s %s on %s", train.Modes.Spec(j.Mode), staleness.Policies.Spec(j.Policy), netName)
			o, s := stops(t, mk(), j)
			if s.last == nil || o.Final.Step >= 500 {
				t.Errorf("%s: no checkpoint, or not stopped: %+v", name, o.Final)
				continue
			}
			full, _ := runOn(t, mk(), job(t, append(opts, func(j *train.Job) { j.Updates = 500 })...), s.last)
			if full.Final.Step != 500 {
				t.Errorf("%s: went on to step %d", name, full.Final.Step)
			}
		}
	}
}

// stops makes a run that is asked to stop. On the virtual cluster a run in which
// nobody waits is given marks, at which that can be; without any it ends at once.
func stops(t *testing.T, net comm.Net, j *train.Job) (*train.Observer, *sink) {
	t.Helper()
	if _, virtual := net.(*sim.Net); virtual && j.StopRule(true, 0) == train.StopAtOnce {
		s := &sink{}
		o := &train.Observer{Job: j, Sink: s}
		programs, err := j.Programs(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := net.Run(t.Context(), programs); !errors.Is(err, train.ErrStoppedUnmarked) || s.last != nil {
			t.Errorf("without marks it ends with %v, and a checkpoint: %v", err, s.last != nil)
		}
		if j.CheckpointEvery = 8; j.Check() != nil {
			t.Skip("there are no marks for it")
		}
		j.Prepare()
		net = simulated(0)
	}
	return runOn(t, net, j, nil)
}

// where notes the parameters that each pass is made on.
type where struct {
	sgd.Model
	mu     *sync.Mutex
	passes *[][]float32
}

func (w where) Grad(ctx context.Context, p sgd.Pass, b sgd.Batch) (float64, error) {
	w.mu.Lock()
	*w.passes = append(*w.passes, slices.Clone(p.Params))
	w.mu.Unlock()
	return w.Model.Grad(ctx, p, b)
}

// A replica that was stopped between two fetches and two pushes goes on from the
// parameters there are, with the gradients it had not pushed yet.
func TestDownpourGoesOnFromAnyStep(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var passes [][]float32
	opts := []option{mode("downpour(n_fetch=7,n_push=3)"), policy("asp"), func(j *train.Job) {
		j.Workers, j.Updates = 1, 60
		j.Model = where{j.Model, &mu, &passes}
	}}
	for polls := range 8 {
		_, s := runOn(t, &local.Net{}, job(t, append(opts, func(j *train.Job) {
			n := 0
			j.Stopping = func() bool { n++; return n > 6+polls }
		})...), nil)
		if s.last == nil {
			t.Fatal("no checkpoint")
		}
		step := int(s.last.Ints["step/0"])
		if _, kept := s.last.Vectors["sum/0"]; kept != (step%3 != 0) {
			t.Errorf("stopped at step %d: gradients not pushed are kept: %v", step, kept)
		}
		passes = nil
		runOn(t, simulated(0), job(t, opts...), s.last)
		if !slices.Equal(passes[0], s.last.Vectors["param"]) {
			t.Errorf("stopped at step %d, it goes on from other parameters than there are", step)
		}
	}
}
