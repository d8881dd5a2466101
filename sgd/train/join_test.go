package train_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/comm/nemesis"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd/train"
)

func joining(d ...train.Joining) option { return func(j *train.Job) { j.Joins = d } }

// A worker that joins before a step, or comes back, is there from that step on. The run
// has the same bits on every net, and resumed from any checkpoint.
func TestJoins(t *testing.T) {
	t.Parallel()
	plans := map[string][]option{
		"comes":          {joining(train.Joining{Worker: 2, Step: 9})},
		"comes as first": {joining(train.Joining{Worker: 0, Step: 9})},
		"comes back":     {leaving(train.Departure{Worker: 1, Step: 6}), joining(train.Joining{Worker: 1, Step: 14})},
		"comes back at once, and others": {
			leaving(train.Departure{Worker: 0, Step: 6}, train.Departure{Worker: 3, Step: 12}),
			joining(train.Joining{Worker: 2, Step: 6}, train.Joining{Worker: 0, Step: 6, Turn: 1}, train.Joining{Worker: 3, Step: 20}),
		},
		"two at once": {joining(train.Joining{Worker: 1, Step: 12}, train.Joining{Worker: 2, Step: 12})},
	}
	names := slices.Sorted(maps.Keys(plans))
	n := 0
	for name, way := range elasticWays {
		plan := names[n%len(names)]
		n++
		if leftOut(name, 2) {
			continue
		}
		t.Run(name+"/"+plan, func(t *testing.T) {
			opts := slices.Concat([]option{elastic, func(j *train.Job) { j.CheckpointEvery = 4 }}, way, plans[plan])
			j := unchecked(opts...)
			if err := j.Check(); err != nil {
				t.Fatal(err)
			}
			whole, s := runOn(t, simulated(0), j, nil)
			if whole.Final.Step != 24 || len(whole.Members) < 2 || len(whole.Reports) != j.World() || len(whole.Dead) > 0 {
				t.Fatalf("memberships %+v, %d reports, ends with %+v", whole.Members, len(whole.Reports), whole.Final)
			}
			missed := 0
			for i, m := range whole.Members[1:] {
				missed += (j.Workers - len(whole.Members[i].Workers)) * (m.Step - whole.Members[i].Step)
			}
			missed += (j.Workers - len(whole.Members[len(whole.Members)-1].Workers)) * (24 - whole.Members[len(whole.Members)-1].Step)
			made := 0
			for _, r := range whole.Reports {
				made += r.Steps
			}
			if made != j.Workers*24-missed {
				t.Errorf("%d steps made, want %d", made, j.Workers*24-missed)
			}
			evens(t, whole)
			loc, _ := runOn(t, &local.Net{}, job(t, opts...), nil)
			if loc.SHA256 != whole.SHA256 {
				t.Error("local and sim differ in their bits")
			}
			for version, st := range s.states {
				again, _ := runOn(t, simulated(0), job(t, opts...), st)
				if again.SHA256 != whole.SHA256 || len(again.Members) != len(whole.Members) {
					t.Errorf("resumed at update %d: other bits, or memberships %+v", version, again.Members)
				}
			}
		})
	}
}

// evens: what workers sent is what was applied, by each of them alone or by each shard.
// A worker that died was heard by the servers alone.
func evens(t *testing.T, o *train.Observer) {
	t.Helper()
	shards, alive := 1, map[int]bool{}
	for _, r := range o.Reports {
		if alive[r.Rank] = true; r.Role == "server" {
			shards = r.Shard + 1
		}
	}
	var sent, applied uint64
	for _, r := range o.Reports {
		applied += r.Ledger.Applied
		sent += r.Sent + r.Past
		for w, n := range r.Taken {
			if !alive[w] {
				sent += n
			}
		}
		if r.Role == "worker" && r.Sent != uint64(shards*r.Steps) || r.Role == "server" && r.Steps+int(r.Voided) > 0 {
			t.Errorf("report %+v", r)
		}
	}
	if sent != applied {
		t.Errorf("%d gradients sent, and %d applied", sent, applied)
	}
}

