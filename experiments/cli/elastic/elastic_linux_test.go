package elastic_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
	"github.com/gradlab/gradlab/sgd/train"
)

// twice gives a run some steps more.
var twice = fmt.Sprint("steps=", 2*program.LongSteps)

// F1, F4, F9: a run in step goes on without a worker whose process is killed, or stopped
// for longer than its lease. It ends with the bits of a run on the virtual cluster that
// the worker leaves by plan at the step from which the others went on, as its record
// says. A process that wakes up later finds itself out.
func TestF1F4F9ElasticProcesses(t *testing.T) {
	t.Parallel()
	type fault struct {
		name    string
		signal  syscall.Signal
		victims []int
		over    []string
	}
	for _, c := range patience.Few(2, []fault{
		{"killed", syscall.SIGKILL, []int{1}, []string{"mode=reduce", "codec=feedback(topk(keep=0.1))"}},
		{"who leads, killed", syscall.SIGKILL, []int{0}, []string{"mode=reduce", "overlap=buckets(bytes=2000)", "elastic=on(on_resize=scale_lr)"}},
		{"two at once", syscall.SIGKILL, []int{0, 2}, []string{"mode=gather", "codec=qsgd(bits=4)"}},
		{"neighbours, killed", syscall.SIGKILL, []int{1}, []string{"mode=dpsgd", "graph=ring", "optimizer=adam"}},
		{"push-sum, who leads, killed", syscall.SIGKILL, []int{0}, []string{"mode=sgp(late=1)", "graph=one_peer"}},
		{"with servers, killed", syscall.SIGKILL, []int{0, 2}, []string{"mode=server", "servers=2", "codec=feedback(topk(keep=0.1))"}},
		{"with a server, stopped", syscall.SIGSTOP, []int{1}, []string{"mode=server", "overlap=buckets(bytes=2000)", "links=grpc"}},
		{"stopped", syscall.SIGSTOP, []int{1}, []string{"mode=reduce", "links=tcp"}},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			over := append([]string{"elastic=on", twice}, c.over...)
			p, out := program.Running(t, over...)
			pids := program.Ranks(p)
			for _, v := range c.victims {
				program.Hit(p, v, c.signal)
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
			if left, _ := train.PlanOf(3, r.Steps, r.Members); len(left) != len(c.victims) || !r.Degraded || r.Steps != 2*program.LongSteps {
				t.Fatalf("memberships %+v, degraded %v, %d steps", r.Members, r.Degraded, r.Steps)
			}
			if l := r.Ledger; l.Sent != l.Applied || l.Lost > 0 || l.Applied == 0 {
				t.Errorf("ledger %+v", l)
			}
			program.NoneLeft(t, out)
			asPlanned(t, r, over...)
		})
	}
}

// F5: a shard that is killed ends an elastic run too, with the code that says to try again.
func TestF5ShardKilledElastic(t *testing.T) {
	t.Parallel()
	p, out := program.Running(t, "mode=server", "servers=2", "elastic=on", twice)
	program.Hit(p, 4, syscall.SIGKILL)
	p.Expect(75)
	program.NoneLeft(t, out)
}

// asPlanned makes a run again on the virtual cluster, by the plan that it has come to.
func asPlanned(t *testing.T, r experiments.Result, over ...string) {
	t.Helper()
	plan := config.Planned(train.PlanOf(3, r.Steps, r.Members)).String()
	args := append([]string{"run", program.Recipe(t, program.Long), "--json", "--no-plot", "--out", t.TempDir(), "codec=raw"}, over...)
	again := program.Start(t, nil, append(args, "faults="+plan, "eval_every=0")...)
	again.Expect(0)
	if got := again.Result().SHA256; got != r.ParamsSHA256 {
		t.Errorf("by plan %s it ends with other bits: %s, not %s", plan, got, r.ParamsSHA256)
	}
}

