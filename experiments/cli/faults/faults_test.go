//go:build linux

package faults_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
)

// F2: an asynchronous run goes on without a worker, makes all its updates, and
// says what it lost.
func TestF2WorkerKilledAsync(t *testing.T) {
	t.Parallel()
	for _, over := range [][]string{
		{"policy=asp"},
		{"policy=asp", "servers=2", "codec=feedback(topk(keep=0.1))"},
		{"policy=ssp(slack=3)"},
		{"mode=downpour", "policy=asp"},
		{"mode=rudra(tree=2)", "policy=asp"},
		{"mode=adpsgd", "graph=ring", "optimizer=sgd"},
		{"mode=agp", "graph=one_peer", "optimizer=sgd"},
	} {
		t.Run(strings.Join(over, " "), func(t *testing.T) {
			p, out := program.Running(t, over...)
			program.Hit(p, 1, syscall.SIGKILL)
			p.Expect(0)
			r := p.Result()
			if !r.LostOne() {
				t.Errorf("degraded %v, lost %q", r.Degraded, r.Lost)
			}
			if r.Steps != program.LongSteps || r.Status != "done" {
				t.Errorf("%d steps, %s", r.Steps, r.Status)
			}
			if l := r.Ledger; l.Sent != l.Applied+l.Rejected+l.Lost || l.Applied == 0 {
				t.Errorf("the ledger does not balance: %+v", l)
			}
			if !strings.Contains(p.Err.String(), "degraded") && !strings.Contains(p.Err.String(), "DEGRADED") {
				t.Errorf("the display does not say degraded\n%s", p.Err.String())
			}
			program.NoneLeft(t, out)
		})
	}
}

// F2: the worker that warms up alone may die, too.
func TestF2WarmUpKilled(t *testing.T) {
	if !patience.Long {
		t.Skip("starts processes")
	}
	t.Parallel()
	p, out := program.Running(t, "mode=downpour(warm_start=780)", "policy=asp")
	program.Hit(p, 0, syscall.SIGKILL)
	p.Expect(0)
	r := p.Result()
	if l := r.Ledger; !r.Degraded || r.Steps != program.LongSteps || l.Sent != l.Applied+l.Rejected+l.Lost {
		t.Errorf("%+v", r)
	}
	program.NoneLeft(t, out)
}

// F2, F10: whose portions others make may die too, and begin anew.
func TestF2SandblasterWorkerKilled(t *testing.T) {
	if !patience.Long {
		t.Skip("starts processes")
	}
	t.Parallel()
	p, out := program.Running(t, "mode=sandblaster(portions=8)", "servers=2", "optimizer=sgd", "steps=150")
	program.Hit(p, 1, syscall.SIGKILL)
	program.Evaluated(t, p, out, 4)
	p.Signal(syscall.SIGTERM)
	p.Expect(143)
	again := program.Start(t, nil, append(p.Cmd.Args[1:], "--resume")...)
	again.Expect(0)
	r := again.Result()
	if l := r.Ledger; !r.Degraded || len(r.Lost) != 1 || r.Steps != 150 || l.Sent != l.Applied+l.Rejected+l.Lost || l.Applied == 0 {
		t.Errorf("%+v", r)
	}
	program.NoneLeft(t, out)
}

// twice gives a run some steps more.
var twice = fmt.Sprint("steps=", 2*program.LongSteps)

// F2, F10: a run that has lost a worker can be stopped and resumed. The worker
// begins anew; what was lost stays told, and the ledger balances over both legs.
func TestF2ResumeAfterLoss(t *testing.T) {
	t.Parallel()
	for _, over := range patience.Few(2, [][]string{
		{"policy=asp", "codec=feedback(topk(keep=0.1))"},
		{"policy=asp", "servers=2", "down_codec=topk(keep=0.2)"},
		{"mode=downpour", "policy=asp"},
		{"mode=rudra(tree=2,threads=true)", "policy=asp"},
		{"mode=adpsgd", "graph=ring", "codec=raw"},
	}) {
		t.Run(strings.Join(over, " "), func(t *testing.T) {
			t.Parallel()
			p, out := program.Running(t, append(over, twice)...)
			program.Hit(p, 1, syscall.SIGKILL)
			program.Evaluated(t, p, out, 20)
			p.Signal(syscall.SIGTERM)
			p.Expect(143)
			again := program.Start(t, nil, append(p.Cmd.Args[1:], "--resume")...)
			again.Expect(0)
			r := again.Result()
			if !r.LostOne() || r.Steps != 2*program.LongSteps {
				t.Errorf("%+v", r)
			}
			if l := r.Ledger; l.Sent != l.Applied+l.Rejected+l.Lost || l.Applied < 2*program.LongSteps {
				t.Errorf("the ledger does not balance: %+v", l)
			}
			program.NoneLeft(t, out)
		})
	}
}

