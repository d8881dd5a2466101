package train_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd/train"
)

// faultyWith is a net with faults that may name the servers of a job.
func faultyWith(t *testing.T, j *train.Job, faults string) *sim.Net {
	t.Helper()
	schedule, err := nemesis.Parse(faults)
	if err != nil {
		t.Fatal(err)
	}
	n := simulated(0).(*sim.Net)
	if n.Faults, err = schedule.Plan(nemesis.World{Workers: j.Workers, Servers: j.World() - j.Workers, Key: rng.New(1, "faults")}); err != nil {
		t.Fatal(err)
	}
	n.Lease = 20 * time.Millisecond
	return n
}

// meetingOn makes a run whose ranks meet again when one of those comes back without which
// the others do not go on: each time all go back to the last checkpoint. It says to which
// updates they went back.
func meetingOn(t *testing.T, faults string, j *train.Job) (o *train.Observer, s *sink, backs []int) {
	t.Helper()
	n := faultyWith(t, j, faults)
	n.Fixed, s = append(j.AllFixed(), j.Observer()), &sink{}
	for {
		o = &train.Observer{Job: j, Sink: s, Start: s.last}
		programs, err := j.Programs(o)
		if err != nil {
			t.Fatal(err)
		}
		err = n.Run(context.Background(), programs)
		again := (*comm.AgainError)(nil)
		if !errors.As(err, &again) {
			if err != nil {
				t.Fatalf("%s: %v", faults, err)
			}
			return o, s, backs
		}
		if s.last == nil {
			backs = append(backs, 0)
		} else {
			backs = append(backs, int(s.last.Ints["version"]))
		}
		j.Prepare()
	}
}

// A server that dies comes back, and all go back to the last checkpoint. Where all wait for
// all the run ends with the bits of one in which nobody died, whenever that was.
func TestShardsComeBackOnTheVirtualCluster(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, opts := range map[string][]option{
		"raw":      {},
		"feedback": {with("feedback(topk(keep=0.1))"), optimizer("adam"), down("fp16")},
		"leaves":   {with("ef21(topk(keep=0.3))"), leaving(train.Departure{Worker: 1, Step: 6}), joining(train.Joining{Worker: 1, Step: 14})},
		"none":     {func(j *train.Job) { j.CheckpointEvery = 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			opts := append([]option{mode("server"), elastic, servers(2), func(j *train.Job) { j.CheckpointEvery = 5 }}, opts...)
			whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
			took, seen := whole.Final.Seconds, map[int]bool{}
			for i := range 12 {
				if !patience.Long && i%3 > 0 {
					continue
				}
				at := func(share float64) time.Duration { return seconds(share * took) }
				share := (float64(i) + 0.37) / 12
				faults := fmt.Sprintf("kill(s%d,at=%v)+rejoin(s%[1]d,at=%v)+kill(s1,at=%v)+rejoin(s1,at=%[5]v)+rejoin(s1,at=%v)", i%2, at(share), at(share+0.1), at(1.3), at(1.3), at(1.4))
				o, _, backs := meetingOn(t, faults, job(t, opts...))
				if o.SHA256 != whole.SHA256 || len(backs) == 0 || len(o.Dead) > 0 {
					t.Errorf("%s: back to %v, lost %q, and it ends with other bits", faults, backs, o.Dead)
				}
				checkOpen(t, o)
				for _, b := range backs {
					seen[b] = true
				}
			}
			if n := len(seen); n < 2 && patience.Long && name != "none" {
				t.Errorf("they went back to %v", seen)
			}
		})
	}
}

