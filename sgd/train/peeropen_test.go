package train_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// freely are asynchronous runs of workers that gossip.
var freely = map[string][]option{
	"adpsgd": {mode("adpsgd"), graph("ring"), open},
	"agp":    {mode("agp"), graph("one_peer"), open},
}

// marking is a checkpoint at every third step of each worker.
func marking(j *train.Job) { j.CheckpointEvery = 3 }

// weights are what the workers in a checkpoint of push-sum have.
func weights(st *checkpoint.State, workers int) (sum float64, n int) {
	for w := range workers {
		if bits, ok := st.Ints[checkpoint.Key("weight", w)]; ok {
			sum, n = sum+math.Float64frombits(uint64(bits)), n+1
		}
	}
	return sum, n
}

// One that leaves a run of push-sum by plan leaves its weight with the others, whatever is
// under way: at every mark the weights sum to how many there were. One that comes brings
// weight 1.
func TestLeaversHandOnTheirWeight(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for _, g := range []string{"one_peer", "ring", "exponential", "complete"} {
		for seed := range uint64(4) {
			opts := []option{mode("agp(least=0.1)"), graph(g), open, marking, func(j *train.Job) {
				j.Seed, j.Updates, j.Timing.Slow = seed, 300, timing.Slow{{Count: 1, Factor: 12}} // who pushes long after it began its step
			},
				leaving(train.Departure{Worker: 2, Step: 20}, train.Departure{Worker: 1, Step: 28}), joining(train.Joining{Worker: 2, Step: 220})}
			net := simulated(0)
			if seed%2 == 1 { // what one of them sends is on its way for longer than the leaver needs to leave
				net = faulty(t, "delay(by=2ms,from=[w0],to=[w1,w2])")
			}
			o, s := runOn(t, net, job(t, opts...), nil)
			seen := map[int]bool{}
			for _, at := range slices.Sorted(maps.Keys(s.states)) {
				sum, n := weights(s.states[at], 4)
				want := 4.0
				if seen[2] && n == 3 { // who had left is back
					want++
				}
				if seen[n] = true; math.Abs(sum-want) > 1e-9 {
					t.Errorf("%s, seed %d: at update %d the weights of %d workers sum to %v, want %v", g, seed, at, n, sum, want)
				}
			}
			if len(o.Members) != 4 || !seen[4] || !seen[3] || !seen[2] {
				t.Errorf("%s, seed %d: memberships %+v, and marks of as many workers as %v", g, seed, o.Members, seen)
			}
		}
	}
}

// A run that workers come into and leave goes on from each of its marks with those who were
// there, and to its end.
func TestFreeRunsResume(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, way := range freely {
		opts := append(slices.Clone(way), marking, optimizer("adam"), learning(0.01),
			leaving(train.Departure{Worker: 1, Step: 20}, train.Departure{Worker: 0, Step: 21}), joining(train.Joining{Worker: 2, Step: 30}, train.Joining{Worker: 1, Step: 60}))
		whole, s := runOn(t, simulated(0), job(t, opts...), nil)
		checkOpen(t, whole)
		if len(s.states) < 4 {
			t.Fatalf("%s: %d checkpoints", name, len(s.states))
		}
		for at, st := range s.states {
			o, _ := runOn(t, simulated(seconds(float64(st.Ints["nanoseconds"])/1e9)), job(t, opts...), st)
			checkOpen(t, o)
			if last := o.Members[len(o.Members)-1].Workers; !slices.Equal(last, []int{1, 2, 3}) {
				t.Errorf("%s, resumed at update %d: in the end there are %v", name, at, last)
			}
		}
	}
}

