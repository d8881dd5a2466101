package elastic_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
)

// byHand starts the ranks of an elastic run, which nobody launches.
func byHand(t *testing.T, over ...string) (start func(rank int, more ...string) *program.Program, out string) {
	t.Helper()
	file, out, port := program.Recipe(t, program.Long), t.TempDir(), program.FreePort(t)
	return func(rank int, more ...string) *program.Program {
		args := append([]string{"join", file, "codec=raw", "elastic=on", "checkpoint_every=20", "--out", out}, over...)
		return program.Start(t, program.Torchrun(rank, 3, port), append(args, more...)...)
	}, out
}

// F6: the coordinator is killed and started again. The others wait for it, join again, and
// all go on from the last checkpoint, with the bits of a run in which nobody died. Where a
// rank is a server it may be that which is started again.
func TestF6CoordinatorComesBack(t *testing.T) {
	t.Parallel()
	type fault struct {
		name   string
		victim int
		over   []string
	}
	for _, c := range patience.Few(1, []fault{
		{"of workers", 0, []string{"mode=reduce", "workers=3"}},
		{"with a server", 0, []string{"mode=server", "workers=2"}},
		{"a server", 2, []string{"mode=server", "workers=2", "links=tcp"}},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			start, out := byHand(t, c.over...)
			ranks := []*program.Program{start(0), start(1), start(2)}
			folder := program.Evaluated(t, ranks[0], out, 4)
			ranks[c.victim].Signal(syscall.SIGKILL)
			ranks[c.victim].Wait(program.Decided)
			ranks[c.victim] = start(c.victim, "--resume")
			for _, p := range ranks {
				p.Expect(0)
			}
			var r experiments.Result
			program.ReadJSON(t, filepath.Join(folder, "result.json"), &r)
			if c.victim > 0 && r.Restarts != 1 || r.Degraded || r.Steps != program.LongSteps {
				t.Errorf("%d restarts, lost %q, %d steps", r.Restarts, r.Lost, r.Steps)
			}
			want := program.Finish(t, 0, append([]string{"run", program.Recipe(t, program.Long), "codec=raw", "--net", "local", "--json", "--quiet", "--out", t.TempDir()}, c.over...)...).Result()
			if r.ParamsSHA256 != want.SHA256 {
				t.Errorf("it ends with %s, without the death with %s", r.ParamsSHA256, want.SHA256)
			}
			program.NoneLeft(t, out)
		})
	}
}

// F6: nobody waits for ever for a coordinator that does not come back.
func TestF6CoordinatorStaysAway(t *testing.T) {
	t.Parallel()
	start, out := byHand(t, "mode=reduce", "workers=3")
	wait := patience.Stretch(time.Second)
	ranks := []*program.Program{start(0), start(1, "--timeout", wait.String()), start(2, "--timeout", wait.String())}
	program.Evaluated(t, ranks[0], out, 4)
	ranks[0].Signal(syscall.SIGKILL)
	for _, p := range ranks[1:] {
		if code := p.Wait(wait + program.Decided); code != 75 || !strings.Contains(p.Err.String(), "no answer from the coordinator") {
			t.Errorf("exit code %d\n%s", code, p.Says())
		}
	}
	program.NoneLeft(t, out)
}
