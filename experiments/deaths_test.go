package experiments

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/internal/patience"
)

// deaths is key faults of a run whose workers are killed, from the last one on.
func deaths(workers int, at ...time.Duration) string {
	var s nemesis.Schedule
	for i, when := range at {
		s = append(s, nemesis.Kill{Rank: fmt.Sprint("w", workers-1-i), At: when})
	}
	return "faults=" + s.String()
}

// Asynchronous runs, with servers or without, and those of mode sandblaster, go on
// without the dead, say so, and account for what they had sent.
func TestF2WorkersDie(t *testing.T) {
	t.Parallel()
	keys := []string{"data=digits", "model=logistic", "workers=6", "epochs=0", "batch=8", "servers=2", "device.flops=1M", "network.latency=100us"}
	for _, more := range [][]string{
		{"mode=downpour(n_push=2)", "policy=asp", "steps=150"}, {"policy=asp", "overlap=buckets", "steps=200"}, {"policy=ssp(slack=2)", "steps=200"}, {"mode=sandblaster", "steps=12"},
		{"mode=adpsgd", "graph=ring", "steps=600"}, {"mode=adpsgd", "graph=pairs", "steps=600"}, {"mode=adpsgd", "graph=complete", "steps=600"},
		{"mode=agp", "graph=one_peer", "steps=600"}, {"mode=agp", "graph=exponential", "steps=600"}, {"mode=agp", "graph=ring", "steps=600"},
	} {
		set := append(append([]string{}, keys...), more...)
		whole := mustExecute(t, set...)
		at := time.Duration(whole.VirtualSeconds * 0.4e9)
		r := mustExecute(t, append(set, deaths(6, at, at, at+at/2))...)
		l, killed := r.Ledger, 0
		for _, what := range r.Lost {
			if strings.Contains(what, "killed") {
				killed++
			}
		}
		if r.Values["accuracy"] < 0.5 { // of those that are left, who learn on
			t.Errorf("%v: accuracy %.3f, and %.3f where nobody died", more, r.Values["accuracy"], whole.Values["accuracy"])
		}
		if again := mustExecute(t, append(set, deaths(6, at, at, at+at/2))...); again.ParamsSHA256 != r.ParamsSHA256 || again.VirtualSeconds != r.VirtualSeconds {
			t.Errorf("%v: the same deaths give another run", more)
		}
		if !r.Degraded || killed != 3 || l.Sent != l.Applied+l.Rejected+l.Lost || l.Applied == 0 || r.Steps != whole.Steps {
			t.Errorf("%v: degraded %v, lost %q, %d steps, ledger %+v", more, r.Degraded, r.Lost, r.Steps, l)
		}
	}
}

// A run of which a worker has died is stopped at a mark, and goes on from it to its end,
// where there are servers and where workers gossip.
func TestF2DeathsOverAStop(t *testing.T) {
	t.Parallel()
	keys := []string{"data=digits", "model=logistic", "workers=5", "epochs=0", "batch=8", "device.flops=1M", "network.latency=100us", "checkpoint_every=10"}
	for _, more := range [][]string{{"mode=server", "policy=asp", "steps=300"}, {"mode=adpsgd", "graph=ring", "steps=300"}, {"mode=agp", "graph=one_peer", "steps=300"}} {
		set := append(append([]string{}, keys...), more...)
		whole := mustExecute(t, set...)
		set = append(set, deaths(5, time.Duration(whole.VirtualSeconds*0.3e9)))
		dir := t.TempDir()
		run := mustRuns(t, small, set...)[0]
		opt := Options{Recipe: "test", Out: dir, Resume: true, Stopping: stopAfter(180)}
		if r, err := Execute(t.Context(), run, opt); !errors.Is(err, ErrStopped) || len(r.Lost) != 1 || r.Steps == 0 {
			t.Fatalf("%v: %+v, %v", more, r, err)
		}
		opt.Stopping = nil
		r, err := Execute(t.Context(), run, opt)
		if err != nil || r.Steps != whole.Steps || len(r.Lost) != 1 || !r.Degraded || r.Values["accuracy"] < 0.5 {
			t.Errorf("%v: %+v, %v", more, r, err)
		}
	}
}