// In processes a worker that joins has nothing but what a peer sends it.
func TestJoinsInProcesses(t *testing.T) {
	t.Parallel()
	for name, way := range map[string][]option{
		"adam, feedback": {mode("reduce"), optimizer("adam"), with("feedback(topk(keep=0.1))")},
		"norms":          {normal(0)},
		"average":        {mode("gather"), ema(0.9, 2)},
		"servers":        {mode("server"), servers(2), optimizer("adam"), with("feedback(topk(keep=0.1))"), down("fp16")},
		"down codec":     {mode("server"), down("qsgd(bits=4)")},
		"local steps":    {mode("localsgd(h=3,lr=0.7)"), outer("nesterov(beta=0.9)"), optimizer("adam"), learning(0.01)},
		"neighbours":     {mode("dpsgd"), graph("ring"), optimizer("adam")},
		"push-sum":       {mode("sgp(late=1)"), graph("one_peer"), with("bf16")},
		"differences":    {mode("choco"), graph("complete"), with("topk(keep=0.2)")},
	} {
		t.Run(name, func(t *testing.T) {
			opts := slices.Concat([]option{elastic, leaving(train.Departure{Worker: 2, Step: 6}),
				joining(train.Joining{Worker: 0, Step: 8}, train.Joining{Worker: 2, Step: 11})}, way)
			whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
			again, _ := runOn(t, processes{t, opts}, job(t, opts...), nil)
			if again.SHA256 != whole.SHA256 || len(again.Members) != 4 {
				t.Errorf("other bits than on sim, or memberships %+v", again.Members)
			}
		})
	}
}

// From the step before which a worker joins, a run is the one that a checkpoint of that
// step would begin of which the worker had been a member: with the parameters and the
// optimizer of the others, and codecs that have kept nothing.
func TestJoinIsAMemberFromThen(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, way := range map[string][]option{
		"raw":         {mode("reduce"), optimizer("adam")},
		"feedback":    {mode("reduce"), with("feedback(topk(keep=0.1))")},
		"powersgd":    {mode("reduce"), with("powersgd(rank=2)")},
		"local steps": {mode("localsgd(h=3)"), outer("momentum"), optimizer("adam"), learning(0.01)},
		"scaled rate": {mode("reduce"), func(j *train.Job) { j.OnResize = train.ScaleLR }},
	} {
		t.Run(name, func(t *testing.T) {
			opts := slices.Concat([]option{elastic, func(j *train.Job) { j.CheckpointEvery = 12 }}, way)
			joined, s := runOn(t, simulated(0), job(t, append(opts, joining(train.Joining{Worker: 3, Step: 12}))...), nil)
			st := s.states[12]
			var ms []train.Membership
			if err := json.Unmarshal(st.Bytes["members"], &ms); err != nil || len(ms) != 1 {
				t.Fatalf("%+v, %v", ms, err)
			}
			m := joined.Members[1]
			if m.Step != 12 || !slices.Equal(m.Joined, []int{3}) || !slices.Equal(m.Workers, []int{0, 1, 2, 3}) {
				t.Fatalf("membership %+v", m)
			}
			ms = append(ms, train.Membership{Epoch: 2, Step: 12, Samples: m.Samples, Workers: m.Workers, Planned: 1})
			st.Bytes["members"], _ = json.Marshal(ms)
			j := job(t, opts...)
			for name := range st.Bytes {
				if of, ok := strings.CutPrefix(name, "codec/up/0/"); ok {
					for w := range 4 {
						st.Bytes["codec/up/"+string(rune('0'+w))+"/"+of] = fresh(t, j, of, w)
					}
				}
			}
			for name, v := range st.Vectors {
				if of, ok := strings.CutPrefix(name, "inner/0/"); ok {
					st.Vectors["inner/3/"+of] = v
				}
			}
			st.Ints["step/3"] = 12
			there, _ := runOn(t, simulated(0), j, st)
			if there.SHA256 != joined.SHA256 {
				t.Error("other bits than of a run that it was a member of from then on")
			}
			never, _ := runOn(t, simulated(0), job(t, append(opts, leaving(train.Departure{Worker: 3, Step: 0}))...), nil)
			if never.SHA256 == joined.SHA256 {
				t.Error("it makes no difference")
			}
		})
	}
}

