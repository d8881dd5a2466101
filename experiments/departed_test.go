package experiments

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
)

// Bytes of workers that died, left or came back stay in the account: they never fall from
// one evaluation to the next, and at the end are those of a run that did the same by plan,
// but for what was under way.
func TestBytesOfTheDeparted(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	keys := []string{"data=digits", "model=logistic", "workers=4", "epochs=0", "batch=8", "steps=40", "eval_every=2", "device.flops=1M", "network.latency=100us", "elastic=on"}
	for _, mode := range []string{"mode=reduce", "mode=gather", "mode=localsgd(h=2)", "mode=server"} {
		set := append(keys, mode)
		whole := mustExecute(t, set...)
		each := whole.BytesUp / 4 / 40 // of a worker's step, where there are four
		at := func(share float64) time.Duration { return time.Duration(share * whole.VirtualSeconds * 1e9) }
		for _, faults := range []string{
			fmt.Sprintf("kill(w2,at=%v)", at(0.5)), fmt.Sprintf("kill(w0,at=%v)", at(0.5)), fmt.Sprintf("kill(w1,at=%v)+rejoin(w1,at=%v)", at(0.6), at(0.7)),
			fmt.Sprintf("kill(w0,at=%v)+rejoin(w0,at=%v)+kill(w0,at=%v)", at(0.3), at(0.4), at(0.8)),
		} {
			r := mustExecute(t, append(set, "faults="+faults)...)
			last := uint64(0)
			for _, e := range r.Evals {
				if e.BytesUp < last {
					t.Errorf("%s, %s: %d bytes up at step %d, and %d before", mode, faults, e.BytesUp, e.Step, last)
				}
				last = e.BytesUp
			}
			planned := mustExecute(t, append(set, planOf(r))...)
			if r.ParamsSHA256 != planned.ParamsSHA256 {
				t.Fatalf("%s, %s: other bits than by plan", mode, faults)
			}
			for what, n := range map[string][3]uint64{
				"up":   {r.BytesUp, planned.BytesUp, last},
				"down": {r.BytesDown, planned.BytesDown, 0},
				"raw":  {r.RawBytes, planned.RawBytes, 0},
			} {
				each := each
				if what == "raw" { // which counts every local step
					each = whole.RawBytes / 4 / 40
				}
				if under := 4 * each * uint64(len(r.Members)-1); n[0]+under < n[1] || n[0] > n[1]+under || n[2] > n[0] {
					t.Errorf("%s, %s: %d bytes %s, by plan %d, at the last evaluation %d", mode, faults, n[0], what, n[1], n[2])
				}
			}
		}
	}
}

// memberSteps is how many gradients the members of a run's epochs made up to its end.
func memberSteps(r *Result) (n uint64) {
	for i, m := range r.Members {
		end := r.Steps
		if i+1 < len(r.Members) {
			end = r.Members[i+1].Step
		}
		n += uint64(len(m.Workers) * (end - m.Step))
	}
	return n
}

// The ledger has the gradients of workers that died: in every mode in step what members
// made, as in a run in which the same workers leave and join by plan.
func TestLedgerOfTheDeparted(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	keys := []string{"data=digits", "model=logistic", "workers=4", "epochs=0", "batch=8", "steps=60", "eval_every=2", "device.flops=1M", "network.latency=100us", "elastic=on"}
	j, err := config.Run{Config: config.Default()}.Build(config.Places{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range train.Modes.Entries() {
		set := append(keys, "mode="+e.Name)
		if !train.Modes.MustParse(e.Name).Traits(j).Elastic {
			continue
		}
		mode := e.Name
		whole := mustExecute(t, set...)
		at := func(share float64) time.Duration { return time.Duration(share * whole.VirtualSeconds * 1e9) }
		for _, faults := range []string{
			fmt.Sprintf("kill(w2,at=%v)", at(0.2)), fmt.Sprintf("kill(w0,at=%v)", at(0.5)), fmt.Sprintf("kill(w3,at=%v)+rejoin(w3,at=%v)+kill(w3,at=%v)", at(0.3), at(0.4), at(0.8)),
		} {
			r := mustExecute(t, append(set, "faults="+faults)...)
			if len(r.Members) < 2 {
				t.Fatalf("%s, %s: nobody left", mode, faults)
			}
			l := r.Ledger
			if want := memberSteps(r); l.Sent != want || l.Sent != l.Applied+l.Rejected+l.Lost || l.Lost != 0 {
				t.Errorf("%s, %s: members made %d, ledger %+v", mode, faults, want, l)
			}
			if planned := mustExecute(t, append(set, planOf(r))...); planned.Ledger.Sent != l.Sent || planned.Ledger.Applied != l.Applied {
				t.Errorf("%s, %s: by plan %+v, with deaths %+v", mode, faults, planned.Ledger, l)
			}
		}
	}
}

// Where nobody waits for anybody the ledger has what the dead had told of: every update is
// one gradient.
func TestLedgerOfTheFree(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	keys := []string{"data=digits", "model=logistic", "workers=4", "epochs=0", "batch=8", "steps=400", "eval_every=0", "device.flops=1M", "network.latency=100us"}
	for _, mode := range []string{"mode=adpsgd", "mode=agp"} {
		whole := mustExecute(t, append(keys, mode)...)
		r := mustExecute(t, append(keys, mode, fmt.Sprintf("faults=kill(w1,at=%v)", time.Duration(0.4e9*whole.VirtualSeconds)))...)
		if l := r.Ledger; len(r.Lost) != 1 || l.Sent < 400 || l.Sent > 400+2*4 || l.Sent != l.Applied {
			t.Errorf("%s: of 400 updates %+v, lost %q", mode, l, r.Lost)
		}
	}
}

// A stop changes nothing of that.
func TestBytesOfTheDepartedOverAStop(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	set := []string{"data=digits", "model=logistic", "workers=4", "epochs=0", "batch=8", "steps=40", "eval_every=2", "checkpoint_every=5", "device.flops=1M", "network.latency=100us", "elastic=on", "mode=reduce"}
	whole := mustExecute(t, set...)
	set = append(set, fmt.Sprintf("faults=kill(w2,at=%v)", time.Duration(0.3e9*whole.VirtualSeconds)))
	whole = mustExecute(t, set...)
	run, opt := mustRuns(t, small, set...)[0], Options{Recipe: "test", Out: t.TempDir(), Resume: true, Stopping: stopAfter(25)}
	if _, err := Execute(t.Context(), run, opt); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	opt.Stopping = nil
	r, err := Execute(t.Context(), run, opt)
	if err != nil {
		t.Fatal(err)
	}
	each := whole.BytesUp / 130
	if r.ParamsSHA256 != whole.ParamsSHA256 || r.BytesUp+4*each < whole.BytesUp || r.BytesUp > whole.BytesUp+4*each {
		t.Errorf("%d bytes up, and without the stop %d", r.BytesUp, whole.BytesUp)
	}
}

// planOf is key faults of a run that does by plan what this one did.
func planOf(r *Result) string {
	return "faults=" + config.Planned(train.PlanOf(4, r.Steps, r.Members)).String()
}