// F3: with softsync(n) the servers wait for ⌊λ/n⌋ gradients from anybody. Whatever n,
// and if all workers but one die, one after the other, nobody waits for ever.
func TestF3SoftsyncWithoutWorkers(t *testing.T) {
	t.Parallel()
	most := 8
	if !patience.Long {
		most = 4
	}
	for workers := 2; workers <= most; workers++ {
		for n := 1; n <= workers; n++ {
			set := []string{"data=digits", "model=logistic", "epochs=0", "batch=4", "steps=40", "eval_every=0", "device.flops=1M", "network.latency=100us", "mode=server",
				fmt.Sprint("workers=", workers), fmt.Sprintf("policy=softsync(n=%d)", n)}
			whole := mustExecute(t, set...)
			var at []time.Duration
			for dead := 1; dead < workers; dead++ {
				at = append(at, time.Duration(whole.VirtualSeconds*1e9*0.6*float64(dead)/float64(workers)))
			}
			r := mustExecute(t, append(set, deaths(workers, at...))...)
			if l := r.Ledger; r.Steps != 40 || r.Status != "done" || len(r.Lost) != workers-1 || l.Sent != l.Applied+l.Rejected+l.Lost {
				t.Errorf("%d workers, n=%d: %d steps, lost %q, %+v", workers, n, r.Steps, r.Lost, l)
			}
		}
	}
}

// With more servers than tensors a shard is empty. A worker that overlaps waits for its
// answer, too; before, the virtual cluster ended such a run: no server had sent parameters.
func TestOverlapWithAnEmptyShard(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"bsp", "asp", "ssp"} {
		set := []string{"data=digits", "model=logistic", "mode=server", "servers=3", "workers=3", "epochs=0", "steps=30", "batch=8", "policy=" + policy}
		r := mustExecute(t, append(set, "overlap=buckets")...)
		if l := r.Ledger; l.Sent != l.Applied+l.Rejected+l.Lost || r.Steps != 30 {
			t.Errorf("%s: %d steps, %+v", policy, r.Steps, l)
		}
		if whole := mustExecute(t, set...); policy == "bsp" && whole.ParamsSHA256 != r.ParamsSHA256 {
			t.Error("it learns something else than without overlap")
		}
	}
}

// Without its observer a run has no result, and says so: the others are done, and nobody
// tells what it came to.
func TestF6ObserverKilledOnTheVirtualCluster(t *testing.T) {
	t.Parallel()
	keys := []string{"data=digits", "model=logistic", "workers=3", "epochs=0", "steps=30", "batch=8"}
	for _, mode := range []string{"reduce", "server", "adpsgd"} {
		whole := mustExecute(t, append(keys, "mode="+mode)...)
		for _, share := range []float64{0, 0.5, 0.99999} {
			at := time.Duration(whole.VirtualSeconds * share * 1e9)
			r, err := execute(t, t.TempDir(), false, append(keys, "mode="+mode, "faults=kill(observer,at="+at.String()+")")...)
			var gone *comm.PeerError
			if !errors.As(err, &gone) || !strings.Contains(err.Error(), "cannot go on without observer: ") {
				t.Errorf("%s, killed at %v: %v, %v", mode, at, r, err)
			}
		}
	}
	if _, err := execute(t, t.TempDir(), false, append(keys, "mode=reduce", "faults=kill(w2,at=1ms)")...); err == nil || !strings.Contains(err.Error(), "cannot go on without worker 2: ") {
		t.Errorf("the last worker is killed: %v", err)
	}
}

// A push that comes twice counts once, and is answered once: before, the worker ended with
// the server's refusal of the second one.
func TestF8ResentPushes(t *testing.T) {
	t.Parallel()
	keys := []string{"data=digits", "model=logistic", "workers=3", "servers=2", "epochs=0", "steps=30", "batch=8", "faults=resend(0.5)"}
	for _, more := range [][]string{{"mode=server"}, {"mode=server", "overlap=buckets"}, {"mode=server", "policy=asp"}, {"mode=downpour", "policy=asp"}, {"mode=easgd", "policy=asp"}, {"mode=sandblaster", "steps=6"}} {
		set := append(append([]string{}, keys...), more...)
		r := mustExecute(t, set...)
		if l := r.Ledger; l.Sent != l.Applied+l.Rejected+l.Lost || l.Lost > 0 || r.Degraded {
			t.Errorf("%v: %+v, lost %q", more, l, r.Lost)
		}
		once := mustExecute(t, append(set, "faults=none")...)
		if r.BytesUp <= once.BytesUp {
			t.Errorf("%v: %d bytes came up, and %d where no push came twice", more, r.BytesUp, once.BytesUp)
		}
		if more[0] == "mode=server" && more[len(more)-1] != "policy=asp" && r.ParamsSHA256 != once.ParamsSHA256 {
			t.Errorf("%v: it learns something else", more)
		}
	}
}
