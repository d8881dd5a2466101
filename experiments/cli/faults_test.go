//go:build linux

package cli_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gradlab/gradlab/internal/patience"
)

// decided is how soon a fault must have ended a run that cannot go on.
var decided = patience.Stretch(30 * time.Second)

// processes lists command lines by process.
func processes() map[int][]string {
	out := map[int][]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		if b, err := os.ReadFile(filepath.Join(d, "cmdline")); err == nil && len(b) > 0 {
			out[pid] = strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
		}
	}
	return out
}

var parent = regexp.MustCompile(`(?m)^PPid:\s*(\d+)$`)

// ranks finds the processes that a launcher has started.
func ranks(p *program) map[int]int {
	out := map[int]int{}
	for pid, args := range processes() {
		if len(args) < 2 || args[1] != "join" {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if m := parent.FindSubmatch(b); err != nil || m == nil || string(m[1]) != fmt.Sprint(p.cmd.Process.Pid) {
			continue
		}
		for i, a := range args {
			if a == "--rank" && i+1 < len(args) {
				if r, err := strconv.Atoi(args[i+1]); err == nil {
					out[r] = pid
				}
			}
		}
	}
	return out
}

// noneLeft wants no process of a run below out, stopped ones included.
func noneLeft(t *testing.T, out string) {
	t.Helper()
	var left []string
	for end := time.Now().Add(decided); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		left = nil
		for pid, args := range processes() {
			if line := strings.Join(args, " "); strings.Contains(line, out) {
				left = append(left, fmt.Sprint(pid, " ", line))
			}
		}
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("left behind: %s", strings.Join(left, "\n"))
}

// running starts the long run in processes and waits until it is under way.
func running(t *testing.T, overrides ...string) (p *program, out string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	out = t.TempDir()
	args := append([]string{"run", recipe(t, long), "--net", "grpc", "--json", "--no-plot", "--out", out, "codec=raw"}, overrides...)
	p = start(t, nil, args...)
	evaluated(t, p, out, 3)
	return p, out
}

// hit sends a signal to a rank.
func (p *program) hit(rank int, s syscall.Signal) {
	p.t.Helper()
	pid, ok := ranks(p)[rank]
	if !ok {
		p.t.Fatalf("no process is rank %d\n%s", rank, p.says())
	}
	if err := syscall.Kill(pid, s); err != nil {
		p.t.Fatal(err)
	}
}

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
			p, out := running(t, over...)
			p.hit(1, syscall.SIGKILL)
			p.expect(0)
			r := p.result()
			if !r.lostOne() {
				t.Errorf("degraded %v, lost %q", r.Degraded, r.Lost)
			}
			if r.Steps != 3000 || r.Status != "done" {
				t.Errorf("%d steps, %s", r.Steps, r.Status)
			}
			if l := r.Ledger; l.Sent != l.Applied+l.Rejected+l.Lost || l.Applied == 0 {
				t.Errorf("the ledger does not balance: %+v", l)
			}
			if !strings.Contains(p.err.String(), "degraded") && !strings.Contains(p.err.String(), "DEGRADED") {
				t.Errorf("the display does not say degraded\n%s", p.err.String())
			}
			noneLeft(t, out)
		})
	}
}

// F2: the worker that warms up alone may die, too.
func TestF2WarmUpKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	p, out := running(t, "mode=downpour(warm_start=2900)", "policy=asp")
	p.hit(0, syscall.SIGKILL)
	p.expect(0)
	r := p.result()
	if l := r.Ledger; !r.Degraded || r.Steps != 3000 || l.Sent != l.Applied+l.Rejected+l.Lost {
		t.Errorf("%+v", r)
	}
	noneLeft(t, out)
}

// F2, F10: whose portions others make may die too, and begin anew.
func TestF2SandblasterWorkerKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	p, out := running(t, "mode=sandblaster(portions=8)", "servers=2", "optimizer=sgd", "steps=150")
	p.hit(1, syscall.SIGKILL)
	evaluated(t, p, out, 4)
	p.signal(syscall.SIGTERM)
	p.expect(143)
	again := start(t, nil, append(p.cmd.Args[1:], "--resume")...)
	again.expect(0)
	r := again.result()
	if l := r.Ledger; !r.Degraded || len(r.Lost) != 1 || r.Steps != 150 || l.Sent != l.Applied+l.Rejected+l.Lost || l.Applied == 0 {
		t.Errorf("%+v", r)
	}
	noneLeft(t, out)
}

