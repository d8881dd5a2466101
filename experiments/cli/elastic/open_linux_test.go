package elastic_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/internal/program"
)

// F2: workers of an asynchronous run that are killed come back at once as other processes,
// and the others wait for none of them. What was sent is accounted for on all shards.
func TestF2WorkersComeBackAsProcesses(t *testing.T) {
	t.Parallel()
	for mode, keys := range map[string][]string{
		"server":                       {"policy=ssp(slack=4)", "codec=feedback(topk(keep=0.1))", "down_codec=qsgd(bits=8)"},
		"downpour(n_fetch=2,n_push=2)": {"policy=asp", "codec=feedback(topk(keep=0.1))", "overlap=true"},
		"easgd(tau=4)":                 {"policy=asp", "codec=qsgd(bits=8)", "down_codec=qsgd(bits=8)"},
		"rudra(threads=true)":          {"policy=softsync(n=2)", "codec=feedback(topk(keep=0.1))"},
		"rudra(tree=2)":                {"policy=softsync(n=2)", "codec=feedback(topk(keep=0.1))"},
		"adpsgd":                       {"graph=complete", "codec=fp16"},
		"agp":                          {"graph=one_peer"},
		"sandblaster":                  {"optimizer=sgd"},
	} {
		t.Run(mode, func(t *testing.T) { comeBackAsProcesses(t, mode, keys) })
	}
}

func comeBackAsProcesses(t *testing.T, mode string, keys []string) {
	var p *program.Program
	out, victims, updates := "", []int{1, 0, 1}, 6*program.LongSteps
	if mode == "sandblaster" { // each is of many gradients
		updates = program.LongSteps
	}
	if mode == "rudra(tree=2)" { // worker 0 has the relay
		victims[1] = 2
	}
	for steps, back := updates, false; !back; steps *= 4 { // a busy machine may end it before they are back
		p, out = program.Running(t, append(keys, "mode="+mode, "servers=2", "elastic=true", "max_restarts=3", fmt.Sprint("steps=", steps))...)
		back = true
		for i, v := range victims {
			if !back {
				break
			}
			program.Hit(p, v, syscall.SIGKILL)
			program.WaitFor(t, "word that the worker is back", p, func() bool {
				back = strings.Count(p.Err.String(), "has joined") == i+1
				return back || strings.Contains(p.Err.String(), "done: ")
			})
		}
	}
	p.Expect(0)
	var r experiments.Result
	if err := json.Unmarshal([]byte(p.Out.String()), &r); err != nil {
		t.Fatalf("%v\n%s", err, p.Says())
	}
	if last := r.Members[len(r.Members)-1]; len(last.Workers) != 3 || len(r.Members) != 1+2*len(victims) || !r.Degraded {
		t.Errorf("memberships %+v, lost %q", r.Members, r.Lost)
	}
	unknown := 0
	if strings.Contains(strings.Join(keys, " "), "codec=feedback") {
		unknown = len(victims)
	}
	if l := r.Ledger; l.Sent != l.Applied+l.Rejected+l.Lost || l.Lost != l.Torn || l.ResidualUnknown != unknown {
		t.Errorf("ledger %+v", l)
	}
	program.NoneLeft(t, out)
}