// After a resume the dead are there again, and steps that others made are not theirs.
func TestFreeRunsResumeWithTheDead(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, way := range freely {
		opts := append(slices.Clone(way), marking)
		whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
		_, s := runOn(t, faulty(t, fmt.Sprintf("kill(w3,at=%v)", seconds(0.2*whole.Final.Seconds))), job(t, opts...), nil)
		for at, st := range s.states {
			o, _ := runOn(t, simulated(seconds(float64(st.Ints["nanoseconds"])/1e9)), job(t, opts...), st)
			checkOpen(t, o)
			steps := 0
			for _, r := range o.Reports {
				steps += r.Steps
			}
			if last := o.Members[len(o.Members)-1].Workers; len(last) != 4 || steps > o.Job.Updates+8 {
				t.Errorf("%s, resumed at update %d: in the end there are %v, who made %d steps for %d updates", name, at, last, steps, o.Job.Updates)
			}
		}
	}
}

// A worker that comes takes as long as it takes. Nobody waits for it: the run ends when it
// would without it.
func TestNobodyWaitsForWhoComes(t *testing.T) {
	t.Parallel()
	for name, way := range freely {
		late := job(t, append(way, joining(train.Joining{Worker: 2, Step: 30}))...)
		o, _ := runOn(t, faulty(t, "delay(by=1s,to=[w2])"), late, nil)
		never, _ := runOn(t, simulated(0), job(t, append(way, leaving(train.Departure{Worker: 2, Step: 0}))...), nil)
		if o.Final.Step != late.Updates || o.Final.Seconds != never.Final.Seconds || o.SHA256 != never.SHA256 {
			t.Errorf("%s: with a worker that comes too late it ends after %v s, and without after %v", name, o.Final.Seconds, never.Final.Seconds)
		}
		if len(o.Members) != 1 {
			t.Errorf("%s: memberships %+v", name, o.Members)
		}
	}
}

// What others had said to an earlier process of a worker is not taken by the one that has
// come in its place, though it is on its way for longer than that takes.
func TestNewProcessesHearNothingOfBefore(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, way := range freely {
		old := 0
		for _, ms := range []int{3, 7, 12, 19} {
			n := faulty(t, fmt.Sprintf("delay(by=3ms)+kill(w1,at=%dms)+rejoin(w1,at=%dms)", ms, ms+1))
			tp := &tape{Net: n}
			o, _ := runOn(t, tp, job(t, way...), nil)
			checkOpen(t, o)
			here, asked := false, map[[2]uint64]bool{} // of the second process: from whom, in which step
			for _, e := range tp.events {
				switch {
				case e.rank != 1:
				case e.deed == receives && e.Tag == train.TagWelcome:
					here = true
				case here && e.deed == receives && e.Tag == train.TagPeer && e.Kind == comm.Gradient:
					if asked[[2]uint64{uint64(e.From), e.Step}] = e.Seq != 0; e.Seq == 0 {
						old++
					}
				case here && e.deed == sends && e.Tag == train.TagReply && name == "adpsgd" && e.Kind == comm.Gradient && !asked[[2]uint64{uint64(e.To), e.Step}]:
					t.Errorf("%s: worker 1 answers worker %d, which had asked the process before, in step %d", name, e.To, e.Step)
				}
			}
		}
		if old == 0 {
			t.Errorf("%s: nothing comes for an earlier process", name)
		}
	}
}

// A worker leaves as often as is planned, and a run rests at its marks meanwhile.
func TestWorkersLeaveAgain(t *testing.T) {
	t.Parallel()
	for name, way := range freely {
		opts := append(slices.Clone(way), marking, func(j *train.Job) { j.Updates = 240 },
			leaving(train.Departure{Worker: 1, Step: 20}, train.Departure{Worker: 1, Step: 100}, train.Departure{Worker: 1, Step: 180}),
			joining(train.Joining{Worker: 1, Step: 60}, train.Joining{Worker: 1, Step: 140}))
		o, s := runOn(t, simulated(0), job(t, opts...), nil)
		checkOpen(t, o)
		if marks := o.Job.Updates/(4*3) - 1; len(o.Members) != 6 || len(s.states) < marks-1 { // a mark may be due while all rest for the one before
			t.Errorf("%s: memberships %+v, and %d checkpoints of %d", name, o.Members, len(s.states), marks)
		}
	}
}

