package elastic_test

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/program"
)

// F2: workers of an asynchronous run that are killed come back at once as other processes,
// and the others wait for none of them. What was sent is accounted for on all shards.
func TestF2WorkersComeBackAsProcesses(t *testing.T) {
	t.Parallel()
	type asynchronous struct {
		mode string
		keys []string
	}
	for _, c := range patience.Few(2, []asynchronous{
		{"server", []string{"policy=ssp(slack=4)", "codec=feedback(topk(keep=0.1))", "down_codec=qsgd(bits=8)"}},
		{"downpour(n_fetch=2,n_push=2)", []string{"policy=asp", "codec=feedback(topk(keep=0.1))", "overlap=buckets"}},
		{"easgd(tau=4)", []string{"policy=asp", "codec=qsgd(bits=8)", "down_codec=qsgd(bits=8)"}},
		{"rudra(threads=true)", []string{"policy=softsync(n=2)", "codec=feedback(topk(keep=0.1))"}},
		{"adpsgd", []string{"graph=complete", "codec=fp16"}},
		{"agp", []string{"graph=one_peer"}},
		{"rudra(tree=2)", []string{"policy=softsync(n=2)", "codec=feedback(topk(keep=0.1))"}},
		{"sandblaster", []string{"optimizer=sgd", "data=synthetic(dim=32,n=16384,test=256)", "eval_every=2"}}, // of less data it has learned all in some seconds
	}) {
		t.Run(c.mode, func(t *testing.T) { comeBackAsProcesses(t, c.mode, c.keys) })
	}
}

func comeBackAsProcesses(t *testing.T, mode string, keys []string) {
	victims := []int{1, 0, 1}
	if mode == "rudra(tree=2)" { // worker 0 has the relay
		victims[1] = 2
	}
	// It is stopped once they are back: nobody knows how many steps a busy machine makes until then.
	p, out := program.Running(t, append(keys, "mode="+mode, "servers=2", "elastic=on(max_restarts=3)", "steps=100000000")...)
	for i, v := range victims {
		program.Hit(p, v, syscall.SIGKILL)
		program.WaitFor(t, "word that the worker is back", p, func() bool { return strings.Count(p.Err.String(), "has joined") == i+1 })
	}
	had, _ := program.Evaluations(out)
	program.WaitFor(t, "updates with them", p, func() bool { now, _ := program.Evaluations(out); return now > had+1 })
	p.Signal(syscall.SIGTERM)
	p.Expect(143)
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
