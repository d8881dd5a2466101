package train_test

import (
	"fmt"
	"testing"

	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// A worker that has left for good, with a report of what it sent, comes back as another
// process and dies: what it had told is not counted a second time.
func TestLeftCameAndDied(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	opts := []option{mode("server"), servers(2), elastic, leaving(train.Departure{Worker: 1, Step: 6}), func(j *train.Job) { j.CheckpointEvery = 4 }}
	whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
	share := func(x float64) string { return seconds(x * whole.Final.Seconds).String() }
	for _, ends := range []string{"", fmt.Sprintf("+kill(w1,at=%s)", share(0.7)), fmt.Sprintf("+kill(w1,at=%s)+rejoin(w1,at=%s)", share(0.7), share(0.8))} {
		faults := fmt.Sprintf("rejoin(w1,at=%s)%s", share(0.5), ends)
		o, s := runOn(t, faulty(t, faults), job(t, opts...), nil)
		if len(o.Members) < 3 || o.Final.Step != 24 {
			t.Fatalf("%s: memberships %+v, ends with %+v", faults, o.Members, o.Final)
		}
		var sent, applied uint64
		for _, r := range o.Reports {
			sent, applied = sent+r.Sent+r.Past, applied+r.Ledger.Applied
		}
		if sent != applied {
			t.Errorf("%s: %d gradients sent, and %d applied", faults, sent, applied)
		}
		for at, st := range s.states {
			again, _ := runOn(t, simulated(seconds(float64(st.Ints["nanoseconds"])/1e9)), job(t, opts...), st)
			evens(t, again)
			if t.Failed() {
				t.Fatalf("%s, resumed at update %d", faults, at)
			}
		}
	}
}

// A worker that is away by plan has yet to tell what it sent. Its process ends meanwhile, and
// another one comes, which does not know of it: servers do.
func TestDiedWhileAway(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"bsp", "asp"} {
		opts := []option{mode("server"), policy(rule), servers(2), elastic, leaving(train.Departure{Worker: 1, Step: 6}), joining(train.Joining{Worker: 1, Step: 18})}
		whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
		share := func(x float64) string { return seconds(x * whole.Final.Seconds).String() }
		for _, back := range []float64{0.55, 0.75} { // before it would have come, and after
			o, _ := runOn(t, faulty(t, fmt.Sprintf("kill(w1,at=%s)+rejoin(w1,at=%s)", share(0.5), share(back))), job(t, opts...), nil)
			if len(o.Dead) != 1 || len(o.Members) < 3 || o.Members[len(o.Members)-1].Joined == nil {
				t.Fatalf("%s: memberships %+v, dead %v", rule, o.Members, o.Dead)
			}
			var sent, got uint64
			for _, r := range o.Reports {
				sent, got = sent+r.Sent+r.Past, got+r.Ledger.Applied+r.Ledger.Rejected
			}
			if sent != got {
				t.Errorf("%s, back at %g: %d gradients sent, %d applied or rejected", rule, back, sent, got)
			}
		}
	}
}

// Who was waited for is told of all workers of the run, those too who left.
func TestWaitsForTheDeparted(t *testing.T) {
	t.Parallel()
	opts := []option{mode("server"), servers(2), elastic, leaving(train.Departure{Worker: 1, Step: 8}), func(j *train.Job) { j.CheckpointEvery = 4 }}
	opts = append(opts, func(j *train.Job) { j.Timing.Law = timing.Lognormal{Sigma: 0.3} })
	o, s := runOn(t, simulated(0), job(t, opts...), nil)
	told := func(o *train.Observer) (sums [2]float64, of1 float64) {
		for _, r := range o.Reports {
			if r.Waits == nil {
				continue
			}
			of1 += r.Waits.For[1] + r.Waits.Waited[1]
			for w := range r.Waits.For {
				sums[0], sums[1] = sums[0]+r.Waits.For[w], sums[1]+r.Waits.Waited[w]
			}
		}
		return sums, of1
	}
	sums, of1 := told(o)
	if of1 == 0 || sums[0] == 0 || !near(sums[0], sums[1]) {
		t.Errorf("waited for %v s, having waited %v s; worker 1, which left, %v s", sums[0], sums[1], of1)
	}
	again, _ := runOn(t, simulated(seconds(float64(s.states[16].Ints["nanoseconds"])/1e9)), job(t, opts...), s.states[16])
	if sum, of := told(again); !near(sum[0], sums[0]) || !near(of, of1) {
		t.Errorf("resumed at update 16: %v s, worker 1 %v s; without the stop %v s, %v s", sum, of, sums, of1)
	}
}

// A worker that has left by plan dies, and what it sent last is lost. The others do not wait
// for it: they go back to the last boundary of all. Before, they waited for ever.
func TestLeaverDiesBeforeItIsHeard(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, opts := range map[string][]option{
		"dpsgd": {mode("dpsgd"), graph("complete")}, "sgp": {mode("sgp"), graph("one_peer")}, "reduce": {mode("reduce")},
	} {
		opts := append(opts, elastic, leaving(train.Departure{Worker: 0, Step: 6}), joining(train.Joining{Worker: 0, Step: 20}))
		whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
		died := 0
		for i := range 60 {
			if !patience.Long && i%10 > 0 {
				continue
			}
			at := seconds(float64(i) / 60 * 0.4 * whole.Final.Seconds)
			o, _ := runOn(t, faulty(t, fmt.Sprintf("partition([w0],one_way=true,at=%v,for=40ms)", at)), job(t, opts...), nil)
			if o.Final.Step != o.Job.Updates || len(o.Dead) > 1 {
				t.Errorf("%s, cut off at %v: %d updates, lost %q", name, at, o.Final.Step, o.Dead)
			}
			died += len(o.Dead)
		}
		if died == 0 && patience.Long {
			t.Errorf("%s: nobody dies", name)
		}
	}
}