// Workers that are killed are started again, join the run and are healed: it ends with all
// of them, and with the bits of a run on the virtual cluster that they leave and join by plan.
func TestF1F4WorkersComeBackAsProcesses(t *testing.T) {
	t.Parallel()
	type fault struct {
		name    string
		victims [][]int // at once
		resize  string
		over    []string
	}
	for _, c := range patience.Few(1, []fault{
		{"one after the other", [][]int{{1}, {0}, {1}}, "keep_global", []string{"mode=reduce", "codec=feedback(topk(keep=0.1))", "optimizer=adam"}},
		{"with servers", [][]int{{1}, {0, 2}}, "keep_global", []string{"mode=server", "servers=2", "codec=feedback(topk(keep=0.1))", "optimizer=adam", "down_codec=fp16"}},
		{"neighbours", [][]int{{0}, {1, 2}}, "keep_global", []string{"mode=choco", "graph=ring", "codec=qsgd(bits=4)", "optimizer=adam"}},
		{"two at once", [][]int{{0, 2}}, "scale_lr", []string{"mode=reduce", "overlap=buckets(bytes=2000)", "links=tcp"}},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// Nobody knows how many steps a busy machine makes until they are back: the run is
			// stopped then, and what it has come to does not depend on the steps it had left.
			over := append(c.over, "elastic=on(on_resize="+c.resize+")", "schedule=constant(lr=0.003)")
			p, out := program.Running(t, append(over, "steps=100000000", "elastic=on(max_restarts=3,on_resize="+c.resize+")")...)
			n := 0
			for _, victims := range c.victims {
				for _, v := range victims {
					program.Hit(p, v, syscall.SIGKILL)
				}
				n += len(victims)
				program.WaitFor(t, "word that the workers are back", p, func() bool { return strings.Count(p.Err.String(), "has joined") == n })
				had, _ := program.Evaluations(out) // whoever has joined is healed before the next step
				program.WaitFor(t, "steps with them", p, func() bool { now, _ := program.Evaluations(out); return now > had+1 })
			}
			p.Signal(syscall.SIGTERM)
			p.Expect(143)
			var r experiments.Result
			if err := json.Unmarshal([]byte(p.Out.String()), &r); err != nil {
				t.Fatalf("%v\n%s", err, p.Says())
			}
			if last := r.Members[len(r.Members)-1]; len(last.Workers) != 3 || len(r.Lost) != n {
				t.Fatalf("memberships %+v, lost %q, %d steps", r.Members, r.Lost, r.Steps)
			}
			if l := r.Ledger; r.Servers && (l.Sent != l.Applied || l.Lost > 0) {
				t.Errorf("ledger %+v", l)
			}
			program.NoneLeft(t, out)
			asPlanned(t, r, append(over, fmt.Sprint("steps=", r.Steps))...)
		})
	}
}

// Soak kills processes, has them come back, and finds that the run has the bits of its plan.
func TestSoakOfProcesses(t *testing.T) {
	if !patience.Long {
		t.Skip("kills processes by the clock")
	}
	t.Parallel()
	record := filepath.Join(t.TempDir(), "soak.jsonl")
	p := program.Start(t, nil, "soak", "--processes", "3", "--minutes", "0.05", "--every", "0.7", "--modes", "reduce", "--out", record)
	p.Expect(0)
	var leg struct {
		Processes, Steps int
		Broken           []string
		First            float64 `json:"first_third_bytes"`
	}
	program.ReadJSON(t, record, &leg)
	if leg.Processes != 3 || leg.Steps < 100 || len(leg.Broken) > 0 || leg.First <= 0 {
		t.Errorf("%+v\n%s", leg, p.Says())
	}
}

// Stopped after a death, by a lead that was none at first, a run goes on with the workers
// that it had.
func TestElasticProcessesResume(t *testing.T) {
	t.Parallel()
	p, out := program.Running(t, "mode=reduce", "codec=feedback(topk(keep=0.1))", "elastic=on", twice)
	program.Hit(p, 0, syscall.SIGKILL)
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
	if len(r.Members) != 2 || len(r.Lost) != 1 || r.Steps != 2*program.LongSteps {
		t.Fatalf("memberships %+v, lost %q, %d steps", r.Members, r.Lost, r.Steps)
	}
	plan := fmt.Sprintf("faults=leave(w0,before=%d)", r.Members[1].Step)
	args := append([]string{"run", program.Recipe(t, program.Long), "--json", "--no-plot", "--out", t.TempDir()}, "mode=reduce", "codec=feedback(topk(keep=0.1))", "elastic=on", twice, plan)
	plain := program.Start(t, nil, args...)
	plain.Expect(0)
	if got := plain.Result().SHA256; got != r.ParamsSHA256 {
		t.Errorf("by %s, not stopped, it ends with other bits", plan)
	}
	program.NoneLeft(t, out)
}
