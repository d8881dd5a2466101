package mpi_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
	"github.com/gradlab/gradlab/internal/program/hosts"
)

// buildMPI builds gradlab with MPI, once. What needs no cgo is the same as in the other one,
// so that little is compiled.
var buildMPI = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(filepath.Dir(program.Gradlab), "mpi")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-tags", "mpi,netgo,osusergo", "-o", filepath.Join(dir, "gradlab"), "github.com/gradlab/gradlab")
	build.Env = append(os.Environ(), "CGO_ENABLED=1", "CC=mpicc")
	out, err := build.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return dir, err
})

// withMPI is the folder of a gradlab that is built with MPI.
func withMPI(t *testing.T) string {
	t.Helper()
	if !patience.Long || patience.Raced() {
		t.Skip("builds gradlab, and starts it")
	}
	hosts.Needs(t, "mpicc", "mpirun")
	dir, err := buildMPI()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A run of four ranks on two hosts whose frames MPI carries, by the script that gradlab
// launch writes; one that loses a rank, and one that is stopped.
func TestNetMPIOnHosts(t *testing.T) {
	t.Parallel()
	do := mpi(t)
	path := "PATH=" + withMPI(t) + ":" + os.Getenv("PATH")
	begin := func(dir string, line ...string) *program.Program {
		return do(dir, append([]string{"env", path}, line...)...)
	}
	dir := hosts.JobFolder(t)
	launch := func(dir string, keys []string) []string {
		return append([]string{"gradlab", "launch", "mpi", "digits.yaml", "net=mpi", "--hosts", "n0:2,n1:2", "--submit", "--data-dir", dir}, keys...)
	}
	short := []string{"steps=50"}
	hosts.Ends(begin(dir, launch(dir, short)...), 0, hosts.Nothing)
	hosts.Came(t, dir, hosts.Expected(t, short...), hosts.Nothing)

	// Beside other processes a step over MPI waits for several turns of theirs.
	lasting := []string{"model=mlp(hidden=[512])", "batch=512", "steps=300", "eval_every=100", "checkpoint_every=10"}
	want := hosts.Expected(t, lasting...)
	dir = hosts.JobFolder(t)
	job := begin(dir, launch(dir, lasting)...)
	hosts.Until(t, "some checkpoints", job.Says, func() bool { return strings.Contains(job.Says(), "checkpoint at step 30") })
	hosts.Kill(t, dir)
	untilSecondStart(t, job)
	if !strings.Contains(job.Says(), "exited on signal 9") {
		t.Errorf("mpirun does not say who died:\n%s", job.Says())
	}
	hosts.Stop(t, job)
	job.Expect(143)
	if says := job.Says(); !strings.Contains(says, "digits is stopped at step") || !strings.Contains(says, "gradlab: stopped; the checkpoint is written, --resume goes on") {
		t.Errorf("the last lines of rank 0 are missing:\n%s", says)
	}
	hosts.Ends(begin(dir, launch(dir, lasting)...), 0, hosts.Nothing)
	hosts.Came(t, dir, want, job.Says)
	hosts.Ends(begin(dir, launch(dir, lasting)...), 0, hosts.Nothing) // nothing is left to do, on all ranks
}

// What mpirun starts on this machine comes to the bits of goroutines, whatever travels;
// MPI's own sums do where the order of adding changes nothing.
func TestNetMPI(t *testing.T) {
	t.Parallel()
	dir := withMPI(t)
	run := func(code, ranks int, keys ...string) *program.Program {
		line := append([]string{"mpirun", "--host", fmt.Sprint("localhost:", ranks), "gradlab", "run", "quickstart", "--quiet", "--json", "--no-plot", "--out", t.TempDir(), "net=mpi"}, keys...)
		p := program.StartLine(t, dir, []string{"GRADLAB_CONFIG=", "PATH=" + dir + ":" + os.Getenv("PATH"), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}, line...)
		p.Expect(code)
		return p
	}
	for _, c := range []struct {
		keys, differ []string
		exact        bool
	}{
		{keys: []string{"codec=raw", "workers=3"}, differ: []string{"overlap=buckets"}, exact: true},
		{keys: []string{"codec=feedback(topk(keep=0.01))", "workers=3"}, exact: true},
		{keys: []string{"codec=intsum", "workers=3"}, differ: []string{"topology=mpi"}, exact: true},
		{keys: []string{"codec=raw", "workers=2"}, differ: []string{"topology=mpi"}, exact: true}, // of two, one order is as good as the other
		{keys: []string{"codec=bf16", "workers=3"}, differ: []string{"topology=mpi(ring)"}, exact: true},
		{keys: []string{"codec=raw", "workers=3"}, differ: []string{"topology=mpi(ring)"}},
	} {
		keys := append([]string{"model=mlp(hidden=[16])", "epochs=0", "steps=12", "eval_every=0"}, c.keys...)
		want := program.Finish(t, 0, append([]string{"run", "quickstart", "net=local", "--quiet", "--json", "--no-plot", "--out", t.TempDir()}, keys...)...).Result()
		ranks := 3
		if slices.Contains(c.keys, "workers=2") {
			ranks = 2
		}
		got := run(0, ranks, append(keys, c.differ...)...).Result()
		if (got.SHA256 == want.SHA256) != c.exact || got.Status != "done" || got.Wire == 0 {
			t.Errorf("%q with %q: %+v, want the parameters of %+v: %v", c.keys, c.differ, got, want, c.exact)
		}
		if !c.exact && got.SHA256 != run(0, ranks, append(keys, c.differ...)...).Result().SHA256 {
			t.Errorf("%q with %q: another sum on another run", c.keys, c.differ)
		}
	}
	for _, topology := range []string{"auto", "mpi"} { // every sum is checked
		p := program.StartLine(t, dir, []string{"GRADLAB_CONFIG=", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}, filepath.Join(dir, "gradlab"), "bench", "collectives",
			"--section", "allreduce,step", "--procs", "3", "--sizes", "64KB", "--links", "mpi", "--topology", topology, "--codecs", "raw", "--rounds", "1", "--seconds", "0.01", "--json")
		p.Expect(0)
		if s := p.Out.String(); !strings.Contains(s, `"name": "mpi"`) || strings.Contains(s, `"error"`) {
			t.Error(p.Says())
		}
	}
	if p := run(2, 2, "codec=raw", "workers=3"); !strings.Contains(p.Err.String(), "start 2 processes, but 3 workers and 0 servers are 3 ranks") {
		t.Error(p.Says())
	}
	if p := run(2, 2, "codec=raw,bf16", "workers=2"); !strings.Contains(p.Err.String(), "are the ranks of one run, and these are 2") {
		t.Error(p.Says())
	}
}

// A stop that the first process alone hears of, through the run's folder, breaks off an update
// that would take long on all of them.
func TestNetMPIStopsWithinAnUpdate(t *testing.T) {
	t.Parallel()
	dir, out := withMPI(t), t.TempDir()
	env := []string{"GRADLAB_CONFIG=", "PATH=" + dir + ":" + os.Getenv("PATH"), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}
	p := program.StartLine(t, dir, env, "mpirun", "--host", "localhost:2", "gradlab", "run", program.Recipe(t, program.Endless), "--no-plot", "--out", out, "net=mpi", "mode=reduce")
	program.WaitFor(t, "an estimate", p, func() bool { return strings.Contains(p.Err.String(), "micro-batches on each of 2 workers") })
	files, _ := filepath.Glob(filepath.Join(out, "*", "*", "status.json"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(files[0]), "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.Expect(143)
	if !strings.Contains(p.Err.String(), "stopped between the micro-batches of an update") {
		t.Error(p.Says())
	}
}

// Without mpirun, and without MPI, net=mpi says what it needs.
func TestNetMPIElsewhere(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"run"}, {"join"}} {
		p := program.Finish(t, 2, append(args, "quickstart", "codec=raw", "net=mpi", "--out", t.TempDir())...)
		if !strings.Contains(p.Err.String(), "CC=mpicc go build -tags mpi") {
			t.Error(p.Says())
		}
	}
	for line, want := range map[string]string{
		"launch slurm quickstart":              "gradlab launch mpi",
		"launch kubernetes quickstart":         "gradlab launch mpi",
		"run quickstart emulate=true":          "net=local or net=grpc",
		"run quickstart faults=kill(w1,at=1s)": "net=grpc for kills and pauses",
	} {
		p := program.Finish(t, 2, append(strings.Fields(line), "codec=raw", "net=mpi")...)
		if !strings.Contains(p.Err.String(), want) {
			t.Errorf("%s: %s", line, p.Says())
		}
	}
	if p := program.Finish(t, 2, "bench", "collectives", "--links", "mpi"); !strings.Contains(p.Err.String(), "built without MPI") {
		t.Error(p.Says())
	}
	dir := withMPI(t)
	p := program.StartLine(t, dir, []string{"GRADLAB_CONFIG="}, filepath.Join(dir, "gradlab"), "run", "quickstart", "codec=raw", "net=mpi")
	p.Expect(2)
	if !strings.Contains(p.Err.String(), "mpirun -n 4 gradlab run") {
		t.Error(p.Says())
	}
}
