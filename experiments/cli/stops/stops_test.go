//go:build linux

package stops_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
)

var modes = map[string][]string{
	"server": {"mode=server", "policy=bsp", "servers=2"},
	"reduce": {"mode=reduce"},
}

// undisturbed is the result of the long run in a mode, where nothing stops it.
var undisturbed = map[string]func(t *testing.T) program.Result{
	"server": once("server"),
	"reduce": once("reduce"),
}

func once(mode string) func(t *testing.T) program.Result {
	var mu sync.Mutex
	var have *program.Result
	return func(t *testing.T) program.Result {
		mu.Lock()
		defer mu.Unlock()
		if have == nil {
			args := append([]string{"run", program.Recipe(t, program.Long), "--net", "local", "--json", "--quiet", "--out", t.TempDir()}, modes[mode]...)
			r := program.Finish(t, 0, args...).Result()
			have = &r
		}
		return *have
	}
}

// A run stopped by a signal leaves a checkpoint; with --resume the same command
// ends with the bits of a run that was not stopped, and a record without gaps
// or repeats.
func TestStopAndResume(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("long runs")
	}
	for _, c := range []struct {
		net, mode string
		signal    syscall.Signal
	}{
		{"local", "server", syscall.SIGINT}, {"local", "reduce", syscall.SIGTERM},
		{"sim", "server", syscall.SIGTERM}, {"sim", "reduce", syscall.SIGINT},
		{"grpc", "server", syscall.SIGINT}, {"grpc", "reduce", syscall.SIGTERM},
	} {
		t.Run(fmt.Sprintf("%s %s %v", c.net, c.mode, c.signal), func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			args := append([]string{"run", program.Recipe(t, program.Long), "--net", c.net, "--json", "--no-plot", "--out", out}, modes[c.mode]...)
			p := program.Start(t, nil, args...)
			folder := program.Evaluated(t, p, out, 3)
			p.Signal(c.signal)
			p.Expect(143)
			program.Plain(t, p)
			r := p.Result()
			if r.Status != "stopped" || r.Steps < 3*program.LongEvery || r.Steps >= program.LongSteps || r.Folder != folder {
				t.Fatalf("%+v", r)
			}
			if !strings.Contains(p.Err.String(), "--resume") {
				t.Errorf("the way on is not told\n%s", p.Err.String())
			}
			var status struct {
				State string
				Step  int
			}
			program.ReadJSON(t, filepath.Join(folder, "status.json"), &status)
			if status.State != "stopped" || status.Step != r.Steps {
				t.Errorf("status %+v, stopped at %d", status, r.Steps)
			}
			if _, err := os.Stat(filepath.Join(folder, "checkpoint", "manifest.json")); err != nil {
				t.Error(err)
			}

			again := program.Finish(t, 0, append(args, "--resume")...).Result()
			if again.Folder != folder || again.Status != "done" || again.Steps != program.LongSteps {
				t.Fatalf("resumed: %+v", again)
			}
			if c.net == "grpc" { // of both legs, and with all that crossed at the end of either
				billed := again.BytesUp
				if again.Servers {
					billed += again.BytesDown
				}
				if r.Wire == 0 || again.Wire-again.Report-again.Overhead < billed || again.Wire <= r.Wire || again.Overhead <= r.Overhead {
					t.Errorf("links: %+v, after %+v", again, r)
				}
			}
			if want := undisturbed[c.mode](t); again.SHA256 != want.SHA256 {
				t.Errorf("parameters %s after a stop at step %d, %s without", again.SHA256, r.Steps, want.SHA256)
			}
			checkMetrics(t, filepath.Join(folder, "metrics.jsonl"))
		})
	}
}

// checkMetrics wants every evaluation of the long run once, in order, on a clock
// that does not go back.
func checkMetrics(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	type point struct {
		Step     int
		Seconds  float64
		BytesUp  uint64 `json:"bytes_up"`
		Last     bool
		Accuracy float64
	}
	last := map[string]point{"eval": {}, "progress": {}}
	evals := 0
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		var m struct {
			Kind           string
			Progress, Eval *point
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		p := m.Progress
		if m.Kind == "eval" {
			p = m.Eval
			if evals++; p.Step != program.LongEvery*evals {
				t.Errorf("line %d: evaluation at step %d, want %d", i+1, p.Step, program.LongEvery*evals)
			}
		}
		before := last[m.Kind]
		if p.Step <= before.Step || p.Seconds < before.Seconds || p.BytesUp < before.BytesUp {
			t.Errorf("line %d: %s at step %d, %v s, %d bytes after step %d, %v s, %d bytes", i+1, m.Kind, p.Step, p.Seconds, p.BytesUp, before.Step, before.Seconds, before.BytesUp)
		}
		last[m.Kind] = *p
	}
	if evals != program.LongSteps/program.LongEvery {
		t.Errorf("%d evaluations, want %d", evals, program.LongSteps/program.LongEvery)
	}
}

