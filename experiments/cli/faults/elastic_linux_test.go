package faults_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/internal/program"
)

// F1, F4, F9: a run in step goes on without a worker whose process is killed, or stopped
// for longer than its lease. It ends with the bits of a run on the virtual cluster that
// the worker leaves by plan at the step from which the others went on, as its record
// says. A process that wakes up later finds itself out.
func TestF1F4F9ElasticProcesses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		signal  syscall.Signal
		victims []int
		over    []string
	}{
		{"killed", syscall.SIGKILL, []int{1}, []string{"mode=reduce", "codec=feedback(topk(keep=0.1))"}},
		{"who leads, killed", syscall.SIGKILL, []int{0}, []string{"mode=reduce", "overlap=true", "bucket=2000", "on_resize=scale_lr"}},
		{"two at once", syscall.SIGKILL, []int{0, 2}, []string{"mode=gather", "codec=qsgd(bits=4)"}},
		{"stopped", syscall.SIGSTOP, []int{1}, []string{"mode=reduce", "links=grpc"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			over := append(c.over, "elastic=true", "steps=6000")
			p, out := running(t, over...)
			pids := ranks(p)
			for _, v := range c.victims {
				hit(p, v, c.signal)
			}
			if c.signal == syscall.SIGSTOP {
				program.WaitFor(t, "word that the worker is out", p, func() bool { return strings.Contains(p.Err.String(), "go on from step") })
				if err := syscall.Kill(pids[c.victims[0]], syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
			}
			p.Expect(0)
			var r experiments.Result
			if err := json.Unmarshal([]byte(p.Out.String()), &r); err != nil {
				t.Fatalf("%v\n%s", err, p.Says())
			}
			var plan []string
			for _, m := range r.Members {
				for _, l := range m.Left {
					plan = append(plan, fmt.Sprintf("%d@%d", l.Worker, m.Step))
				}
			}
			if len(plan) != len(c.victims) || !r.Degraded || r.Steps != 6000 {
				t.Fatalf("memberships %+v, degraded %v, %d steps", r.Members, r.Degraded, r.Steps)
			}
			noneLeft(t, out)
			args := append([]string{"run", program.Recipe(t, long), "--json", "--no-plot", "--out", t.TempDir(), "codec=raw"}, over...)
			again := program.Start(t, nil, append(args, "eval_every=0", "leave="+strings.Join(plan, "+"))...)
			again.Expect(0)
			if got := again.Result().SHA256; got != r.ParamsSHA256 {
				t.Errorf("by plan %v it ends with other bits: %s, not %s", plan, got, r.ParamsSHA256)
			}
		})
	}
}

// Stopped after a death, by a lead that was none at first, a run goes on with the workers
// that it had.
func TestElasticProcessesResume(t *testing.T) {
	t.Parallel()
	p, out := running(t, "mode=reduce", "codec=feedback(topk(keep=0.1))", "elastic=true", "steps=6000")
	hit(p, 0, syscall.SIGKILL)
	program.WaitFor(t, "word that the worker is out", p, func() bool { return strings.Contains(p.Err.String(), "go on from step") })
	program.Evaluated(t, p, out, 20)
	p.Signal(syscall.SIGTERM)
	p.Expect(143)
	again := program.Start(t, nil, append(p.Cmd.Args[1:], "--resume")...)
	again.Expect(0)
	var r experiments.Result
	if err := json.Unmarshal([]byte(again.Out.String()), &r); err != nil {
		t.Fatalf("%v\n%s", err, again.Says())
	}
	if len(r.Members) != 2 || len(r.Lost) != 1 || r.Steps != 6000 {
		t.Fatalf("memberships %+v, lost %q, %d steps", r.Members, r.Lost, r.Steps)
	}
	plan := fmt.Sprintf("leave=0@%d", r.Members[1].Step)
	args := append([]string{"run", program.Recipe(t, long), "--json", "--no-plot", "--out", t.TempDir()}, "mode=reduce", "codec=feedback(topk(keep=0.1))", "elastic=true", "steps=6000", plan)
	plain := program.Start(t, nil, args...)
	plain.Expect(0)
	if got := plain.Result().SHA256; got != r.ParamsSHA256 {
		t.Errorf("by %s, not stopped, it ends with other bits", plan)
	}
	noneLeft(t, out)
}
