package sweep

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/internal/patience"
)

// A test process that is asked to be a job's process is one.
func TestMain(m *testing.M) {
	switch os.Getenv("SWEEP_TEST_PROCESS") {
	case "job":
		if err := Serve(context.Background(), os.Stdin, os.Stdout, func() bool { return false }, experiments.Options{}); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	case "panic":
		panic("a job that dies")
	}
	os.Exit(patience.Main(m))
}

const tiny = `
data: digits
model: mlp(hidden=[16])
optimizer: momentum
mode: reduce
schedule: constant(lr=0.05)
steps: 20
eval_every: 10
batch: 8
workers: 2
`

func space(t testing.TB, args ...string) Space {
	t.Helper()
	r, err := config.ParseRecipe("tiny", "tiny.yaml", []byte(tiny))
	if err != nil {
		t.Fatal(err)
	}
	return Space{Recipe: r, Args: args}
}

func names(jobs []Job) (out []string) {
	for _, j := range jobs {
		out = append(out, j.Name)
	}
	return out
}

func TestJobs(t *testing.T) {
	t.Parallel()
	s := space(t, "codec=raw,bf16", "workers=1,2,4")
	s.Repeats = 2
	jobs, err := s.Jobs()
	if err != nil || len(jobs) != 12 || jobs[0].Name != "workers=1,codec=raw,seed=1" {
		t.Fatalf("%v %v", names(jobs), err)
	}
	ids := map[string]bool{}
	for _, j := range jobs {
		ids[j.ID] = true
	}
	if len(ids) != 12 {
		t.Errorf("%d ids of 12 jobs", len(ids))
	}

	s.Exclude = []string{"workers=4 codec=bf16", "seed=2 codec~raw"}
	if jobs, err = s.Jobs(); err != nil || len(jobs) != 7 {
		t.Errorf("%v %v", names(jobs), err)
	}

	s = space(t, "workers=1,2,4", "batch=32,16,8", "codec=raw,bf16")
	s.Zip = []string{"workers,batch"}
	jobs, err = s.Jobs()
	if err != nil || len(jobs) != 6 {
		t.Fatalf("%v %v", names(jobs), err)
	}
	for _, j := range jobs {
		if j.Config.Workers*j.Config.Batch != 32 {
			t.Errorf("%s: %d workers, batch %d", j.Name, j.Config.Workers, j.Config.Batch)
		}
	}
	if jobs[1].Name != "workers=1,batch=32,codec=bf16" {
		t.Errorf("%q", jobs[1].Name)
	}

	// Two ways to write a configuration are one job.
	if jobs, err = space(t, "codec=topk(keep=0.01),topk(keep=.010)").Jobs(); err != nil || len(jobs) != 1 {
		t.Errorf("%v %v", names(jobs), err)
	}
}

func TestMistakesAreTold(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Space{
		"did you mean":              space(t, "codex=raw"),
		"given twice":               space(t, "codec=raw", "codec=bf16"),
		"is no dimension":           space(t, "raw"),
		"has 2 values, batch has 1": {Recipe: space(t).Recipe, Args: []string{"workers=1,2", "batch=8"}, Zip: []string{"workers,batch"}},
		"no dimension":              {Recipe: space(t).Recipe, Zip: []string{"workers,batch"}},
		"leave no job":              {Recipe: space(t).Recipe, Exclude: []string{"workers=2"}},
		"leaves nothing out":        {Recipe: space(t).Recipe, Exclude: []string{"workers=3"}},
		"not known before":          {Recipe: space(t).Recipe, Exclude: []string{"accuracy>0.5"}},
		"not both":                  {Recipe: space(t).Recipe, Args: []string{"seed=1,2"}, Repeats: 2},
	} {
		if jobs, err := s.Jobs(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v, %v", want, names(jobs), err)
		}
	}
}

// Shards of any number share the jobs out: each is in one of them.
func TestShards(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		jobs := make([]Job, rapid.IntRange(0, 40).Draw(t, "jobs"))
		for i := range jobs {
			jobs[i].ID = string(rune('A' + i))
		}
		n := rapid.IntRange(1, 9).Draw(t, "n")
		seen := map[string]int{}
		for i := 1; i <= n; i++ {
			for _, j := range Shard(jobs, i, n) {
				seen[j.ID]++
			}
		}
		for _, j := range jobs {
			if seen[j.ID] != 1 {
				t.Fatalf("job %s is in %d shards", j.ID, seen[j.ID])
			}
		}
	})
	for _, s := range []string{"", "1", "0/2", "3/2", "a/b", "1/2/3"} {
		if _, _, err := ParseShard(s); err == nil {
			t.Errorf("shard %q", s)
		}
	}
}

func TestCoresAreSharedOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cores, jobs := rapid.IntRange(1, 64).Draw(t, "cores"), rapid.IntRange(1, 64).Draw(t, "jobs")
		sum, least := 0, cores
		for _, n := range slots(cores, jobs) {
			sum += n
			least = min(least, n)
		}
		if least < 1 || jobs <= cores && sum != cores || jobs > cores && sum != jobs {
			t.Fatalf("%d cores over %d jobs: %v", cores, jobs, slots(cores, jobs))
		}
	})
}

func processes(out, kind string) Processes {
	return Processes{
		Order: Order{Recipe: "tiny", Out: out},
		Command: func(ctx context.Context) *exec.Cmd {
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = append(os.Environ(), "SWEEP_TEST_PROCESS="+kind)
			return cmd
		},
	}
}

func execute(t *testing.T, jobs []Job, atOnce int, r Runner) []Outcome {
	t.Helper()
	return Plan{Jobs: jobs, Costs: Predict(jobs, nil, config.Places{}, nil), Cores: 4, AtOnce: atOnce, Runner: r}.Execute(context.Background())
}

// The bits of a run on the virtual cluster do not depend on how many go on
// beside it, and what is done is not done again.
func TestParallelRunsAreBitEqual(t *testing.T) {
	t.Parallel()
	jobs, err := space(t, "codec=raw,qsgd(bits=4),feedback(topk(keep=0.1))", "seed=1,2").Jobs()
	if err != nil {
		t.Fatal(err)
	}
	var sums [2][]string
	dir := t.TempDir()
	for i, atOnce := range []int{1, 4} {
		for _, o := range execute(t, jobs, atOnce, processes(filepath.Join(dir, string(rune('a'+i))), "job")) {
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			if len(o.Result.Evals) == 0 {
				t.Errorf("%s has no curve", o.Job.Name)
			}
			sums[i] = append(sums[i], o.Result.ParamsSHA256)
		}
	}
	if !slices.Equal(sums[0], sums[1]) {
		t.Errorf("one at a time:\n%v\nfour at a time:\n%v", sums[0], sums[1])
	}
	past, err := store.Find(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	todo, done := Missing(jobs, past)
	if len(todo) != 0 || len(done) != len(jobs) {
		t.Errorf("%d jobs would be run again", len(todo))
	}
	// Their costs are known now, for other lengths as well.
	longer, err := space(t, "codec=raw,qsgd(bits=4),feedback(topk(keep=0.1))", "seed=7", "steps=40").Jobs()
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range Predict(longer, past, config.Places{}, nil) {
		if two := 2 * float64(past[0].Result.BytesUp); !c.Evidence || i == 0 && longer[0].Config.Codec == "raw" && c.Bytes != two {
			t.Errorf("%s: %+v, twice the steps take %v bytes", longer[i].Name, c, two)
		}
	}
}

// Jobs that cannot run are told before any has begun, whichever key is wrong.
func TestPredictTellsWhatCannotRun(t *testing.T) {
	t.Parallel()
	jobs, err := space(t, "device=none,v100").Jobs()
	if err != nil {
		t.Fatal(err)
	}
	costs := Predict(jobs, nil, config.Places{}, nil)
	if costs[0].Err != nil || costs[1].Err == nil || !strings.Contains(costs[1].Err.Error(), `key "device"`) {
		t.Errorf("%v, %v", costs[0].Err, costs[1].Err)
	}
}

// What codecs claim is what runs without evidence are predicted to send.
func TestCountedBytesAreThoseOfTheRun(t *testing.T) {
	t.Parallel()
	jobs, err := space(t, "codec=raw,bf16,topk(keep=0.1),feedback(powersgd(rank=4))", "mode=reduce,gather,server", "workers=3").Jobs()
	if err != nil {
		t.Fatal(err)
	}
	costs := Predict(jobs, nil, config.Places{}, nil)
	for i, o := range execute(t, jobs, 2, processes(t.TempDir(), "job")) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		got := float64(o.Result.Crossed(o.Result.BytesUp, o.Result.BytesDown))
		if ratio := costs[i].Bytes / got; ratio < 0.97 || ratio > 1.1 {
			t.Errorf("%s: predicted %.0f bytes, sent %.0f", o.Job.Name, costs[i].Bytes, got)
		}
	}
}