// fresh is what a rank's codec of a tensor keeps before its first step.
func fresh(t *testing.T, j *train.Job, of string, rank int) []byte {
	for _, sp := range j.Model.Layout().Spans {
		if sp.Name != of {
			continue
		}
		x, _, err := compress.NewExchange(j.Codec, compress.Block{Name: of, Rows: sp.Rows, Cols: sp.Cols, Rank: rank, World: 4})
		if err != nil {
			t.Fatal(err)
		}
		b, err := x.(compress.Stateful).AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	t.Fatalf("no tensor %q", of)
	return nil
}

// Deaths beside joins: of who waits to join, of who heals, of who is healed, and while a
// plan is carried out. Whatever dies, the others end the run, and what is made again by
// plan has the same bits.
func TestDeathsBesideJoins(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, way := range goingWays {
		t.Run(name, func(t *testing.T) { deathsBesideJoins(t, way, name == "servers") })
	}
}

// goingWays are ways to train in which workers come and go.
var goingWays = map[string][]option{
	"ranks":      {mode("reduce"), elastic, with("feedback(topk(keep=0.1))")},
	"neighbours": {mode("sgp(late=1)"), elastic, graph("one_peer"), optimizer("adam"), func(j *train.Job) { j.Timing.FLOPS = 1e8 }},
	"servers":    {mode("server"), servers(2), elastic, with("feedback(topk(keep=0.1))")},
}

func deathsBesideJoins(t *testing.T, way []option, served bool) {
	opts := slices.Concat(way, []option{
		leaving(train.Departure{Worker: 1, Step: 8}), joining(train.Joining{Worker: 3, Step: 8}, train.Joining{Worker: 1, Step: 8, Turn: 1})})
	whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
	at := whole.Members[1].Seconds
	healed := map[bool]int{}
	for i := range 48 {
		if !patience.Long && i%12 > 0 {
			continue
		}
		victim := i % 4
		death := nemesis.Act{Rank: victim, At: seconds(at * (0.95 + 0.1*float64(i)/48))}
		died, _ := runOn(t, killing(death), job(t, opts...), nil)
		if died.Final.Step != 24 || len(died.Dead) != 1 {
			t.Fatalf("worker %d dies at %v: memberships %+v, %v, ends with %+v", victim, death.At, died.Members, died.Dead, died.Final)
		}
		l, js := train.PlanOf(4, 24, died.Members)
		planned := job(t, append(opts, leaving(l...), joining(js...))...)
		left, _ := runOn(t, simulated(0), planned, nil)
		if died.SHA256 != left.SHA256 {
			t.Errorf("worker %d dies at %v: other bits than by plan %v, %v", victim, death.At, l, js)
		}
		healed[len(js) == 2]++
		again, _ := runOn(t, killing(death), job(t, opts...), nil)
		if died.SHA256 != again.SHA256 || !reflect.DeepEqual(died.Members, again.Members) {
			t.Error("the same death ends in another run")
		}
	}
	if len(healed) < 2 && !served && patience.Long { // servers heal whoever comes
		t.Errorf("in all of the runs, or in none, all joined: %v", healed)
	}
}

// A worker that was killed and comes back is a member from the step on from which the
// others go on with it, whenever it comes: they end with the bits of a run that does so by
// plan.
func TestF1F4WorkerComesBack(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, way := range map[string][]option{
		"adam":        {mode("reduce"), optimizer("adam")},
		"feedback":    {mode("reduce"), with("feedback(topk(keep=0.1))"), topology("direct")},
		"overlap":     {mode("reduce"), func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 600} }},
		"gather":      {mode("gather"), with("cltk(keep=0.3)")},
		"receivers":   {mode("reduce"), with("ef21(topk(keep=0.2))")},
		"servers":     {mode("server"), servers(2), optimizer("adam"), with("feedback(topk(keep=0.1))")},
		"down codec":  {mode("server"), down("qsgd(bits=4)"), with("ef21(topk(keep=0.2))")},
		"parts":       {mode("server"), servers(2), func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 600} }},
		"local steps": {mode("localsgd(h=3,lr=0.7)"), outer("nesterov(beta=0.9)"), optimizer("adam"), learning(0.01)},
		"neighbours":  {mode("dpsgd"), graph("ring"), optimizer("adam")},
		"push-sum":    {mode("sgp(late=1)"), graph("exponential")},
		"differences": {mode("choco"), graph("ring"), with("qsgd(bits=4)")},
	} {
		if leftOut(name, 3) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			opts := append([]option{elastic}, way...)
			whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
			share := func(x float64) time.Duration { return seconds(x * whole.Final.Seconds) }
			shards := len(whole.Reports) - 4
			for i := range 8 {
				if !patience.Long && i != 5 {
					continue
				}
				one, two := fmt.Sprintf("w%d", i%4), fmt.Sprintf("w%d", (i+1+i/4)%4)
				at := 0.05 + 0.09*float64(i)
				faults := fmt.Sprintf("kill(%s,at=%v)+rejoin(%s,at=%v)", one, share(at), one, share(at+0.013*float64(i%3)))
				if i > 3 { // another dies with it, or while it is healed, and comes back
					faults += fmt.Sprintf("+kill(%s,at=%v)+rejoin(%s,at=%v)", two, share(at+0.0131), two, share(at+0.02))
				}
				back, _ := runOn(t, faulty(t, faults), job(t, opts...), nil)
				if last := back.Members[len(back.Members)-1]; len(last.Workers) != 4 || len(back.Reports) != 4+shards || back.Final.Step != 24 {
					t.Fatalf("%s: memberships %+v, %d reports, %v, ends with %+v", faults, back.Members, len(back.Reports), back.Dead, back.Final)
				}
				evens(t, back)
				l, js := train.PlanOf(4, 24, back.Members)
				planned, _ := runOn(t, simulated(0), job(t, append(opts, leaving(l...), joining(js...))...), nil)
				if back.SHA256 != planned.SHA256 || back.SHA256 == whole.SHA256 && name == "feedback" {
					t.Errorf("%s: other bits than by plan %v, %v", faults, l, js)
				}
				again, _ := runOn(t, faulty(t, faults), job(t, opts...), nil)
				if back.SHA256 != again.SHA256 || !reflect.DeepEqual(back.Members, again.Members) {
					t.Errorf("%s: the same faults end in another run", faults)
				}
			}
		})
	}
}