// F2, F10: a run that has lost a worker can be stopped and resumed. The worker
// begins anew; what was lost stays told, and the ledger balances over both legs.
func TestF2ResumeAfterLoss(t *testing.T) {
	t.Parallel()
	for _, over := range [][]string{
		{"policy=asp", "codec=feedback(topk(keep=0.1))"},
		{"policy=asp", "servers=2", "down_codec=topk(keep=0.2)"},
		{"mode=downpour", "policy=asp"},
		{"mode=rudra(tree=2,threads=true)", "policy=asp"},
		{"mode=adpsgd", "graph=ring", "codec=raw"},
	} {
		t.Run(strings.Join(over, " "), func(t *testing.T) {
			t.Parallel()
			p, out := running(t, append(over, "steps=6000")...)
			p.hit(1, syscall.SIGKILL)
			evaluated(t, p, out, 20)
			p.signal(syscall.SIGTERM)
			p.expect(143)
			again := start(t, nil, append(p.cmd.Args[1:], "--resume")...)
			again.expect(0)
			r := again.result()
			if !r.lostOne() || r.Steps != 6000 {
				t.Errorf("%+v", r)
			}
			if l := r.Ledger; l.Sent != l.Applied+l.Rejected+l.Lost || l.Applied < 6000 {
				t.Errorf("the ledger does not balance: %+v", l)
			}
			noneLeft(t, out)
		})
	}
}

// F1, F4, F5, F9: a synchronous run ends, with the reason, when a rank dies or
// stops; not one process stays.
func TestF1F4F5F9RunsEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		rank   int
		signal syscall.Signal
		over   []string
	}{
		{"ring, worker killed", 1, syscall.SIGKILL, []string{"mode=reduce"}},
		{"ring, rank 0 killed", 0, syscall.SIGKILL, []string{"mode=reduce", "overlap=true"}},
		{"ring, worker stopped", 2, syscall.SIGSTOP, []string{"mode=reduce"}},
		{"bsp, worker killed", 1, syscall.SIGKILL, []string{"policy=bsp"}},
		{"bsp, worker stopped", 1, syscall.SIGSTOP, []string{"policy=bsp"}},
		{"relay killed", 0, syscall.SIGKILL, []string{"mode=rudra(tree=2)", "policy=asp"}},
		{"F5, server killed", 3, syscall.SIGKILL, []string{"policy=asp"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, out := running(t, c.over...)
			p.hit(c.rank, c.signal)
			if code := p.wait(decided); code != 75 { // another try may go well
				t.Errorf("exit code %d\n%s", code, p.says())
			}
			if !strings.Contains(p.err.String(), fmt.Sprintf("rank %d", c.rank)) {
				t.Errorf("the message does not name rank %d\n%s", c.rank, p.says())
			}
			if p.out.String() != "" {
				t.Errorf("a result after all: %s", p.out.String())
			}
			noneLeft(t, out)
		})
	}
}

// F22: ranks do not outlive their launcher.
func TestF22LauncherKilled(t *testing.T) {
	t.Parallel()
	p, out := running(t, "mode=reduce")
	if n := len(ranks(p)); n != 3 {
		t.Fatalf("%d ranks", n)
	}
	p.signal(syscall.SIGKILL)
	<-p.done
	noneLeft(t, out)
}

// F24: a run folder has one writer; the second one ends and the first goes on.
func TestF24OneWriter(t *testing.T) {
	if testing.Short() {
		t.Skip("long runs")
	}
	t.Parallel()
	out := t.TempDir()
	args := []string{"run", recipe(t, long), "--net", "local", "--json", "--out", out, "mode=reduce", "steps=20000"}
	p := start(t, nil, args...)
	evaluated(t, p, out, 1)
	second := start(t, nil, append(args, "--resume")...)
	second.expect(1)
	if !strings.Contains(second.err.String(), "in use by another process") {
		t.Error(second.says())
	}
	p.signal(syscall.SIGINT)
	p.expect(143)
}

// freePort is one that nobody listens at, for now.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// secret gives a rank the secret of its run.
const secret = "GRADLAB_TOKEN=0f1e2d3c4b5a69788796a5b4c3d2e1f0"