// The second signal does not wait for the step, the checkpoint or the peers.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("long runs")
	}
	for _, net := range []string{"local", "sim", "grpc"} {
		t.Run(net, func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			// One step is some seconds of arithmetic.
			p := program.Start(t, nil, "run", program.Recipe(t, "data: synthetic(dim=256)\nmodel: mlp(hidden=[2048,2048])\nmode: reduce\nworkers: 2\nbatch: 2048\nsteps: 1000\n"), "--net", net, "--out", out)
			program.WaitFor(t, "a beginning", p, func() bool {
				files, _ := filepath.Glob(filepath.Join(out, "*", "*", "status.json"))
				return len(files) == 1 && (net != "grpc" || len(program.Ranks(p)) == 2)
			})
			p.Signal(syscall.SIGINT)
			program.WaitFor(t, "word of stopping", p, func() bool { return strings.Contains(p.Err.String(), "once more ends at once") })
			p.Signal(syscall.SIGTERM)
			if code := p.Wait(program.Enough); code != 1 && code != 143 { // 143: it was stopped already
				t.Errorf("exit code %d\n%s", code, p.Says())
			}
			program.NoneLeft(t, out)
		})
	}
}

// A stop breaks off an update that would take long between two of its micro-batches, in
// processes too, launched or not, whichever rank hears of it.
func TestStopWithinAnUpdate(t *testing.T) {
	t.Parallel()
	broken := func(t *testing.T, p *program.Program, out string) {
		t.Helper()
		if !strings.Contains(p.Err.String(), "stopped between the micro-batches of an update") {
			t.Error(p.Says())
		}
		files, _ := filepath.Glob(filepath.Join(out, "*", "*", "status.json"))
		if len(files) != 1 {
			t.Fatal(files)
		}
		var status struct{ State string }
		if program.ReadJSON(t, files[0], &status); status.State != "stopped" {
			t.Errorf("%+v", status)
		}
		program.NoneLeft(t, out)
	}
	for name, keys := range map[string][]string{"reduce": {"mode=reduce"}, "server": {"mode=server", "policy=bsp"}} {
		t.Run("launched, "+name, func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			p := program.Start(t, nil, append([]string{"run", program.Recipe(t, program.Endless), "--net", "grpc", "--no-plot", "--out", out}, keys...)...)
			program.Evaluated(t, p, out, 1)
			p.Signal(syscall.SIGTERM)
			p.Expect(143)
			broken(t, p, out)
		})
	}
	for name, rank := range map[string]int{"the rank that leads": 0, "the other": 1} {
		t.Run("joined, "+name, func(t *testing.T) {
			t.Parallel()
			file, out, port := program.Recipe(t, program.Endless), t.TempDir(), program.FreePort(t)
			var ranks []*program.Program
			for rank := range 2 {
				env := append(program.Torchrun(rank, 2, port), fmt.Sprint("SLURM_PROCID=", rank))
				ranks = append(ranks, program.Start(t, env, "join", file, "mode=reduce", "--out", out))
			}
			program.WaitFor(t, "an estimate", ranks[0], func() bool {
				return strings.Contains(ranks[0].Err.String(), "micro-batches on each of 2 workers")
			})
			ranks[rank].Signal(syscall.SIGUSR1)
			for _, p := range ranks {
				p.Expect(75)
			}
			broken(t, ranks[0], out)
		})
	}
}

// A signal while the ranks still start stops the run as well.
func TestEarlySignal(t *testing.T) {
	if !patience.Long {
		t.Skip("long runs")
	}
	t.Parallel()
	out := t.TempDir()
	p := program.Start(t, nil, "run", program.Recipe(t, program.Long), "--net", "grpc", "--json", "--out", out, "mode=reduce")
	program.WaitFor(t, "a process", p, func() bool { return len(program.Ranks(p)) > 0 })
	p.Signal(syscall.SIGTERM)
	p.Expect(143)
	if r := p.Result(); r.Status != "stopped" || r.Steps >= program.LongSteps {
		t.Errorf("%+v", r)
	}
	program.NoneLeft(t, out)
}

// USR1, as sbatch --signal=USR1@60 sends it to every rank ahead of the time limit, is a
// stop whose exit code asks for another start.
func TestRequeue(t *testing.T) {
	if !patience.Long {
		t.Skip("long runs")
	}
	t.Parallel()
	file, out, port := program.Recipe(t, program.Long), t.TempDir(), program.FreePort(t)
	slurm := func(rank int, args ...string) *program.Program {
		return program.Start(t, append(program.Torchrun(rank, 2, port), fmt.Sprint("SLURM_PROCID=", rank)), append([]string{"join", file, "mode=reduce", "workers=2", "--out", out}, args...)...)
	}
	lead, other := slurm(0), slurm(1)
	folder := program.Evaluated(t, lead, out, 2)
	for _, p := range []*program.Program{lead, other} {
		p.Signal(syscall.SIGUSR1)
	}
	lead.Expect(75)
	if code := other.Wait(program.Enough); code != 0 && code != 75 {
		t.Errorf("exit code %d\n%s", code, other.Says())
	}
	var status struct{ State string }
	program.ReadJSON(t, filepath.Join(folder, "status.json"), &status)
	if _, err := os.Stat(filepath.Join(folder, "checkpoint", "manifest.json")); err != nil || status.State != "stopped" {
		t.Error(status, err)
	}
	for _, p := range []*program.Program{slurm(0, "--resume"), slurm(1)} {
		p.Expect(0)
	}
}