// F1, F4, F5, F9: a synchronous run ends, with the reason, when a rank dies or
// stops; not one process stays.
func TestF1F4F5F9RunsEnd(t *testing.T) {
	t.Parallel()
	type fault struct {
		name   string
		rank   int
		signal syscall.Signal
		over   []string
	}
	for _, c := range patience.Few(3, []fault{
		{"ring, worker killed", 1, syscall.SIGKILL, []string{"mode=reduce"}},
		{"ring, rank 0 killed", 0, syscall.SIGKILL, []string{"mode=reduce", "overlap=buckets"}},
		{"F5, server killed", 3, syscall.SIGKILL, []string{"policy=asp"}},
		{"ring, worker stopped", 2, syscall.SIGSTOP, []string{"mode=reduce"}},
		{"bsp, worker killed", 1, syscall.SIGKILL, []string{"policy=bsp"}},
		{"bsp, worker stopped", 1, syscall.SIGSTOP, []string{"policy=bsp"}},
		{"relay killed", 0, syscall.SIGKILL, []string{"mode=rudra(tree=2)", "policy=asp"}},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, out := program.Running(t, c.over...)
			program.Hit(p, c.rank, c.signal)
			if code := p.Wait(program.Decided); code != 75 { // another try may go well
				t.Errorf("exit code %d\n%s", code, p.Says())
			}
			if !strings.Contains(p.Err.String(), fmt.Sprintf("rank %d", c.rank)) {
				t.Errorf("the message does not name rank %d\n%s", c.rank, p.Says())
			}
			if p.Out.String() != "" {
				t.Errorf("a result after all: %s", p.Out.String())
			}
			program.NoneLeft(t, out)
		})
	}
}

// F22: ranks do not outlive their launcher, not even one that is stopped and can notice
// nothing by itself: the system ends it. Here the ranks become children of this process
// then, as they would become those of a shell or a job's step, so that nothing wakes it.
func TestF22LauncherKilled(t *testing.T) {
	t.Parallel()
	const subreaper = 36 // PR_SET_CHILD_SUBREAPER
	reap := func(on uintptr) {
		if _, _, err := syscall.RawSyscall6(syscall.SYS_PRCTL, subreaper, on, 0, 0, 0, 0); err != 0 {
			t.Skip("this system leaves orphans to its first process: ", err)
		}
	}
	p, out := program.Running(t, "mode=reduce")
	ranks := program.Ranks(p)
	if len(ranks) != 3 {
		t.Fatalf("%d ranks", len(ranks))
	}
	reap(1)
	defer reap(0)
	defer func() {
		for rank, pid := range ranks {
			var how syscall.WaitStatus
			if t.Failed() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			if got, err := syscall.Wait4(pid, &how, 0, nil); rank == 1 && (got != pid || how.Signal() != syscall.SIGKILL) {
				t.Errorf("the rank that was stopped ended by %v (%d, %v), want the signal at its launcher's death", how, got, err)
			}
		}
	}()
	program.Hit(p, 1, syscall.SIGSTOP)
	p.Signal(syscall.SIGKILL)
	<-p.Done
	program.NoneLeft(t, out)
}

// F24: a run folder has one writer; the second one ends and the first goes on.
func TestF24OneWriter(t *testing.T) {
	if !patience.Long {
		t.Skip("long runs")
	}
	t.Parallel()
	out := t.TempDir()
	args := []string{"run", program.Recipe(t, program.Long), "--net", "local", "--json", "--out", out, "mode=reduce", "steps=20000"}
	p := program.Start(t, nil, args...)
	program.Evaluated(t, p, out, 1)
	second := program.Start(t, nil, append(args, "--resume")...)
	second.Expect(1)
	if !strings.Contains(second.Err.String(), "in use by another process") {
		t.Error(second.Says())
	}
	p.Signal(syscall.SIGINT)
	p.Expect(143)
}