// torchrun is the environment that torchrun and its like give a rank.
func torchrun(rank, world, port int) []string {
	return []string{fmt.Sprint("RANK=", rank), fmt.Sprint("WORLD_SIZE=", world), "MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", port), secret}
}

// Ranks started by somebody else find each other, and give the result of any
// other net.
func TestStartedByHand(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	file, out, port := recipe(t, quick), t.TempDir(), freePort(t)
	other := start(t, torchrun(1, 2, port), "join", file, "mode=reduce")
	lead := start(t, torchrun(0, 2, port), "join", file, "mode=reduce", "--out", out)
	lead.expect(0)
	other.expect(0)
	want := finish(t, 0, "run", file, "mode=reduce", "--json", "--quiet", "--out", t.TempDir()).result()
	files, _ := filepath.Glob(filepath.Join(out, "*", "*", "result.json"))
	if len(files) != 1 {
		t.Fatalf("%v\n%s", files, lead.says())
	}
	var r result
	readJSON(t, files[0], &r)
	if r.SHA256 != want.SHA256 || r.Virtual != 0 || r.Status != "done" {
		t.Errorf("%+v, want the parameters of %+v", r, want)
	}
	if !strings.Contains(lead.out.String(), "accuracy") {
		t.Error(lead.says())
	}
}

// F6: when the coordinator is killed the other ranks end, each with the code for another
// try; started again, the run goes on from its checkpoint to the bits of one that was
// never hit.
func TestF6CoordinatorKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	file, out, port := recipe(t, long), t.TempDir(), freePort(t)
	rank := func(n int, more ...string) *program {
		return start(t, torchrun(n, 3, port), append([]string{"join", file, "mode=reduce", "workers=3", "checkpoint_every=20", "--out", out}, more...)...)
	}
	lead, others := rank(0), []*program{rank(1), rank(2)}
	folder := evaluated(t, lead, out, 4)
	lead.signal(syscall.SIGKILL)
	for _, p := range others {
		if code := p.wait(decided); code != 75 || !strings.Contains(p.err.String(), "rank") {
			t.Errorf("exit code %d\n%s", code, p.says())
		}
	}
	noneLeft(t, out)
	for _, p := range []*program{rank(0, "--resume"), rank(1), rank(2)} {
		p.expect(0)
	}
	var r result
	readJSON(t, filepath.Join(folder, "result.json"), &r)
	want := finish(t, 0, "run", file, "mode=reduce", "workers=3", "checkpoint_every=20", "--net", "local", "--json", "--quiet", "--out", t.TempDir()).result()
	if r.Status != "done" || r.SHA256 != want.SHA256 {
		t.Errorf("%+v, want the parameters of %+v", r, want)
	}
}

// Flags say what a launcher's variables do.
func TestStartedByFlags(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	file, out, at := recipe(t, quick), t.TempDir(), fmt.Sprint("127.0.0.1:", freePort(t))
	rank := func(n int) *program {
		return start(t, []string{secret}, "join", file, "mode=reduce", "--rank", fmt.Sprint(n), "--coordinator", at, "--out", out)
	}
	for _, p := range []*program{rank(1), rank(0)} {
		p.expect(0)
	}
	if files, _ := filepath.Glob(filepath.Join(out, "*", "*", "result.json")); len(files) != 1 {
		t.Errorf("%v", files)
	}
}

// F10 by hand: a signal to every rank, as a scheduler sends it, stops the run
// after a checkpoint.
func TestStartedByHandStops(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	file, out, port := recipe(t, long), t.TempDir(), freePort(t)
	both := func(resume ...string) []*program {
		lead := start(t, torchrun(0, 2, port), append([]string{"join", file, "mode=reduce", "workers=2", "--out", out}, resume...)...)
		return []*program{lead, start(t, torchrun(1, 2, port), "join", file, "mode=reduce", "workers=2")}
	}
	ps := both()
	folder := evaluated(t, ps[0], out, 2)
	for _, p := range ps {
		p.signal(syscall.SIGTERM)
	}
	ps[0].expect(143)
	ps[1].wait(enough)
	for _, p := range both("--resume") {
		p.expect(0)
	}
	var r result
	readJSON(t, filepath.Join(folder, "result.json"), &r)
	want := finish(t, 0, "run", file, "mode=reduce", "workers=2", "--net", "local", "--json", "--quiet", "--out", t.TempDir()).result()
	if r.Status != "done" || r.SHA256 != want.SHA256 {
		t.Errorf("%+v, want the parameters of %+v", r, want)
	}
}

