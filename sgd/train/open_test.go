package train_test

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/comm/collective"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/staleness"
)

// open is an asynchronous run with two shards that workers come into and leave.
func open(j *train.Job) { j.Elastic, j.Updates, j.EvalEvery, j.Servers = true, 96, 20, 2 }

// asyncPolicies are those by registry that do not wait for all.
func asyncPolicies() (names []string) {
	for _, name := range staleness.Policies.Names() {
		if p, _ := staleness.Policies.Proto(name); !p.Traits(4).Synchronous {
			names = append(names, name)
		}
	}
	return names
}

// admitting are modes that take workers at once, with every policy, or on every graph, that
// they take.
func admitting() map[string][]option {
	ways := map[string][]option{}
	add := func(spec, name string, way option) {
		opts := []option{mode(spec), way, open}
		j := unchecked(opts...)
		if j.Mode.Traits(j).Admits && j.Check() == nil {
			ways[spec+"/"+name] = opts
		}
	}
	for _, spec := range append(train.Modes.Names(), "downpour(n_fetch=2,n_push=3)", "downpour(warm_start=10)", "easgd(tau=2)", "rudra(threads=true)", "rudra(tree=2)", "rudra(tree=2,threads=true)", "agp(least=0.1)") {
		if unchecked(mode(spec)).Heeds("graph") {
			for _, name := range collective.Graphs.Names() {
				add(spec, name, graph(name))
			}
			continue
		}
		for _, name := range asyncPolicies() {
			add(spec, name, policy(name))
		}
	}
	return ways
}

// Workers come into asynchronous runs, and leave, whatever mode, policy and graph: by plan, on sim
// and on real clocks, and as processes in the place of those that died.
func TestOpenRuns(t *testing.T) {
	t.Parallel()
	for name, opts := range admitting() {
		if way := path.Base(name); !patience.Long && way != "asp" && way != "ring" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			plan := append(opts, leaving(train.Departure{Worker: 1, Step: 20}, train.Departure{Worker: 3, Step: 60}),
				joining(train.Joining{Worker: 0, Step: 30}, train.Joining{Worker: 1, Step: 50}))
			o, _ := runOn(t, simulated(0), job(t, plan...), nil)
			checkOpen(t, o)
			if n := len(o.Members); n != 5 || !slices.Equal(o.Members[n-1].Workers, []int{0, 1, 2}) || !slices.Equal(o.Members[0].Workers, []int{1, 2, 3}) {
				t.Errorf("memberships %+v", o.Members)
			}
			again, _ := runOn(t, simulated(0), job(t, plan...), nil)
			if again.SHA256 != o.SHA256 {
				t.Error("the same plan gives another run")
			}
			real, _ := runOn(t, &local.Net{}, job(t, plan...), nil)
			checkOpen(t, real)
			whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
			at := func(share float64) string { return seconds(share * whole.Final.Seconds).String() }
			back, _ := runOn(t, faulty(t, fmt.Sprintf("kill(w1,at=%s)+rejoin(w1,at=%s)+kill(w3,at=%s)", at(0.2), at(0.4), at(0.6))), job(t, opts...), nil)
			checkOpen(t, back)
			if n := len(back.Members); n != 4 || !slices.Equal(back.Members[2].Joined, []int{1}) || len(back.Dead) != 2 {
				t.Errorf("memberships %+v, %v", back.Members, back.Dead)
			}
		})
	}
}

// checkOpen: the run made all its updates, and what was sent is accounted for.
func checkOpen(t *testing.T, o *train.Observer) {
	t.Helper()
	var sent, got uint64
	alive := map[int]bool{}
	for _, r := range o.Reports {
		alive[r.Rank] = true
	}
	for _, r := range o.Reports {
		sent, got = sent+r.Sent+r.Past, got+r.Ledger.Applied+r.Ledger.Rejected+r.Ledger.Held
		for w, n := range r.Taken {
			if !alive[w] {
				sent += n
			}
		}
	}
	if o.Final.Step != o.Job.Updates || sent != got {
		t.Errorf("%d of %d updates; %d gradients sent, and %d applied, rejected or held", o.Final.Step, o.Job.Updates, sent, got)
	}
}