// Ranks started by somebody else find each other, and give the result of any
// other net.
func TestStartedByHand(t *testing.T) {
	if !patience.Long {
		t.Skip("starts processes")
	}
	t.Parallel()
	file, out, port := program.Recipe(t, program.Quick), t.TempDir(), program.FreePort(t)
	other := program.Start(t, program.Torchrun(1, 2, port), "join", file, "mode=reduce")
	lead := program.Start(t, program.Torchrun(0, 2, port), "join", file, "mode=reduce", "--out", out)
	lead.Expect(0)
	other.Expect(0)
	want := program.Finish(t, 0, "run", file, "mode=reduce", "--json", "--quiet", "--out", t.TempDir()).Result()
	files, _ := filepath.Glob(filepath.Join(out, "*", "*", "result.json"))
	if len(files) != 1 {
		t.Fatalf("%v\n%s", files, lead.Says())
	}
	var r program.Result
	program.ReadJSON(t, files[0], &r)
	if r.SHA256 != want.SHA256 || r.Virtual != 0 || r.Status != "done" {
		t.Errorf("%+v, want the parameters of %+v", r, want)
	}
	if !strings.Contains(lead.Out.String(), "accuracy") {
		t.Error(lead.Says())
	}
}

// F6: when the coordinator is killed the other ranks end, each with the code for another
// try; started again, the run goes on from its checkpoint to the bits of one that was
// never hit.
func TestF6CoordinatorKilled(t *testing.T) {
	if !patience.Long {
		t.Skip("starts processes")
	}
	t.Parallel()
	file, out, port := program.Recipe(t, program.Long), t.TempDir(), program.FreePort(t)
	rank := func(n int, more ...string) *program.Program {
		return program.Start(t, program.Torchrun(n, 3, port), append([]string{"join", file, "mode=reduce", "workers=3", "checkpoint_every=20", "--out", out}, more...)...)
	}
	lead, others := rank(0), []*program.Program{rank(1), rank(2)}
	folder := program.Evaluated(t, lead, out, 4)
	lead.Signal(syscall.SIGKILL)
	for _, p := range others {
		if code := p.Wait(program.Decided); code != 75 || !strings.Contains(p.Err.String(), "rank") {
			t.Errorf("exit code %d\n%s", code, p.Says())
		}
	}
	program.NoneLeft(t, out)
	for _, p := range []*program.Program{rank(0, "--resume"), rank(1), rank(2)} {
		p.Expect(0)
	}
	var r program.Result
	program.ReadJSON(t, filepath.Join(folder, "result.json"), &r)
	want := program.Finish(t, 0, "run", file, "mode=reduce", "workers=3", "checkpoint_every=20", "--net", "local", "--json", "--quiet", "--out", t.TempDir()).Result()
	if r.Status != "done" || r.SHA256 != want.SHA256 {
		t.Errorf("%+v, want the parameters of %+v", r, want)
	}
}

// Flags say what a launcher's variables do.
func TestStartedByFlags(t *testing.T) {
	if !patience.Long {
		t.Skip("starts processes")
	}
	t.Parallel()
	file, out, at := program.Recipe(t, program.Quick), t.TempDir(), fmt.Sprint("127.0.0.1:", program.FreePort(t))
	rank := func(n int) *program.Program {
		return program.Start(t, []string{program.Secret}, "join", file, "mode=reduce", "--rank", fmt.Sprint(n), "--coordinator", at, "--out", out)
	}
	for _, p := range []*program.Program{rank(1), rank(0)} {
		p.Expect(0)
	}
	if files, _ := filepath.Glob(filepath.Join(out, "*", "*", "result.json")); len(files) != 1 {
		t.Errorf("%v", files)
	}
}

// F10 by hand: a signal to every rank, as a scheduler sends it, stops the run
// after a checkpoint.
func TestStartedByHandStops(t *testing.T) {
	if !patience.Long {
		t.Skip("starts processes")
	}
	t.Parallel()
	file, out, port := program.Recipe(t, program.Long), t.TempDir(), program.FreePort(t)
	both := func(resume ...string) []*program.Program {
		lead := program.Start(t, program.Torchrun(0, 2, port), append([]string{"join", file, "mode=reduce", "workers=2", "--out", out}, resume...)...)
		return []*program.Program{lead, program.Start(t, program.Torchrun(1, 2, port), "join", file, "mode=reduce", "workers=2")}
	}
	ps := both()
	folder := program.Evaluated(t, ps[0], out, 2)
	for _, p := range ps {
		p.Signal(syscall.SIGTERM)
	}
	ps[0].Expect(143)
	ps[1].Wait(program.Enough)
	for _, p := range both("--resume") {
		p.Expect(0)
	}
	var r program.Result
	program.ReadJSON(t, filepath.Join(folder, "result.json"), &r)
	want := program.Finish(t, 0, "run", file, "mode=reduce", "workers=2", "--net", "local", "--json", "--quiet", "--out", t.TempDir()).Result()
	if r.Status != "done" || r.SHA256 != want.SHA256 {
		t.Errorf("%+v, want the parameters of %+v", r, want)
	}
}