// Whatever dies and comes back at random, again and again, the others go on as long as one
// of them lives, and what they made has a plan.
func TestComingAndGoing(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for name, way := range goingWays {
		t.Run(name, func(t *testing.T) { comingAndGoing(t, way) })
	}
}

func comingAndGoing(t *testing.T, way []option) {
	opts := append(slices.Clone(way), func(j *train.Job) { j.CheckpointEvery = 5 })
	whole, _ := runOn(t, simulated(0), job(t, opts...), nil)
	joins, ended, runs := 0, 0, 60
	if !patience.Long {
		runs = 8
	}
	for seed := range uint64(runs) {
		faults := fmt.Sprintf("poisson(every=%v,of=[kill,rejoin,rejoin,pause],ranks=[w*],for=5ms,until=1s,seed=%d)", seconds(whole.Final.Seconds/10), seed+1)
		j := job(t, opts...)
		o := &train.Observer{Job: j, Sink: &sink{}}
		programs, err := j.Programs(o)
		if err != nil {
			t.Fatal(err)
		}
		if err = faulty(t, faults).Run(context.Background(), programs); err != nil {
			if text := err.Error(); !strings.Contains(text, "0 workers are left") && !strings.Contains(text, "nobody else has the parameters") {
				t.Errorf("%s: %v", faults, err)
			}
			ended++
			continue
		}
		evens(t, o)
		l, js := train.PlanOf(4, 24, o.Members)
		joins += len(js)
		planned, _ := runOn(t, simulated(0), job(t, append(opts, leaving(l...), joining(js...))...), nil)
		if o.SHA256 != planned.SHA256 {
			t.Errorf("%s: other bits than by plan %v, %v", faults, l, js)
		}
	}
	if 2*joins < runs || 2*ended > runs {
		t.Errorf("%d joins, and %d runs of %d lost all workers", joins, ended, runs)
	}
}

// faulty is a virtual cluster of four workers that faults happen to.
func faulty(t *testing.T, faults string) *sim.Net { return faultyOf(t, 4, faults) }

// faultyOf is faulty with so many workers.
func faultyOf(t *testing.T, workers int, faults string) *sim.Net {
	schedule, err := nemesis.Parse(faults)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := schedule.Plan(nemesis.World{Workers: workers, Key: rng.New(1, "faults")})
	if err != nil {
		t.Fatal(err)
	}
	n := simulated(0).(*sim.Net)
	n.Lease, n.Faults = 20*time.Millisecond, plan
	return n
}