// A worker that comes begins where the slowest is, and with policy ssp waits for nobody
// who was there before it for longer than any other does.
func TestComesWhereTheSlowestIs(t *testing.T) {
	t.Parallel()
	opts := []option{mode("server"), policy("ssp(slack=1)"), open, joining(train.Joining{Worker: 2, Step: 60})}
	o, _ := runOn(t, simulated(0), job(t, opts...), nil)
	steps := map[int]int{}
	for _, r := range o.Reports {
		if r.Role == "worker" {
			steps[r.Rank] = r.Steps
		}
	}
	// 20 steps of each of three before, 9 of each of four behind.
	if n := steps[2]; n < 7 || n > 11 || steps[0] < 27 || steps[0] > 31 {
		t.Errorf("steps by worker %v", steps)
	}
}

// Runs that workers come into and leave are stopped at marks, and go on: with checkpoints of
// the same workers on all shards, whoever comes, leaves or dies meanwhile.
func TestOpenRunsResume(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, of := range map[string][]option{
		"server/ssp": {mode("server"), policy("ssp(slack=1)")}, "server/softsync": {mode("server"), policy("softsync(n=2)")},
		"downpour/asp": {mode("downpour(n_fetch=2,n_push=2)"), policy("asp")}, "downpour/softsync": {mode("downpour(warm_start=20)"), policy("softsync(n=2)")},
		"easgd/asp": {mode("easgd(tau=2)"), policy("asp")}, "rudra/softsync": {mode("rudra"), policy("softsync(n=2)")},
		"rudra-tree/softsync": {mode("rudra(tree=2)"), policy("softsync(n=2)")}, "rudra-tree/asp": {mode("rudra(tree=2)"), policy("asp")},
		"adpsgd/ring": {mode("adpsgd"), graph("ring")}, "adpsgd/complete": {mode("adpsgd"), graph("complete")},
		"agp/one_peer": {mode("agp"), graph("one_peer")}, "agp/ring": {mode("agp(least=0.1)"), graph("ring")},
	} {
		for way, more := range map[string][]option{
			"plain": {}, "feedback": {with("feedback(topk(keep=0.1))")}, "differences": {down("qsgd(bits=4)")},
			"receivers": {with("ef21(topk(keep=0.3))")},
			"parts":     {func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 600} }},
		} {
			opts := slices.Concat(of, []option{open, func(j *train.Job) { j.CheckpointEvery = 4 }}, more)
			if (!strings.HasPrefix(name, "server") || way == "receivers") && unchecked(opts...).Check() != nil {
				continue // the mode does not take it
			}
			if leftOut(name+way, 4) {
				continue
			}
			dying := "w*"
			if strings.Contains(name, "tree") { // who has no relay
				dying = "w1,w3"
			}
			t.Run(name+"/"+way, func(t *testing.T) {
				whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
				seeds := 3
				if !patience.Long {
					seeds = 1
				}
				for seed := range uint64(seeds) {
					faults := fmt.Sprintf("poisson(every=%v,of=[kill,rejoin,rejoin,pause],ranks=[%s],for=2ms,until=1s,seed=%d)", seconds(whole.Final.Seconds/10), dying, seed+1)
					j := job(t, append(opts, joining(train.Joining{Worker: 2, Step: 30 + int(seed)}))...)
					o, s := runOn(t, faulty(t, faults), j, nil)
					checkOpen(t, o)
					for i, at := range slices.Sorted(maps.Keys(s.states)) {
						if i%3 > 0 || i > 0 && !patience.Long {
							continue
						}
						st := s.states[at]
						again, _ := runOn(t, simulated(seconds(float64(st.Ints["nanoseconds"])/1e9)), job(t, append(opts, joining(train.Joining{Worker: 2, Step: 30 + int(seed)}))...), st)
						checkOpen(t, again)
						if t.Failed() {
							t.Fatalf("%s, resumed at update %d", faults, at)
						}
					}
				}
			})
		}
	}
}