// F18: ranks of different runs refuse each other, and both sides say what
// differs.
func TestF18Mismatch(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("starts processes")
	}
	for _, c := range []struct{ key, lead, other string }{
		{"seed", "1", "2"}, {"codec", "raw", "feedback(topk(keep=0.1))"}, {"model", "mlp(hidden=[16])", "mlp(hidden=[17])"}, {"data", "digits", "synthetic"},
	} {
		t.Run(c.key, func(t *testing.T) {
			t.Parallel()
			file, port := program.Recipe(t, program.Quick), program.FreePort(t)
			lead := program.Start(t, program.Torchrun(0, 2, port), "join", file, "mode=reduce", c.key+"="+c.lead, "--out", t.TempDir())
			other := program.Start(t, program.Torchrun(1, 2, port), "join", file, "mode=reduce", c.key+"="+c.other)
			for _, p := range []*program.Program{lead, other} {
				p.Expect(3)
				if !strings.Contains(p.Err.String(), fmt.Sprintf("%s: %s", c.key, c.lead)) || !strings.Contains(p.Err.String(), " at the joining process") {
					t.Errorf("the difference is not told\n%s", p.Says())
				}
			}
		})
	}
}

// Who cannot take part ends with a code that says whether to try again.
func TestCannotJoin(t *testing.T) {
	t.Parallel()
	if !patience.Long {
		t.Skip("starts processes")
	}
	file := program.Recipe(t, program.Quick)
	t.Run("wrong token", func(t *testing.T) {
		t.Parallel()
		port := program.FreePort(t)
		program.Start(t, program.Torchrun(0, 2, port), "join", file, "mode=reduce", "--out", t.TempDir())
		other := program.Start(t, append(program.Torchrun(1, 2, port), "GRADLAB_TOKEN=00112233445566778899aabbccddeeff"), "join", file, "mode=reduce")
		other.Expect(3)
		if !strings.Contains(other.Err.String(), "token") || strings.Contains(other.Err.String(), "00112233") {
			t.Error(other.Says())
		}
	})
	t.Run("nobody else comes", func(t *testing.T) {
		t.Parallel()
		began := time.Now()
		p := program.Start(t, program.Torchrun(0, 2, program.FreePort(t)), "join", file, "mode=reduce", "--out", t.TempDir(), "--timeout", "500ms")
		p.Expect(75)
		if !strings.Contains(p.Err.String(), "rank 1 did not join within 500ms") || time.Since(began) > program.Decided {
			t.Error(p.Says())
		}
	})
	t.Run("port in use", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		p := program.Start(t, program.Torchrun(0, 2, l.Addr().(*net.TCPAddr).Port), "join", file, "mode=reduce", "--out", t.TempDir())
		p.Expect(3)
		if !strings.Contains(p.Err.String(), "in use") {
			t.Error(p.Says())
		}
	})
	t.Run("a token that could be guessed", func(t *testing.T) {
		t.Parallel()
		p := program.Start(t, append(program.Torchrun(0, 2, program.FreePort(t)), "GRADLAB_TOKEN=secret31337"), "join", file, "mode=reduce", "--out", t.TempDir())
		p.Expect(2)
		if !strings.Contains(p.Err.String(), "head -c32 /dev/urandom") || strings.Contains(p.Err.String(), "secret31337") {
			t.Error(p.Says())
		}
	})
	t.Run("certificates by halves", func(t *testing.T) {
		t.Parallel()
		p := program.Start(t, program.Torchrun(0, 2, program.FreePort(t)), "join", file, "mode=reduce", "--tls-cert", "rank.pem", "--out", t.TempDir())
		p.Expect(2)
		if !strings.Contains(p.Err.String(), "--tls-key is missing") {
			t.Error(p.Says())
		}
	})
	t.Run("other number of ranks", func(t *testing.T) {
		t.Parallel()
		for _, rank := range []int{0, 1} {
			out := t.TempDir()
			p := program.Start(t, program.Torchrun(rank, 5, program.FreePort(t)), "join", file, "mode=reduce", "--out", out)
			p.Expect(2)
			if files, _ := os.ReadDir(out); len(files) > 0 {
				t.Errorf("left %v", files)
			}
			if !strings.Contains(p.Err.String(), "5 processes") {
				t.Error(p.Says())
			}
		}
	})
	t.Run("rank beyond the world", func(t *testing.T) {
		t.Parallel()
		p := program.Start(t, []string{program.Secret}, "join", file, "mode=reduce", "--rank", "9", "--coordinator", "127.0.0.1:1")
		p.Expect(2)
	})
}