func TestAFailureStaysAlone(t *testing.T) {
	t.Parallel()
	jobs, err := space(t, "seed=1,2,3").Jobs()
	if err != nil {
		t.Fatal(err)
	}
	good, bad := processes(t.TempDir(), "job"), processes(t.TempDir(), "panic")
	out := execute(t, jobs, 2, runner(func(ctx context.Context, j Job, cores int, stop <-chan struct{}, watch func(int, int)) (*experiments.Result, error) {
		if j.Config.Seed == 2 {
			return bad.Run(ctx, j, cores, stop, watch)
		}
		return good.Run(ctx, j, cores, stop, watch)
	}))
	failed := Failed(out)
	if len(failed) != 1 || failed[0].Job.Config.Seed != 2 || !strings.Contains(failed[0].Err.Error(), "a job that dies") {
		t.Fatalf("%+v", failed)
	}
	if out[0].Result == nil || out[2].Result == nil {
		t.Error("the others were not run")
	}
}

// What cannot run is told and does not begin; a data set that is not there is
// found as well.
func TestTheImpossibleIsLeftOut(t *testing.T) {
	t.Parallel()
	jobs, err := space(t, "codec=raw,feedback(qsgd(bits=2))", "down_codec=raw").Jobs()
	if err != nil {
		t.Fatal(err)
	}
	var ran atomic.Int32
	out := execute(t, jobs, 2, runner(func(context.Context, Job, int, <-chan struct{}, func(int, int)) (*experiments.Result, error) {
		ran.Add(1)
		return &experiments.Result{}, nil
	}))
	var bad *config.Error
	if ran.Load() != 1 || len(Failed(out)) != 1 || !errors.As(Failed(out)[0].Err, &bad) {
		t.Errorf("%d ran, %+v", ran.Load(), out)
	}
}

type runner func(context.Context, Job, int, <-chan struct{}, func(int, int)) (*experiments.Result, error)

func (f runner) Run(ctx context.Context, j Job, cores int, stop <-chan struct{}, watch func(int, int)) (*experiments.Result, error) {
	return f(ctx, j, cores, stop, watch)
}

// At no time do more cores compute than there are, and runs on the wall clock
// are alone.
func TestNoOversubscription(t *testing.T) {
	t.Parallel()
	jobs, err := space(t, "net=sim,local", "seed=range(1,8)").Jobs()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	busy, running := 0, 0
	out := execute(t, jobs, 3, runner(func(_ context.Context, j Job, cores int, _ <-chan struct{}, watch func(int, int)) (*experiments.Result, error) {
		mu.Lock()
		busy, running = busy+cores, running+1
		if busy > 4 || j.Config.Net == "local" && (running > 1 || cores != 4) {
			t.Errorf("%d jobs on %d cores with %s", running, busy, j.Name)
		}
		mu.Unlock()
		for i := range 100 {
			watch(i, 100)
		}
		mu.Lock()
		busy, running = busy-cores, running-1
		mu.Unlock()
		return &experiments.Result{}, nil
	}))
	if len(Failed(out)) != 0 {
		t.Errorf("%+v", out)
	}
}

// A stop ends running jobs with checkpoints and begins no more; the next time
// they go on to the bits of a sweep that was not stopped.
func TestStopAndGoOn(t *testing.T) {
	t.Parallel()
	jobs, err := space(t, "seed=1,2,3", "steps=400").Jobs()
	if err != nil {
		t.Fatal(err)
	}
	whole := execute(t, jobs, 2, processes(t.TempDir(), "job"))

	dir := t.TempDir()
	stop := make(chan struct{})
	var once sync.Once
	p := processes(dir, "job")
	out := Plan{
		Jobs: jobs, Costs: Predict(jobs, nil, config.Places{}, nil), Cores: 1, Stop: stop,
		Runner: runner(func(ctx context.Context, j Job, cores int, asked <-chan struct{}, watch func(int, int)) (*experiments.Result, error) {
			return p.Run(ctx, j, cores, asked, func(int, int) { once.Do(func() { close(stop) }) })
		}),
	}.Execute(context.Background())
	stopped := 0
	for _, o := range out {
		if errors.Is(o.Err, experiments.ErrStopped) {
			stopped++
		}
	}
	if stopped < 2 {
		t.Fatalf("%d of 3 jobs were left", stopped)
	}
	past, err := store.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	todo, done := Missing(jobs, past)
	if len(todo)+len(done) != 3 || len(todo) != stopped {
		t.Fatalf("%d to do, %d done", len(todo), len(done))
	}
	again := execute(t, todo, 2, processes(dir, "job"))
	for _, o := range again {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		for _, w := range whole {
			if w.Job.ID == o.Job.ID && w.Result.ParamsSHA256 != o.Result.ParamsSHA256 {
				t.Errorf("%s: other bits than without the stop", o.Job.Name)
			}
		}
	}
}

// Jobs that learn the same are trained once, before the others are priced, and what
// comes out is what training each gives; the second time the store has one.
func TestSweepTrainsOnce(t *testing.T) {
	t.Parallel()
	args := []string{"codec=raw,topk(keep=0.1)", "network.bandwidth=10Mbps,100Mbps,1Gbps", "device.law=lognormal(sigma=0.2)"}
	run := func(dir string, past []*store.Run, share bool, args ...string) (out []Outcome, priced int) {
		jobs, err := space(t, args...).Jobs()
		if err != nil {
			t.Fatal(err)
		}
		costs := Predict(jobs, past, config.Places{}, nil)
		if share {
			priced = Share(jobs, costs, past)
		}
		out = Plan{Jobs: jobs, Costs: costs, Cores: 4, AtOnce: 2, Runner: processes(dir, "job")}.Execute(context.Background())
		for _, o := range out {
			if o.Err != nil {
				t.Fatal(o.Job.Name, o.Err)
			}
		}
		return out, priced
	}
	each, _ := run(t.TempDir(), nil, false, args...)
	dir := t.TempDir()
	shared, priced := run(dir, nil, true, args...)
	if priced != 4 {
		t.Errorf("%d of 6 are priced", priced)
	}
	from := 0
	for i, o := range shared {
		a, b := o.Result, each[i].Result
		if a.PricedFrom != "" {
			from++
		}
		if a.ParamsSHA256 != b.ParamsSHA256 || a.VirtualSeconds != b.VirtualSeconds || a.BytesUp != b.BytesUp || a.Values["accuracy"] != b.Values["accuracy"] || len(a.Evals) != len(b.Evals) {
			t.Errorf("%s: %+v, want %+v", o.Job.Name, a, b)
		}
	}
	if from != priced {
		t.Errorf("%d say that they are priced", from)
	}
	past, err := store.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, priced := run(dir, past, true, "codec=raw,topk(keep=0.1)", "network.latency=5ms"); priced != 2 {
		t.Errorf("%d of 2 are priced from the store", priced)
	}
}

// Where the run that would be trained for others fails, they are trained.
func TestSweepTrainsWhatItCannotPrice(t *testing.T) {
	t.Parallel()
	jobs, err := space(t, "network.bandwidth=10Mbps,100Mbps,1Gbps").Jobs()
	if err != nil {
		t.Fatal(err)
	}
	costs := Predict(jobs, nil, config.Places{}, nil)
	if n := Share(jobs, costs, nil); n != 2 || costs[0].Priced || !costs[1].Priced {
		t.Fatalf("%d are priced: %+v", n, costs)
	}
	p := processes(t.TempDir(), "job")
	out := Plan{Jobs: jobs, Costs: costs, Cores: 2, Runner: runner(func(ctx context.Context, j Job, cores int, stop <-chan struct{}, watch func(int, int)) (*experiments.Result, error) {
		if j.ID == jobs[0].ID {
			return nil, errors.New("the machine is in a bad mood")
		}
		return p.Run(ctx, j, cores, stop, watch)
	})}.Execute(context.Background())
	for i, o := range out[1:] {
		if o.Err != nil || o.Result.PricedFrom != "" {
			t.Errorf("job %d: %+v, %v", i+1, o.Result, o.Err)
		}
	}
	if len(Failed(out)) != 1 {
		t.Errorf("%d failed", len(Failed(out)))
	}
}

// Jobs that end at their targets are done, and not run again; each target is a job.
func TestJobsThatEndAtTheirTargets(t *testing.T) {
	t.Parallel()
	jobs, err := space(t, "until=target", "target=0.1,0.2", "eval_every=1").Jobs()
	if err != nil || len(jobs) != 2 {
		t.Fatal(jobs, err)
	}
	dir := t.TempDir()
	for _, o := range execute(t, jobs, 2, processes(dir, "job")) {
		if o.Err != nil || o.Result.Ended != "target" || o.Result.Status != "done" {
			t.Errorf("%s: %+v, %v", o.Job.Name, o.Result, o.Err)
		}
	}
	past, err := store.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if todo, done := Missing(jobs, past); len(todo) != 0 || len(done) != 2 {
		t.Errorf("%d would be run again", len(todo))
	}
	if _, err := space(t, "target=0.1,0.2").Jobs(); err == nil {
		t.Error("targets that end nothing make two jobs")
	}
}