// A joiner is healed in the time that its bytes take on the network, with weights or
// without, and so are those that it begins with.
func TestHealingTakesItsTime(t *testing.T) {
	t.Parallel()
	for name, way := range map[string][]option{
		"reduce": {mode("reduce")}, "dpsgd": {mode("dpsgd"), graph("ring")}, "sgp": {mode("sgp(late=1)"), graph("one_peer")},
		"choco": {mode("choco"), graph("ring"), with("topk(keep=0.2,index=raw32)")},
	} {
		opts := append([]option{elastic, optimizer("adam"), leaving(train.Departure{Worker: 1, Step: 4}), joining(train.Joining{Worker: 2, Step: 9})}, way...)
		real, _ := runOn(t, simulated(0), job(t, opts...), nil)
		empty, _ := runOn(t, simulated(0), job(t, append(opts, func(j *train.Job) { j.Weightless, j.EvalEvery = true, 0 })...), nil)
		n := uint64(4 * len(real.Params) * 3) // parameters and two moments
		for _, o := range []*train.Observer{real, empty} {
			var got uint64
			for _, r := range o.Reports {
				if r.Rank == 2 {
					got = r.Traffic.RecvBytes[comm.Parameters]
				}
			}
			if got != n {
				t.Errorf("%s: worker 2 was sent %d bytes of parameters, want %d", name, got, n)
			}
		}
		if a, b := real.Final, empty.Final; a.Seconds != b.Seconds || a.BytesUp != b.BytesUp || b.Step != 24 {
			t.Errorf("%s: %+v, and without weights %+v", name, a, b)
		}
	}
}

// Where there are servers, they heal: with parameters, and nothing else.
func TestServersHealInTheirTime(t *testing.T) {
	t.Parallel()
	for _, codec := range []string{"raw", "fp16", "qsgd(bits=4)"} {
		opts := []option{mode("server"), servers(2), elastic, down(codec), joining(train.Joining{Worker: 2, Step: 9})}
		real, _ := runOn(t, simulated(0), job(t, opts...), nil)
		empty, _ := runOn(t, simulated(0), job(t, append(opts, func(j *train.Job) { j.Weightless, j.EvalEvery = true, 0 })...), nil)
		if a, b := real.Final, empty.Final; a.Seconds != b.Seconds || a.BytesDown != b.BytesDown || a.BytesUp != b.BytesUp || b.Step != 24 {
			t.Errorf("down_codec %s: %+v, and without weights %+v", codec, a, b)
		}
		sent := func(o *train.Observer, worker int) uint64 {
			for _, r := range o.Reports {
				if r.Rank == worker {
					return r.Traffic.RecvBytes[comm.Parameters]
				}
			}
			return 0
		}
		all, late := sent(real, 0), sent(real, 2) // of 24 steps; of 15, and what heals
		each, n := all/24, uint64(4*len(real.Params))
		if heals := late - 15*each; codec == "raw" && heals != n || heals < n/2 || heals > n {
			t.Errorf("down_codec %s: worker 2 is sent %d bytes to begin with, of %d parameters", codec, heals, len(real.Params))
		}
	}
}

// What cannot be is refused before the run.
func TestJoinRefusals(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]option{
		"worker 1 is there already before step 5":  {leaving(train.Departure{Worker: 1, Step: 2}), joining(train.Joining{Worker: 1, Step: 3}, train.Joining{Worker: 1, Step: 5})},
		"worker 1 moves twice before step 3: say":  {leaving(train.Departure{Worker: 1, Step: 3}), joining(train.Joining{Worker: 1, Step: 3})},
		"it cannot leave":                          {leaving(train.Departure{Worker: 1, Step: 2}, train.Departure{Worker: 1, Step: 3})},
		"join: worker 4 before step 1":             {joining(train.Joining{Worker: 4, Step: 1})},
		"join: worker 1 before step 24":            {joining(train.Joining{Worker: 1, Step: 24})},
		"1 workers are there at first":             {joining(train.Joining{Worker: 0, Step: 1}, train.Joining{Worker: 1, Step: 1}, train.Joining{Worker: 2, Step: 1}), func(j *train.Job) { j.MinWorkers = 2 }},
		"fault join: a worker can join a run with": {joining(train.Joining{Worker: 0, Step: 1}), func(j *train.Job) { j.Elastic = false }},
	} {
		j := unchecked(slices.Concat([]option{mode("reduce"), elastic}, opts)...)
		if err := j.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }
