package experiments

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
)

const small = "data: digits\nmodel: mlp(hidden=[16])\nsteps: 12\nbatch: 8\nworkers: 3\nnet: sim\neval_every: 4\n"

// execute makes the one run of a recipe below dir.
func execute(t testing.TB, dir string, resume bool, overrides ...string) (*Result, error) {
	t.Helper()
	return Execute(context.Background(), mustRuns(t, small, overrides...)[0], Options{Recipe: "test", Out: dir, Resume: resume})
}

func mustExecute(t testing.TB, overrides ...string) *Result {
	t.Helper()
	r, err := execute(t, t.TempDir(), false, overrides...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRunFolder(t *testing.T) {
	t.Parallel()
	r := mustExecute(t)
	for _, name := range []string{"config.yaml", "env.json", "metrics.jsonl", "status.json", "result.json", "model.safetensors", "ranks.json"} {
		if _, err := os.Stat(filepath.Join(r.Folder, name)); err != nil {
			t.Error(err)
		}
	}
	rec, err := ReadRecord(r.Folder)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Status.State != "done" || rec.Status.Step != 12 || rec.Result.ParamsSHA256 != r.ParamsSHA256 || len(rec.Evals) != 3 {
		t.Errorf("%+v", rec)
	}
	var b strings.Builder
	if err := rec.Write(&b); err != nil || !strings.Contains(b.String(), r.ParamsSHA256) {
		t.Errorf("%v\n%s", err, b.String())
	}
	b2, err := os.ReadFile(filepath.Join(r.Folder, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Execute(context.Background(), mustRuns(t, string(b2))[0], Options{Recipe: "again", Out: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if again.ParamsSHA256 != r.ParamsSHA256 || again.VirtualSeconds != r.VirtualSeconds || again.BytesUp != r.BytesUp {
		t.Error("the run folder's configuration gives another result")
	}
}

func TestShowElsewhere(t *testing.T) {
	t.Parallel()
	r := mustExecute(t)
	if _, err := ReadRecord(filepath.Dir(filepath.Dir(r.Folder))); err == nil || !strings.Contains(err.Error(), r.Folder) {
		t.Errorf("the message does not name the run folders below: %v", err)
	}
	if _, err := ReadRecord(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no run folder") {
		t.Errorf("%v", err)
	}
}

// What is shown of a run names the constants that it was timed by, each by itself.
func TestShowNamesConstants(t *testing.T) {
	t.Parallel()
	rec, err := ReadRecord(mustExecute(t, "transport=ideal", "constants.share=0.5", "constants.stream=1Gbps", "constants.overlap=1").Folder)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := rec.Write(&b); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]bool{"constants.share      0.5\n": true, "constants.stream     125MB/s\n": true, "constants.overlap": false, "constants.step": false} {
		if strings.Contains(b.String(), line) != want {
			t.Errorf("%q: want %v in\n%s", line, want, b.String())
		}
	}
}

// Resuming a run that is done gives its result and makes nothing anew.
func TestResumeOfAFinishedRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := execute(t, dir, false)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(first.Folder, "status.json"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := execute(t, dir, true)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(first)
	b, _ := json.Marshal(second)
	if string(a) != string(b) || len(second.Evals) != len(first.Evals) {
		t.Errorf("another result:\n%s\n%s", a, b)
	}
	after, err := os.ReadFile(filepath.Join(first.Folder, "status.json"))
	if err != nil || string(after) != string(before) {
		t.Errorf("the status was written again: %s, %v", after, err)
	}
	third, err := execute(t, dir, false)
	if err != nil || third.Folder == first.Folder {
		t.Errorf("without resume the folder is %v, %v", third, err)
	}
}

// What an earlier leg came to is not taken for the outcome of one that fails.
func TestResumeHidesTheResultOfAPart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := mustRuns(t, small, "mode=reduce", "steps=60")[0]
	r, err := Execute(context.Background(), run, Options{Recipe: "test", Out: dir, Stopping: func() bool { return true }})
	if !errors.Is(err, ErrStopped) {
		t.Fatal(r, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if r, err := Execute(ctx, run, Options{Recipe: "test", Out: dir, Resume: true, Watch: func(int, int) { cancel() }}); err == nil {
		t.Fatalf("it was broken off: %+v", r)
	}
	for _, name := range []string{"result.json", "ranks.json"} {
		if _, err := os.Stat(filepath.Join(r.Folder, name)); err == nil {
			t.Errorf("%s of the first leg is still there", name)
		}
	}
}

// A stopped run goes on to the bits of one that was not stopped; so does an
// asynchronous one that was broken off, from its last mark.
func TestResumeIsBitEqual(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for _, over := range [][]string{
		{"mode=reduce", "codec=feedback(topk(keep=0.1))", "optimizer=adam", "schedule=constant(lr=0.01)"},
		{"mode=reduce", "codec=onebit", "topology=direct", "overlap=buckets"},
		{"mode=gather", "codec=feedback(sign)"},
		{"mode=server", "servers=2", "codec=feedback(topk(keep=0.1))", "optimizer=adam", "schedule=constant(lr=0.01)"},
		{"mode=server", "down_codec=topk(keep=0.1)", "codec=qsgd"},
		{"mode=server", "policy=asp", "checkpoint_every=4"},
		{"mode=downpour", "policy=asp", "checkpoint_every=4", "servers=2"},
		{"mode=rudra(tree=2)", "policy=softsync(n=2)", "checkpoint_every=4", "codec=feedback(topk(keep=0.1))"},
	} {
		t.Run(strings.Join(over, " "), func(t *testing.T) {
			over := append(over, "steps=60", "device.law=lognormal(sigma=0.2)")
			whole := mustExecute(t, over...)
			run := mustRuns(t, small, over...)[0]
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			asked, crash := 0, run.Config.CheckpointEvery > 0
			r, err := Execute(ctx, run, Options{Recipe: "test", Out: dir, Stopping: func() bool {
				if asked++; asked > 50 && crash {
					cancel()
				}
				return asked > 50 && !crash
			}})
			switch {
			case crash && (err == nil || errors.Is(err, ErrStopped)):
				t.Fatalf("broken off: %+v, %v", r, err)
			case !crash && (!errors.Is(err, ErrStopped) || r == nil || r.Status != "stopped" || r.Steps >= 60 || r.Steps == 0):
				t.Fatalf("stopped: %+v, %v", r, err)
			}
			again, err := Execute(context.Background(), run, Options{Recipe: "test", Out: dir, Resume: true})
			if err != nil {
				t.Fatal(err)
			}
			if r != nil && again.Folder != r.Folder || again.Status != "done" || again.Steps != whole.Steps {
				t.Errorf("went on in %s as %+v", again.Folder, again)
			}
			if again.ParamsSHA256 != whole.ParamsSHA256 {
				t.Errorf("parameters %s after a stop, %s without", again.ParamsSHA256, whole.ParamsSHA256)
			}
			if again.BytesUp != whole.BytesUp || again.BytesDown < whole.BytesDown { // servers tell the parameters anew
				t.Errorf("bytes %d up, %d down after a stop; %d and %d without", again.BytesUp, again.BytesDown, whole.BytesUp, whole.BytesDown)
			}
			if again.Ledger.Sent != whole.Ledger.Sent || again.Ledger.Applied != whole.Ledger.Applied {
				t.Errorf("ledger %+v after a stop, %+v without", again.Ledger, whole.Ledger)
			}
		})
	}
}

// The rate of a resumed run is that of all its legs, on clocks that begin anew too.
func TestRateOverLegs(t *testing.T) {
	t.Parallel()
	for _, net := range []string{"local", "sim"} {
		run, dir, asked := mustRuns(t, small, "net="+net, "steps=60")[0], t.TempDir(), 0
		_, err := Execute(context.Background(), run, Options{Recipe: "test", Out: dir, Stopping: func() bool { asked++; return asked > 30 }})
		if !errors.Is(err, ErrStopped) {
			t.Fatal(err)
		}
		r, err := Execute(context.Background(), run, Options{Recipe: "test", Out: dir, Resume: true})
		if err != nil {
			t.Fatal(err)
		}
		last := r.Evals[len(r.Evals)-1]
		if made := r.UpdateRate * last.Seconds; made < 59.9 || made > 60.1 {
			t.Errorf("net=%s: %.4g updates a second for %.4g s are %.4g updates, want 60", net, r.UpdateRate, last.Seconds, made)
		}
	}
}

// A checkpoint of another configuration is refused, and so is a folder that
// another process writes to.
func TestResumeRefuses(t *testing.T) {
	t.Parallel()
	stopped := func(dir string) string {
		r, err := Execute(context.Background(), mustRuns(t, small)[0], Options{Recipe: "test", Out: dir, Stopping: func() bool { return true }})
		if !errors.Is(err, ErrStopped) {
			t.Fatal(err)
		}
		return r.Folder
	}
	dir := t.TempDir()
	folder := stopped(dir)
	path := filepath.Join(folder, "checkpoint", "manifest.json")
	m, err := readManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	m.Hash = "another"
	m.Self = m.sum()
	if err := writeJSON(path, m); err != nil {
		t.Fatal(err)
	}
	if _, err := execute(t, dir, true); err == nil || !strings.Contains(err.Error(), "another configuration") {
		t.Errorf("%v", err)
	}

	dir = t.TempDir()
	folder = stopped(dir)
	release, err := flockFolder(folder, false)
	if err != nil || release == nil {
		t.Fatal(err)
	}
	if _, err := execute(t, dir, true); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("%v", err)
	}
	release()
	if _, err := execute(t, dir, true); err != nil {
		t.Error(err)
	}
}

// Synchronous training gives the same bits wherever it runs.
func TestLocalAndSimAgree(t *testing.T) {
	t.Parallel()
	for _, over := range [][]string{
		{"mode=server"}, {"mode=server", "servers=2", "codec=feedback(topk(keep=0.1))"},
		{"mode=reduce"}, {"mode=reduce", "codec=feedback(topk(keep=0.1))"}, {"mode=reduce", "overlap=buckets(bytes=1)"},
	} {
		a, b := mustExecute(t, append(over, "net=sim")...), mustExecute(t, append(over, "net=local")...)
		if a.ParamsSHA256 != b.ParamsSHA256 || a.BytesUp != b.BytesUp || a.BytesDown != b.BytesDown {
			t.Errorf("%v: sim %s, %d bytes up; local %s, %d bytes up", over, a.ParamsSHA256, a.BytesUp, b.ParamsSHA256, b.BytesUp)
		}
	}
}

// On the virtual clock asynchronous training repeats, whatever the number of
// cores.
func TestSimRepeats(t *testing.T) {
	patience.Virtual(t)
	for i, over := range [][]string{
		{"policy=ssp(slack=2)", "servers=2", "codec=qsgd"}, {"mode=rudra(tree=2,threads=true)", "policy=asp"},
		{"policy=asp"}, {"mode=downpour(n_fetch=3,n_push=2)", "policy=asp"},
	} {
		if i > 1 && !patience.Long {
			break
		}
		over := append(over, "device.law=lognormal(sigma=0.3)", "workers=5", "steps=60")
		var results []*Result
		for _, n := range []int{1, 2} {
			before := runtime.GOMAXPROCS(n)
			results = append(results, mustExecute(t, over...))
			runtime.GOMAXPROCS(before)
		}
		a, b := results[0], results[1]
		if a.ParamsSHA256 != b.ParamsSHA256 || a.VirtualSeconds != b.VirtualSeconds || a.BytesUp != b.BytesUp || a.StalenessMean != b.StalenessMean {
			t.Errorf("%v: %s in %v s, then %s in %v s", over, a.ParamsSHA256, a.VirtualSeconds, b.ParamsSHA256, b.VirtualSeconds)
		}
	}
}

// A configuration that cannot work is told before a folder is made.
func TestRefusedBeforeAFolder(t *testing.T) {
	t.Parallel()
	for _, over := range []string{"codec=feedback(qsgd(bits=2))", "model=resnet20", "timing=lenet5", "optimizer=chain(clip(norm=1),sgd)", "down_codec=feedback(topk)", "down_codec=bysize"} {
		r, err := config.ParseRecipe("test", "test.yaml", []byte(small))
		if err != nil {
			t.Fatal(err)
		}
		runs, err := r.Runs([]string{"data=synthetic(dim=64)", "servers=2", "model=mlp", over}, false)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		_, err = Execute(context.Background(), runs[0], Options{Recipe: "test", Out: dir})
		var bad *config.Error
		if !errors.As(err, &bad) {
			t.Errorf("%s: %v", over, err)
		}
		if files, _ := os.ReadDir(dir); len(files) > 0 {
			t.Errorf("%s: made %v", over, files)
		}
	}
}

// A run whose loss is no number any more still leaves a record that can be
// read, or says why not.
func TestDiverged(t *testing.T) {
	t.Parallel()
	for _, net := range []string{"sim", "local"} {
		for _, mode := range []string{"server", "reduce"} {
			dir := t.TempDir()
			r, err := execute(t, dir, false, "schedule=constant(lr=1e38)", "nonfinite=zero", "net="+net, "mode="+mode)
			if err != nil {
				t.Errorf("%s %s: %v", net, mode, err)
				continue
			}
			if !r.Degraded || len(r.Lost) == 0 || r.Values["loss"] < 1e300 {
				t.Errorf("%s %s: the result does not tell: degraded %v, lost %v, loss %v", net, mode, r.Degraded, r.Lost, r.Values["loss"])
			}
			if _, err := execute(t, dir, false, "schedule=constant(lr=1e38)", "net="+net, "mode="+mode); err == nil || !strings.Contains(err.Error(), "NaN") && !strings.Contains(err.Error(), "Inf") {
				t.Errorf("%s %s: %v", net, mode, err)
			}
		}
	}
}

func TestWhoami(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		env  map[string]string
		rank int
		at   string
		want Who
		bad  string
	}{
		{name: "flags", rank: 2, at: "h:1", want: Who{Rank: 2, Coordinator: "h:1", Source: "flags"}},
		{name: "flags before variables", rank: 2, at: "h:1", env: map[string]string{"RANK": "5", "WORLD_SIZE": "x"}, want: Who{Rank: 2, Coordinator: "h:1", Source: "flags"}},
		{name: "flags of the leader", rank: 0, at: "h:1", want: Who{Coordinator: "h:1", Lead: true, Source: "flags"}},
		{name: "rank alone", rank: 2, bad: "--coordinator"},
		{name: "torchrun", rank: -1, env: map[string]string{"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "h", "MASTER_PORT": "9"}, want: Who{Rank: 1, World: 4, Coordinator: "h:9", Source: "torchrun's variables"}},
		{name: "torchrun's leader", rank: -1, env: map[string]string{"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "h", "MASTER_PORT": "9"}, want: Who{World: 4, Coordinator: "h:9", Lead: true, Source: "torchrun's variables"}},
		{name: "torchrun whose agent listens itself", rank: -1, env: map[string]string{"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "h", "MASTER_PORT": "29500", "TORCHELASTIC_USE_AGENT_STORE": "True"}, want: Who{Rank: 1, World: 4, Coordinator: "h:29501", Source: "torchrun's variables"}},
		{name: "torchrun whose agent does not", rank: -1, env: map[string]string{"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "h", "MASTER_PORT": "29500", "TORCHELASTIC_USE_AGENT_STORE": "False"}, want: Who{Rank: 1, World: 4, Coordinator: "h:29500", Source: "torchrun's variables"}},
		{name: "torchrun over IPv6", rank: -1, env: map[string]string{"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "fd00::1", "MASTER_PORT": "9"}, want: Who{Rank: 1, World: 4, Coordinator: "[fd00::1]:9", Source: "torchrun's variables"}},
		{name: "torchrun without an address", rank: -1, env: map[string]string{"RANK": "1", "WORLD_SIZE": "4"}, bad: "MASTER_ADDR"},
		{name: "torchrun without a port", rank: -1, env: map[string]string{"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "h"}, bad: "MASTER_PORT"},
		{name: "no rank at all", rank: -1, bad: "no rank"},
		{name: "a rank that is none", rank: -1, env: map[string]string{"RANK": "one"}, bad: "RANK"},
		{name: "a world that is none", rank: -1, env: map[string]string{"RANK": "1", "WORLD_SIZE": "0"}, bad: "WORLD_SIZE"},
		{name: "Open MPI", rank: -1, at: "h:1", env: map[string]string{"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}, want: Who{Rank: 3, World: 4, Coordinator: "h:1", Source: "Open MPI's variables", Binds: true}},
		{name: "Slurm", rank: -1, env: map[string]string{"SLURM_PROCID": "0", "SLURM_NTASKS": "3", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "n[03-07,9],m1", "SLURM_JOB_ID": "41007"}, want: Who{World: 3, Coordinator: "n03:21007", Lead: true, Source: "Slurm's variables", Binds: true}},
		{name: "Slurm, several names", rank: -1, env: map[string]string{"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "a,b[1-2]", "SLURM_JOB_ID": "1"}, want: Who{Rank: 1, World: 2, Coordinator: "a:20001", Source: "Slurm's variables", Binds: true}},
		{name: "another step of the same job", rank: -1, env: map[string]string{"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "3", "SLURM_STEP_NODELIST": "a", "SLURM_JOB_ID": "1"}, want: Who{Rank: 1, World: 2, Coordinator: "a:21852", Source: "Slurm's variables", Binds: true}},
		{name: "Slurm, cores and tasks a node", rank: -1, env: map[string]string{"SLURM_PROCID": "9", "SLURM_NTASKS": "11", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "a[1-3]", "SLURM_JOB_ID": "1", "SLURM_STEP_TASKS_PER_NODE": "4(x2),3", "SLURM_NODEID": "2", "SLURM_CPUS_PER_TASK": "6"}, want: Who{Rank: 9, World: 11, Coordinator: "a1:20001", Source: "Slurm's variables", Binds: true, Local: 3, CPUs: 6}},
		{name: "a step smaller than its job", rank: -1, env: map[string]string{"SLURM_PROCID": "1", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "a", "SLURM_JOB_ID": "1"}, want: Who{Rank: 1, World: 2, Coordinator: "a:20001", Source: "Slurm's variables", Binds: true}},
		{name: "torchrun, ranks of a host", rank: -1, env: map[string]string{"RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "9"}, want: Who{Rank: 1, World: 4, Local: 2, Coordinator: "h:9", Source: "torchrun's variables"}},
		{name: "Open MPI on one host", rank: -1, env: map[string]string{"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_NAMESPACE": "3051683841"}, want: Who{World: 4, Local: 4, Coordinator: "127.0.0.1:34550", Lead: true, Source: "Open MPI's variables", Binds: true}},
		{name: "Open MPI on several", rank: -1, env: map[string]string{"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "3051683841"}, bad: "--coordinator"},
		{name: "PET", rank: -1, env: map[string]string{"PET_NODE_RANK": "1", "PET_NNODES": "2", "PET_NPROC_PER_NODE": "auto", "PET_MASTER_ADDR": "t-node-0-0.t", "PET_MASTER_PORT": "29400"}, want: Who{Rank: 1, World: 2, Coordinator: "t-node-0-0.t:29400", Source: "torchrun's PET variables"}},
		{name: "PET beside torchrun's own", rank: -1, env: map[string]string{"PET_NODE_RANK": "0", "PET_NNODES": "1", "PET_NPROC_PER_NODE": "2", "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "9"}, want: Who{Rank: 1, World: 2, Coordinator: "h:9", Source: "torchrun's variables"}},
		{name: "PET with several processes a node", rank: -1, env: map[string]string{"PET_NODE_RANK": "0", "PET_NNODES": "2", "PET_NPROC_PER_NODE": "4"}, bad: "PET_NPROC_PER_NODE"},
		{name: "PET with a range of one", rank: -1, env: map[string]string{"PET_NODE_RANK": "1", "PET_NNODES": "2:2", "PET_MASTER_ADDR": "h", "PET_MASTER_PORT": "29400"}, want: Who{Rank: 1, World: 2, Coordinator: "h:29400", Source: "torchrun's PET variables"}},
		{name: "PET with a range of nodes", rank: -1, env: map[string]string{"PET_NODE_RANK": "0", "PET_NNODES": "1:4"}, bad: "PET_NNODES"},
		{name: "TF_CONFIG, chief", rank: -1, env: map[string]string{"TF_CONFIG": tfCluster("chief", 0)}, want: Who{World: 4, Coordinator: "c:2222", Lead: true, Source: "TF_CONFIG"}},
		{name: "TF_CONFIG, worker", rank: -1, env: map[string]string{"TF_CONFIG": tfCluster("worker", 1)}, want: Who{Rank: 2, World: 4, Coordinator: "c:2222", Source: "TF_CONFIG"}},
		{name: "TF_CONFIG, server", rank: -1, env: map[string]string{"TF_CONFIG": tfCluster("ps", 0)}, want: Who{Rank: 3, World: 4, Coordinator: "c:2222", Source: "TF_CONFIG"}},
		{name: "TF_CONFIG, evaluator", rank: -1, env: map[string]string{"TF_CONFIG": tfCluster("evaluator", 0)}, bad: "evaluator"},
		{name: "TF_CONFIG, a task there is not", rank: -1, env: map[string]string{"TF_CONFIG": tfCluster("worker", 2)}, bad: "worker 2"},
		{name: "TF_CONFIG that is none", rank: -1, env: map[string]string{"TF_CONFIG": "{"}, bad: "TF_CONFIG"},
		{name: "srun --mpi=pmi2", rank: -1, env: map[string]string{"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "4", "SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "a,b", "SLURM_JOB_ID": "1"}, want: Who{Rank: 1, World: 2, Coordinator: "a:20001", Source: "Slurm's variables", Binds: true}},
		{name: "mpirun of MPICH within a step", rank: -1, at: "h:1", env: map[string]string{"PMI_RANK": "3", "PMI_SIZE": "4", "SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "a,b", "SLURM_JOB_ID": "1"}, want: Who{Rank: 3, World: 4, Coordinator: "h:1", Source: "PMI's variables", Binds: true}},
		{name: "rank 1 of MPICH, by the first task of a step", rank: -1, at: "h:1", env: map[string]string{"PMI_RANK": "0", "PMI_SIZE": "4", "SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_ID": "0"}, want: Who{World: 4, Coordinator: "h:1", Lead: true, Source: "PMI's variables", Binds: true}},
		{name: "Slurm's racks", rank: -1, env: map[string]string{"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "rack[0-1]_blade[0-1]", "SLURM_JOB_ID": "1"}, want: Who{Rank: 1, World: 2, Coordinator: "rack0_blade0:20001", Source: "Slurm's variables", Binds: true}},
		{name: "Slurm's list that scontrol refuses", rank: -1, env: map[string]string{"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "n[0-1]-ib", "SLURM_JOB_ID": "1"}, bad: `SLURM_STEP_NODELIST: "n[0-1]-ib": "-ib" stands behind the last bracket`},
		{name: "TF_CONFIG, an index in quotes", rank: -1, env: map[string]string{"TF_CONFIG": strings.Replace(tfCluster("worker", 1), "1}", `"1"}`, 1)}, want: Who{Rank: 2, World: 4, Coordinator: "c:2222", Source: "TF_CONFIG"}},
		{name: "TF_CONFIG, no number", rank: -1, env: map[string]string{"TF_CONFIG": strings.Replace(tfCluster("worker", 1), "1}", `"one"}`, 1)}, bad: `TF_CONFIG: the index of task "worker" is "one", want a whole number`},
		{name: "TF_CONFIG, no index", rank: -1, env: map[string]string{"TF_CONFIG": `{"cluster":{"worker":["a:1"]},"task":{"type":"worker"}}`}, want: Who{World: 1, Coordinator: "a:1", Lead: true, Source: "TF_CONFIG"}},
		{name: "a batch script outside of a step", rank: -1, env: map[string]string{"SLURM_PROCID": "0", "SLURM_JOB_ID": "1"}, bad: "no rank"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Whoami(func(k string) string { return c.env[k] }, c.rank, c.at)
			if c.bad != "" {
				if err == nil || !strings.Contains(err.Error(), c.bad) {
					t.Errorf("%v", err)
				}
			} else if err != nil || got != c.want {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// The first host of a list is the one that scontrol show hostnames prints first.
func TestSlurmLeader(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"n[03-07,9],m1": "n03", "a,b[1-2]": "a", "rack[0-1]_blade[0-1]": "rack0_blade0", "r[0-1]b[2-3]c[4-5]": "r0b2c4", "a[1-2]b[3-4],c": "a1b3", "[1-2]": "1", "n[1-2][3-4]": "n13", "n[2,1]": "n2", "": "", "host": "host",
		"unit[0-1]rack": "!", "n[0-1]-ib": "!", "node-[1-2].cluster,m": "!", "n[]": "!", "n[a-b]": "!", "n[1-": "!", "n[-3]": "!",
	} {
		got, err := slurmLeader(list)
		if want == "!" && err == nil || want != "!" && (err != nil || got != want) {
			t.Errorf("%q: %q, %v; want %q", list, got, err, want)
		}
	}
}

// tfCluster is a TF_CONFIG of a chief, two workers and a server.
func tfCluster(task string, index int) string {
	return fmt.Sprintf(`{"cluster":{"worker":["a:2222","b:2222"],"ps":["p:2222"],"chief":["c:2222"]},"task":{"type":%q,"index":%d}}`, task, index)
}

// The leader listens at the coordinator's port whatever the flags that all ranks are
// given say, and on loopback only where that is what the coordinator is written as.
func TestLeadAt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ listen, coordinator, want string }{
		{"", "127.0.0.1:29500", "127.0.0.1:29500"},
		{"", "localhost:29500", "localhost:29500"},
		{"127.0.0.1:0", "127.0.0.1:29500", "127.0.0.1:29500"},
		{"10.77.0.1:0", "10.77.0.1:29500", "10.77.0.1:29500"},
		{":0", "10.77.0.1:29500", ":29500"},
		{"0.0.0.0:8080", "service:80", "0.0.0.0:8080"},
		{"", "192.0.2.1:29500", ":29500"}, // of no interface here
		{"", "no-such-name.invalid:29500", ":29500"},
		{"", "nowhere", ""}, {"nowhere", "127.0.0.1:1", ""},
	} {
		if got, err := leadAt(c.listen, c.coordinator); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("--listen %q --coordinator %q: %q, %v", c.listen, c.coordinator, got, err)
		}
	}
}

// Ranks of a host share its cores.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		local, may, cores int
		binds             bool
		want              int
	}{
		{4, 8, 8, false, 2}, {4, 8, 64, false, 2}, {16, 8, 8, false, 1},
		{4, 8, 32, true, 8}, {4, 32, 32, true, 8}, {4, 1, 32, true, 1}, {64, 32, 32, true, 1},
	} {
		if got := share(c.local, c.may, c.cores, c.binds); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	getenv := func(string) string { return "" }
	may := runtime.GOMAXPROCS(0)
	for _, c := range []struct {
		w         Who
		key, want int
	}{{Who{}, 0, 0}, {Who{Local: 64}, 0, 1}, {Who{Local: 64}, 3, 3}, {Who{CPUs: 1, Local: 1}, 0, 1}, {Who{CPUs: may + 5}, 0, may}, {Who{Local: 1}, 0, 0}} {
		if got := c.w.threads(c.key, getenv); got != c.want {
			t.Errorf("%+v, threads=%d: %d, want %d", c.w, c.key, got, c.want)
		}
	}
	if got := (Who{CPUs: 1}).threads(0, func(string) string { return "7" }); got != 0 {
		t.Errorf("with GOMAXPROCS set it is %d", got)
	}
}

// The key threads reaches the passes and changes no bit of a result.
func TestThreads(t *testing.T) {
	t.Parallel()
	for _, over := range [][]string{{"mode=reduce"}, {"mode=server"}, {"mode=server", "policy=asp"}} {
		want := mustExecute(t, over...)
		for _, n := range []string{"1", "2"} {
			r := mustExecute(t, append(over, "threads="+n)...)
			if r.ParamsSHA256 != want.ParamsSHA256 || r.Values["accuracy"] != want.Values["accuracy"] || r.VirtualSeconds != want.VirtualSeconds {
				t.Errorf("%v, threads=%s: %s, accuracy %g; without %s, %g", over, n, r.ParamsSHA256, r.Values["accuracy"], want.ParamsSHA256, want.Values["accuracy"])
			}
		}
	}
	for _, run := range mustRuns(t, small, "threads=3") {
		j, err := run.Build(config.Places{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if j.Threads != 3 {
			t.Errorf("the job's passes may use %d threads, want 3", j.Threads)
		}
	}
}

// A run lasts until the last rank has the sums, not the first.
func TestTimeOfALastRank(t *testing.T) {
	t.Parallel()
	for _, over := range [][]string{{"weightless=true", "eval_every=0", "target=0"}, {}} {
		over = append(over, "mode=reduce", "topology=tree", "timing=mnistcnn", "device.flops=1e20", "workers=8", "steps=1", "epochs=0", "net=sim")
		if r := mustExecute(t, over...); r.VirtualSeconds != r.Network.Seconds || r.VirtualSeconds <= 0 {
			t.Errorf("%v: %g s, while the network was in use for %g", over, r.VirtualSeconds, r.Network.Seconds)
		}
	}
}

// The codecs that evidence is given for run, each of them: a few steps of
// something small in the place of what the recipe trains.
func TestCodecRecipesRun(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"codecs", "codecs-cifar"} {
		t.Run(name, func(t *testing.T) {
			r, err := config.LoadRecipe(name)
			if err != nil {
				t.Fatal(err)
			}
			runs, err := r.Runs([]string{"data=digits", "model=mlp(hidden=[16])", "augment=false", "steps=3", "batch=4", "eval_every=3", "workers=3"}, false)
			if err != nil {
				t.Fatal(err)
			}
			raw := 0
			for _, run := range runs {
				res, err := Execute(context.Background(), run, Options{Recipe: name, Out: t.TempDir()})
				if err != nil {
					t.Errorf("%s: %v", run.Name, err)
					continue
				}
				if run.Config.Codec == "raw" {
					raw = int(res.BytesUp)
				}
				if res.Steps != 3 || res.BytesUp == 0 || int(res.BytesUp) > raw {
					t.Errorf("%s: %d steps, %d bytes, raw has %d", run.Name, res.Steps, res.BytesUp, raw)
				}
			}
		})
	}
}

// Runs along an axis with a unit are named, and filed, by what people write.
func TestNamesHaveUnits(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	runs := mustRuns(t, "steps: 2\neval_every: 1\nmodel: logistic\ntest_limit: 50\nnetwork: {bandwidth: [1Gbps, 10Gbps]}\n")
	if len(runs) != 2 || runs[0].Name != "network.bandwidth=1Gbps" || runs[1].Name != "network.bandwidth=10Gbps" {
		t.Fatalf("%+v", runs)
	}
	res, err := Execute(context.Background(), runs[0], Options{Recipe: "r", Out: out})
	if err != nil {
		t.Fatal(err)
	}
	hash := runs[0].Config.Hash()
	if want := "network.bandwidth=1Gbps-" + hash[:6]; filepath.Base(res.Folder) != want {
		t.Fatalf("folder %s, want %s", res.Folder, want)
	}
}

// mustRuns parses a recipe and resolves its runs.
func mustRuns(t testing.TB, text string, overrides ...string) []config.Run {
	t.Helper()
	r, err := config.ParseRecipe("test", "test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := r.Runs(overrides, false)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}