// Every update is evaluated that is to be, whoever leaves, comes or dies at that instant.
func TestFreeRunsAreEvaluated(t *testing.T) {
	t.Parallel()
	for name, way := range freely {
		opts := append(slices.Clone(way), func(j *train.Job) { j.EvalEvery = 1 },
			leaving(train.Departure{Worker: 1, Step: 20}, train.Departure{Worker: 3, Step: 76}), joining(train.Joining{Worker: 1, Step: 50}))
		whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
		strikes := fmt.Sprintf("kill(w2,at=%v)+rejoin(w2,at=%v)", seconds(0.3*whole.Final.Seconds), seconds(0.5*whole.Final.Seconds))
		for kind, net := range map[string]comm.Net{"by plan": simulated(0), "after a death": faulty(t, strikes), "on real clocks": &local.Net{}} {
			o, s := runOn(t, net, job(t, opts...), nil)
			if n := o.Job.Updates; len(s.evals) != n || o.Final.Step != n {
				t.Errorf("%s, %s: %d evaluations of %d, the last one at %d", name, kind, len(s.evals), n, o.Final.Step)
			}
		}
	}
}

// The last worker stays, whatever is planned; below min_workers the run ends.
func TestTheLastWorkerStays(t *testing.T) {
	t.Parallel()
	for name, way := range freely {
		var all []train.Departure
		for w := range 4 {
			all = append(all, train.Departure{Worker: w, Step: 10 + w})
		}
		o, _ := runOn(t, simulated(0), job(t, append(way, leaving(all...))...), nil)
		checkOpen(t, o)
		if n := len(o.Members); n != 4 || len(o.Members[n-1].Workers) != 1 {
			t.Errorf("%s: memberships %+v", name, o.Members)
		}
		n := simulated(0).(*sim.Net)
		n.Faults = []nemesis.Act{{Rank: 0, At: time.Millisecond}, {Rank: 3, At: time.Millisecond}}
		j := job(t, append(way, func(j *train.Job) { j.MinWorkers = 3 })...)
		programs, err := j.Programs(&train.Observer{Job: j, Sink: &sink{}})
		if err != nil {
			t.Fatal(err)
		}
		if err = n.Run(t.Context(), programs); err == nil || !strings.Contains(err.Error(), "min_workers=3") {
			t.Errorf("%s: two of four workers die, with min_workers=3: %v", name, err)
		}
	}
}

// Two neighbours away at once part no ring: those who are there make one of their own. Before,
// the others were two parts that never heard of one another.
func TestWhoIsThereMakesTheGraph(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, way := range map[string][]option{"adpsgd": {mode("adpsgd"), graph("ring"), open}, "agp": {mode("agp"), graph("ring"), open}} {
		opts := append(way, func(j *train.Job) { j.Workers, j.Updates = 6, 200 })
		whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
		at := func(share float64) string { return seconds(share * whole.Final.Seconds).String() }
		n := faultyOf(t, 6, fmt.Sprintf("kill(w1,at=%s)+rejoin(w1,at=%s)", at(0.2), at(0.7)))
		tp := &tape{Net: n}
		o, _ := runOn(t, tp, job(t, append(opts, leaving(train.Departure{Worker: 4, Step: 40}))...), nil)
		checkOpen(t, o)
		across := map[[2]int32]int{} // how often a worker hears another one that is no neighbour on the ring of all
		for _, e := range tp.events {
			if e.deed == receives && e.Tag == train.TagPeer && e.Kind == comm.Gradient && (e.From+1)%6 != int32(e.rank) && (e.From+5)%6 != int32(e.rank) {
				across[[2]int32{min(e.From, int32(e.rank)), max(e.From, int32(e.rank))}]++
			}
		}
		if len(o.Members) != 4 || across[[2]int32{0, 2}] == 0 || across[[2]int32{3, 5}] == 0 {
			t.Errorf("%s: memberships %+v; beside the ring of all are heard %v", name, o.Members, across)
		}
		if s := o.Final.Spread; s > 3*whole.Final.Spread {
			t.Errorf("%s: models are %v apart in the end, and %v with all", name, s, whole.Final.Spread)
		}
	}
}
