package elastic_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
	"github.com/gradlab/gradlab/sgd/train/record"
)

var wentBack = regexp.MustCompile(`(?:server|worker) \d: .*; all ranks go back to the checkpoint of step (\d+)`)

// goesBack waits for two checkpoints more, and until the run has gone back once more behind
// what is done to it then.
func goesBack(t *testing.T, p *program.Program, hit func()) {
	t.Helper()
	count := func() (checkpoints, backs int) {
		said := p.Err.String()
		return strings.Count(said, "checkpoint at step"), len(wentBack.FindAllString(said, -1))
	}
	first, before := count()
	program.WaitFor(t, "two checkpoints", p, func() bool { n, _ := count(); return n >= first+2 })
	hit()
	program.WaitFor(t, "word that all go back", p, func() bool { _, n := count(); return n > before })
}

// ended is what a run has come to that was to go back so many times.
func ended(t *testing.T, p *program.Program, out string, restarts, steps int) (r experiments.Result) {
	t.Helper()
	p.Expect(0)
	if err := json.Unmarshal([]byte(p.Out.String()), &r); err != nil {
		t.Fatalf("%v\n%s", err, p.Says())
	}
	if r.Restarts != restarts || r.Degraded || r.Steps != steps || len(r.Members) != 1 {
		t.Errorf("%d restarts, lost %q, memberships %+v, %d steps", r.Restarts, r.Lost, r.Members, r.Steps)
	}
	if l := r.Ledger; l.Sent != l.Applied+l.Rejected || l.Lost > 0 || l.Applied == 0 {
		t.Errorf("ledger %+v", l)
	}
	version := -1
	var ranks []record.RankReport
	program.ReadJSON(t, filepath.Join(r.Folder, "ranks.json"), &ranks)
	for _, rank := range ranks {
		if rank.Role == "server" && version >= 0 && rank.Version != version {
			t.Errorf("a server is at version %d, another one at %d", rank.Version, version)
		} else if rank.Role == "server" {
			version = rank.Version
		}
	}
	b, err := os.ReadFile(filepath.Join(r.Folder, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, m := range experiments.ParseMetrics(b) { // as of a run that was stopped there
		if m.Progress != nil {
			if m.Progress.Step <= last {
				t.Errorf("the record tells of step %d behind step %d", m.Progress.Step, last)
			}
			last = m.Progress.Step
		}
	}
	program.NoneLeft(t, out)
	return r
}

// F5: servers that are killed, or stopped for longer than their lease, are started again,
// and all ranks go back to the last checkpoint in their processes. Where all wait for all
// the run has the bits of one that nobody died in.
func TestF5ShardsComeBackAsProcesses(t *testing.T) {
	t.Parallel()
	type fault struct {
		name    string
		signal  syscall.Signal
		victims []int // one after the other
		over    []string
	}
	for _, c := range patience.Few(1, []fault{
		{"killed", syscall.SIGKILL, []int{4}, []string{"servers=2", "codec=feedback(topk(keep=0.1))", "optimizer=adam", "down_codec=fp16", "checkpoint_every=20"}},
		{"two, one after the other", syscall.SIGKILL, []int{3, 4}, []string{"servers=2", "overlap=buckets(bytes=2000)", "links=tcp", "checkpoint_every=20"}},
		{"stopped", syscall.SIGSTOP, []int{3}, []string{"codec=qsgd(bits=4)", "checkpoint_every=20"}},
		{"while checkpoints are written", syscall.SIGKILL, []int{4, 3}, []string{"servers=2", "checkpoint_every=1"}},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			over := append(c.over, "mode=server", "elastic=on")
			p, out := program.Running(t, append(over, "elastic=on(max_restarts=2)")...)
			ranks := program.Ranks(p)
			for _, v := range c.victims {
				goesBack(t, p, func() { program.Hit(p, v, c.signal) })
			}
			for r, pid := range program.Ranks(p) {
				if slices.Contains(c.victims, r) == (pid == ranks[r]) {
					t.Errorf("rank %d was process %d and is process %d", r, ranks[r], pid)
				}
			}
			asPlanned(t, ended(t, p, out, len(c.victims), program.LongSteps), over...)
		})
	}
}

// F5: asynchronous runs go back likewise. All shards go on from one version. So they do when
// a worker dies that relays what others send.
func TestF5ShardsComeBackAsync(t *testing.T) {
	t.Parallel()
	type fault struct {
		victim int
		over   []string
	}
	for _, c := range patience.Few(1, []fault{
		{0, []string{"policy=softsync(n=2)", "mode=rudra(tree=2)", "codec=feedback(topk(keep=0.1))"}},
		{4, []string{"policy=asp", "mode=server", "codec=feedback(topk(keep=0.1))"}},
		{4, []string{"policy=ssp(slack=2)", "mode=server", "down_codec=qsgd(bits=8)", "links=grpc"}},
		{4, []string{"policy=asp", "mode=rudra(tree=2)", "codec=feedback(topk(keep=0.1))"}},
	}) {
		t.Run(strings.Join(c.over[:2], " "), func(t *testing.T) {
			t.Parallel()
			p, out := program.Running(t, append(c.over, "servers=2", "checkpoint_every=20", "elastic=on(max_restarts=2)", twice)...)
			goesBack(t, p, func() { program.Hit(p, c.victim, syscall.SIGKILL) })
			ended(t, p, out, 1, 2*program.LongSteps)
		})
	}
}

// F5: once max_restarts are used up the death of a server ends the run, with the code that
// says to try again.
func TestF5RestartsAreUsedUp(t *testing.T) {
	t.Parallel()
	p, out := program.Running(t, "mode=server", "servers=2", "elastic=on(max_restarts=1)", "checkpoint_every=20", twice)
	goesBack(t, p, func() { program.Hit(p, 4, syscall.SIGKILL) })
	n := strings.Count(p.Err.String(), "checkpoint at step")
	program.WaitFor(t, "another checkpoint", p, func() bool { return strings.Count(p.Err.String(), "checkpoint at step") > n })
	program.Hit(p, 3, syscall.SIGKILL)
	p.Expect(75)
	program.NoneLeft(t, out)
}

// F5: without a checkpoint all begin anew.
func TestF5ShardKilledBeforeACheckpoint(t *testing.T) {
	t.Parallel()
	over := []string{"mode=server", "elastic=on", "servers=2"}
	p, out := program.Running(t, append(over, "elastic=on(max_restarts=1)")...)
	program.Hit(p, 3, syscall.SIGKILL)
	program.WaitFor(t, "word that all begin anew", p, func() bool {
		return strings.Contains(p.Err.String(), "there is no checkpoint yet, and all ranks begin anew at step 0")
	})
	asPlanned(t, ended(t, p, out, 1, program.LongSteps), over...)
}