// F18: ranks of different runs refuse each other, and both sides say what
// differs.
func TestF18Mismatch(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, c := range []struct{ key, lead, other string }{
		{"seed", "1", "2"}, {"codec", "raw", "feedback(topk(keep=0.1))"}, {"model", "mlp(hidden=[16])", "mlp(hidden=[17])"}, {"data", "digits", "synthetic"},
	} {
		t.Run(c.key, func(t *testing.T) {
			t.Parallel()
			file, port := recipe(t, quick), freePort(t)
			lead := start(t, torchrun(0, 2, port), "join", file, "mode=reduce", c.key+"="+c.lead, "--out", t.TempDir())
			other := start(t, torchrun(1, 2, port), "join", file, "mode=reduce", c.key+"="+c.other)
			for _, p := range []*program{lead, other} {
				p.expect(3)
				if !strings.Contains(p.err.String(), fmt.Sprintf("%s: %s", c.key, c.lead)) || !strings.Contains(p.err.String(), " at the joining process") {
					t.Errorf("the difference is not told\n%s", p.says())
				}
			}
		})
	}
}

// Who cannot take part ends with a code that says whether to try again.
func TestCannotJoin(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	file := recipe(t, quick)
	t.Run("wrong token", func(t *testing.T) {
		t.Parallel()
		port := freePort(t)
		start(t, torchrun(0, 2, port), "join", file, "mode=reduce", "--out", t.TempDir())
		other := start(t, append(torchrun(1, 2, port), "GRADLAB_TOKEN=00112233445566778899aabbccddeeff"), "join", file, "mode=reduce")
		other.expect(3)
		if !strings.Contains(other.err.String(), "token") || strings.Contains(other.err.String(), "00112233") {
			t.Error(other.says())
		}
	})
	t.Run("nobody else comes", func(t *testing.T) {
		t.Parallel()
		began := time.Now()
		p := start(t, torchrun(0, 2, freePort(t)), "join", file, "mode=reduce", "--out", t.TempDir(), "--timeout", "500ms")
		p.expect(75)
		if !strings.Contains(p.err.String(), "rank 1 did not join within 500ms") || time.Since(began) > decided {
			t.Error(p.says())
		}
	})
	t.Run("port in use", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		p := start(t, torchrun(0, 2, l.Addr().(*net.TCPAddr).Port), "join", file, "mode=reduce", "--out", t.TempDir())
		p.expect(3)
		if !strings.Contains(p.err.String(), "in use") {
			t.Error(p.says())
		}
	})
	t.Run("a token that could be guessed", func(t *testing.T) {
		t.Parallel()
		p := start(t, append(torchrun(0, 2, freePort(t)), "GRADLAB_TOKEN=secret31337"), "join", file, "mode=reduce", "--out", t.TempDir())
		p.expect(2)
		if !strings.Contains(p.err.String(), "head -c32 /dev/urandom") || strings.Contains(p.err.String(), "secret31337") {
			t.Error(p.says())
		}
	})
	t.Run("certificates by halves", func(t *testing.T) {
		t.Parallel()
		p := start(t, torchrun(0, 2, freePort(t)), "join", file, "mode=reduce", "--tls-cert", "rank.pem", "--out", t.TempDir())
		p.expect(2)
		if !strings.Contains(p.err.String(), "--tls-key is missing") {
			t.Error(p.says())
		}
	})
	t.Run("other number of ranks", func(t *testing.T) {
		t.Parallel()
		for _, rank := range []int{0, 1} {
			out := t.TempDir()
			p := start(t, torchrun(rank, 5, freePort(t)), "join", file, "mode=reduce", "--out", out)
			p.expect(2)
			if files, _ := os.ReadDir(out); len(files) > 0 {
				t.Errorf("left %v", files)
			}
			if !strings.Contains(p.err.String(), "5 processes") {
				t.Error(p.says())
			}
		}
	})
	t.Run("rank beyond the world", func(t *testing.T) {
		t.Parallel()
		p := start(t, []string{secret}, "join", file, "mode=reduce", "--rank", "9", "--coordinator", "127.0.0.1:1")
		p.expect(2)
	})
}