// So do runs that workers come into, and those whose worker with a relay dies, or the
// coordinator.
func TestOpenShardsComeBack(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, c := range map[string]struct {
		opts   []option
		victim string
	}{
		"asp":         {[]option{mode("server"), policy("asp"), with("feedback(topk(keep=0.1))")}, "s0"},
		"ssp":         {[]option{mode("server"), policy("ssp(slack=1)"), down("qsgd(bits=4)")}, "s1"},
		"softsync":    {[]option{mode("server"), policy("softsync(n=2)")}, "s1"},
		"downpour":    {[]option{mode("downpour(n_fetch=2,n_push=2)"), policy("asp"), with("ef21(topk(keep=0.3))")}, "s1"},
		"easgd":       {[]option{mode("easgd(tau=2)"), policy("asp")}, "s0"},
		"tree":        {[]option{mode("rudra(tree=2)"), policy("asp")}, "s0"},
		"relay":       {[]option{mode("rudra(tree=2)"), policy("softsync(n=2)"), with("feedback(topk(keep=0.1))")}, "w0"},
		"sandblaster": {[]option{mode("sandblaster(portions=6)"), optimizer("sgd")}, "s0"},
		"coordinator": {[]option{mode("sandblaster(portions=6)"), optimizer("sgd")}, "s2"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := append([]option{open, func(j *train.Job) { j.CheckpointEvery = 4 }}, c.opts...)
			if name == "sandblaster" || name == "coordinator" {
				opts = append(opts, func(j *train.Job) { j.Updates, j.EvalEvery = 12, 4 })
			}
			whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
			at := func(share float64) time.Duration { return seconds(share * whole.Final.Seconds) }
			var all []int
			for i := range 6 {
				if !patience.Long && i%2 > 0 {
					continue
				}
				share := 0.2 + 0.11*float64(i)
				faults := fmt.Sprintf("kill(%s,at=%v)+rejoin(%[1]s,at=%v)+kill(w3,at=%v)+rejoin(w3,at=%v)", c.victim, at(share), at(share+0.05), at(share-0.1), at(share+0.2))
				o, _, backs := meetingOn(t, faults, job(t, opts...))
				checkOpen(t, o)
				if all = append(all, backs...); len(backs) != 1 {
					t.Errorf("%s: they went back to %v", faults, backs)
				}
			}
			if slices.Max(all) == 0 {
				t.Error("they never went back to a checkpoint")
			}
		})
	}
}

// So does the observer, in every mode: all go back to the last checkpoint. Where all wait for
// all the run ends with the bits of one in which nobody died.
func TestF6ObserverComesBackOnTheVirtualCluster(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, c := range map[string]struct {
		opts   []option
		inStep bool
	}{
		"server":   {[]option{mode("server"), elastic, servers(2), with("feedback(topk(keep=0.1))")}, true},
		"reduce":   {[]option{mode("reduce"), elastic, with("ef21(topk(keep=0.3))"), leaving(train.Departure{Worker: 1, Step: 6}), joining(train.Joining{Worker: 1, Step: 14})}, true},
		"localsgd": {[]option{mode("localsgd(h=2)"), elastic}, true},
		"choco":    {[]option{mode("choco"), graph("ring"), elastic, with("topk(keep=0.3)")}, true},
		"asp":      {[]option{mode("server"), policy("asp"), open}, false},
		"adpsgd":   {[]option{mode("adpsgd"), graph("ring"), open}, false},
		"agp":      {[]option{mode("agp"), graph("ring"), open}, false},
	} {
		t.Run(name, func(t *testing.T) {
			opts := append([]option{func(j *train.Job) { j.CheckpointEvery = 5 }}, c.opts...)
			whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
			took, most := whole.Final.Seconds, 0
			for i := range 8 {
				if !patience.Long && i%4 > 0 {
					continue
				}
				share := (float64(i) + 0.37) / 8
				faults := fmt.Sprintf("kill(observer,at=%v)+rejoin(observer,at=%v)", seconds(share*took), seconds((share+0.1)*took))
				o, _, backs := meetingOn(t, faults, job(t, opts...))
				if len(backs) != 1 || len(o.Dead) > 0 || c.inStep && o.SHA256 != whole.SHA256 {
					t.Errorf("%s: back to %v, lost %q; %x and %x without", faults, backs, o.Dead, o.SHA256, whole.SHA256)
				}
				checkOpen(t, o)
				if len(backs) > 0 {
					most = max(most, backs[0])
				}
			}
			if most == 0 {
				t.Error("they never went back to a checkpoint")
			}
		})
	}
}