// One rank may hear SIGUSR1 before the others: they end as it does, though it does not lead,
// so that the highest exit code, which is the job's, asks for another start.
func TestRequeueByOneRank(t *testing.T) {
	if !patience.Long {
		t.Skip("long runs")
	}
	t.Parallel()
	for name, keys := range map[string][]string{"worker": {"mode=reduce", "workers=3"}, "server, which stops by itself": {"mode=server", "workers=2"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, out, port := program.Recipe(t, program.Long), t.TempDir(), program.FreePort(t)
			var ranks []*program.Program
			for rank := range 3 {
				env := append(program.Torchrun(rank, 3, port), fmt.Sprint("SLURM_PROCID=", rank))
				ranks = append(ranks, program.Start(t, env, append([]string{"join", file, "steps=200000", "--out", out}, keys...)...))
			}
			program.Evaluated(t, ranks[0], out, 2)
			ranks[2].Signal(syscall.SIGUSR1)
			for _, p := range ranks {
				p.Expect(75)
			}
		})
	}
}

// F10: whichever rank of a launched run is asked to stop, the run stops after a
// checkpoint.
func TestF10AnyRankStopsTheRun(t *testing.T) {
	for _, c := range []struct {
		name string
		rank int
		over []string
	}{{"worker in step", 2, []string{"mode=reduce"}}, {"worker, nobody waits", 1, []string{"policy=asp"}}, {"server", 3, []string{"policy=bsp"}}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, out := program.Running(t, append(c.over, "steps=200000")...)
			program.Hit(p, c.rank, syscall.SIGTERM)
			p.Expect(143)
			if r := p.Result(); r.Status != "stopped" {
				t.Errorf("%+v", r)
			}
			program.NoneLeft(t, out)
		})
	}
}

// Of two sweeps of a recipe into one folder the second is refused, and the first is as
// it would be alone. Shards of one sweep go on beside each other.
func TestF28TwoSweeps(t *testing.T) {
	if !patience.Long {
		t.Skip("starts processes")
	}
	t.Parallel()
	file, out := program.Recipe(t, program.Long), t.TempDir()
	args := []string{"sweep", file, "seed=1,2", "--out", out, "--quiet", "mode=reduce", "net=sim"}
	p := program.Start(t, nil, args...)
	program.Evaluated(t, p, out, 1)
	second := program.Start(t, nil, args...)
	second.Expect(1)
	if !strings.Contains(second.Err.String(), "another sweep of") {
		t.Error(second.Says())
	}
	shard := program.Start(t, nil, append(args, "--shard", "1/2")...) // the first has no shard: it makes all jobs
	shard.Expect(1)
	p.Expect(0)
	if found, _ := filepath.Glob(filepath.Join(out, "*", "*", "status.json")); len(found) != 2 {
		t.Errorf("%d runs: %v", len(found), found)
	}
	a, b := program.Start(t, nil, append(args, "steps=801", "--shard", "1/2")...), program.Start(t, nil, append(args, "steps=801", "--shard", "2/2")...)
	a.Expect(0)
	b.Expect(0)
	if p := program.Finish(t, 2, "sweep", file, "--repeats", "1000000000", "--dry-run"); !strings.Contains(p.Err.String(), "at most 100000 jobs") {
		t.Error(p.Says())
	}
}

// worked is the processor time that a running program has taken, by its own account in
// hundredths of a second: what it does first is done then, on any machine.
func worked(p *program.Program) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	ticks, _ := strconv.Atoi(fields[11])
	return time.Duration(ticks) * 10 * time.Millisecond
}

// A command without steps ends at the first signal.
func TestSignalWithoutSteps(t *testing.T) {
	if !patience.Long {
		t.Skip("long commands")
	}
	t.Parallel()
	p := program.Start(t, nil, "topology", "doubling", "65536", "1GB", "--prove")
	program.WaitFor(t, "work", p, func() bool { return worked(p) > 300*time.Millisecond })
	began := time.Now()
	p.Signal(syscall.SIGINT)
	p.Expect(143)
	if took := time.Since(began); took > patience.Stretch(5*time.Second) || strings.Contains(p.Err.String(), "next step") {
		t.Errorf("ended after %v\n%s", took, p.Says())
	}
}
