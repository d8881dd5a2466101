package train_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/local"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/staleness"
)

func workers(n int) option { return func(j *train.Job) { j.Workers = n } }

// rudra is the mode on a few trees, with what goes through them.
var rudra = []struct {
	name string
	free bool // bits depend on who comes first
	opts []option
}{
	{"hardsync", false, []option{mode("rudra(tree=2)"), workers(5)}},
	{"hardsync, codec, 2 shards", false, []option{mode("rudra(tree=2)"), workers(4), with("feedback(topk(keep=0.2))"), down("fp16"), func(j *train.Job) { j.Servers = 2 }}},
	{"1-softsync", true, []option{mode("rudra(tree=2)"), workers(8), policy("softsync(n=1)")}},
	{"asp, ef21", true, []option{mode("rudra(tree=3)"), workers(5), policy("asp"), with("ef21(topk(keep=0.3))"), corrector("alpha_tau")}},
	{"adv*", true, []option{mode("rudra(tree=2,threads=true)"), workers(8), policy("softsync(n=2)"), corrector("mean")}},
	{"adv*, codec, 2 shards", true, []option{mode("rudra(tree=4,threads=true)"), workers(6), policy("asp"), learning(0.01), with("qsgd(bits=8)"), func(j *train.Job) { j.Servers = 2 }}},
}

// balanced checks that every gradient sent is accounted for.
func balanced(t *testing.T, o *train.Observer) {
	t.Helper()
	var sent, applied, rejected, held uint64
	for _, r := range o.Reports {
		sent += r.Sent
		applied += r.Ledger.Applied
		rejected += r.Ledger.Rejected
		held += r.Ledger.Held
	}
	if sent != applied+rejected+held || sent == 0 {
		t.Errorf("ledger: sent %d, applied %d, rejected %d, held %d", sent, applied, rejected, held)
	}
}

// The tree learns on all nets, with the same bits where nobody is free, repeats
// itself on the virtual cluster, and loses no gradient.
func TestRudra(t *testing.T) {
	t.Parallel()
	updates, right := 100, 0.8
	if !patience.Long { // that they run, not that they learn
		updates, right = 20, 0
	}
	for _, c := range rudra {
		t.Run(c.name, func(t *testing.T) {
			opts := append(c.opts, func(j *train.Job) { j.Updates, j.EvalEvery = updates*each(j), updates/2*each(j) })
			vir, _ := runOn(t, simulated(0), job(t, opts...), nil)
			if vir.Final.Values["accuracy"] < right || vir.Final.Step != vir.Job.Updates {
				t.Errorf("ended with %+v", vir.Final)
			}
			balanced(t, vir)
			repeats(t, vir, opts)
			few := append(opts, func(j *train.Job) { j.Updates = 20 * each(j) })
			short, _ := runOn(t, simulated(0), job(t, few...), nil)
			loc, _ := runOn(t, &local.Net{}, job(t, few...), nil)
			proc, _ := runOn(t, processes{t, few}, job(t, few...), nil)
			for _, o := range []*train.Observer{loc, proc} {
				balanced(t, o)
				if o.Final.Step != o.Job.Updates {
					t.Errorf("ended with %+v", o.Final)
				}
				if !c.free && o.SHA256 != short.SHA256 {
					t.Error("nets differ in their bits")
				}
			}
		})
	}
}

// With a barrier a tree makes the updates that servers without one make.
func TestRudraIsTheFlatServer(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for _, n := range []int{2, 5, 8, 13} {
		for _, fanin := range []int{2, 3} {
			flat, _ := runOn(t, simulated(0), job(t, workers(n)), nil)
			tree, _ := runOn(t, simulated(0), job(t, workers(n), mode(fmt.Sprintf("rudra(tree=%d)", fanin))), nil)
			if d := distance(flat.Params, tree.Params); d > 1e-6 {
				t.Errorf("%d workers, fan-in %d: relative distance %g", n, fanin, d)
			}
		}
	}
}

// What a server gets and sends is what its children do: one sum and one payload
// of parameters each an update, whatever is below them.
func TestRudraBytes(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	const updates, size = 7, 4 * 80
	few := func(j *train.Job) {
		shape := sgd.Shape{C: 1, H: 1, W: 7}
		j.Updates, j.Workers = updates, 16
		j.Model = model(t, "logistic", shape) // 80 parameters
		j.Data = sgd.Dataset{Train: clusters{100, shape, 3, false}, Test: clusters{20, shape, 3, true}}
	}
	for fanin, children := range map[int]uint64{2: 2, 4: 4, 6: 3, 16: 16} {
		o, _ := runOn(t, simulated(0), job(t, few, mode(fmt.Sprintf("rudra(tree=%d)", fanin))), nil)
		up, down := updates*children*size, updates*children*size
		if children < 16 {
			up += updates * 16 * 36 // the rolls
		}
		if o.Final.BytesUp != up || o.Final.BytesDown != down {
			t.Errorf("fan-in %d: %d bytes up and %d down at the server, want %d and %d", fanin, o.Final.BytesUp, o.Final.BytesDown, up, down)
		}
	}
	// No version crosses an edge twice, whoever asks.
	for _, m := range []string{"rudra(tree=4)", "rudra(tree=4,threads=true)"} {
		o, _ := runOn(t, simulated(0), job(t, few, mode(m), policy("softsync(n=1)")), nil)
		if most := uint64((updates + 1) * 4 * size); o.Final.BytesDown > most {
			t.Errorf("%s: %d bytes down, want at most %d", m, o.Final.BytesDown, most)
		}
	}
}

// Rudra resumes bit-equally at every mark, where its learners come to rest.
func TestRudraResumes(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	for _, c := range rudra {
		if strings.Contains(c.name, "adv*") {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			opts := append(c.opts, func(j *train.Job) { j.CheckpointEvery, j.Updates = 12, 40*each(j) })
			whole, _, again := resumes(t, 2, opts...)
			for _, o := range again {
				if o.Final.Step != whole.Final.Step {
					t.Errorf("ended at step %d, not %d", o.Final.Step, whole.Final.Step)
				}
			}
		})
	}
}

// Stopping ends the mode with a checkpoint that goes on.
func TestRudraStops(t *testing.T) {
	t.Parallel()
	for _, c := range rudra {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{"local", "sim"} { // the latter may have no marks
				mk := func() comm.Net { return &local.Net{} }
				if name == "sim" {
					mk = func() comm.Net { return simulated(0) }
				}
				opts := append(c.opts, func(j *train.Job) { j.Updates = 300 * each(j) })
				polls := make(chan struct{}, 30)
				o, s := stops(t, mk(), job(t, append(opts, func(j *train.Job) {
					j.Stopping = func() bool {
						select {
						case polls <- struct{}{}:
							return false
						default:
							return true
						}
					}
				})...))
				if s.last == nil || o.Final.Step >= o.Job.Updates {
					t.Errorf("%s: no checkpoint, or not stopped: %+v", name, o.Final)
					continue
				}
				balanced(t, o)
				full, _ := runOn(t, mk(), job(t, append(opts, func(j *train.Job) { j.Updates = o.Final.Step + 20 })...), s.last)
				if full.Final.Step != o.Final.Step+20 {
					t.Errorf("%s: went on to step %d", name, full.Final.Step)
				}
				balanced(t, full)
			}
		})
	}
}

// The staleness of every gradient is known at the servers, sums or not.
func TestRudraStaleness(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	o, _ := runOn(t, simulated(0), job(t, mode("rudra(tree=2)"), policy("softsync(n=2)"), workers(8), func(j *train.Job) { j.Updates = 200 }), nil)
	late, n := 0.0, 0.0
	for _, r := range o.Reports {
		for tau, k := range r.Delays {
			late, n = late+float64(tau)*float64(k), n+float64(k)
		}
	}
	if c := n / 200; c < 4 || c > 5 {
		t.Errorf("%v gradients an update, want about 4", c)
	}
	if mean := late / n; mean < 1 || mean > 4 {
		t.Errorf("mean staleness is %v, want about (λ−1)/c = 1.75, and what the tree adds", mean)
	}
}

// What a tree cannot carry is refused.
func TestRudraRefuses(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]option{
		"policy ssp":       {policy("ssp(slack=2)")},
		"policy bounded":   {policy("bounded(max=2)")},
		"policy ksync":     {policy("ksync(k=2)")},
		"corrector":        {policy("asp"), func(j *train.Job) { j.Corrector = staleness.Correctors.MustParse("dcasgd") }},
		"gap":              {policy("asp"), func(j *train.Job) { j.Gap = true }},
		"order_log":        {policy("asp"), func(j *train.Job) { j.LogOrder = true }},
		"whole gradients":  {func(j *train.Job) { j.Overlap = train.Buckets{} }},
		"down_codec":       {down("topk(keep=0.1)")},
		"with policy bsp":  {func(j *train.Job) { j.Mode = train.Rudra{Tree: 2, Threads: true} }},
		"checkpoint_every": {policy("asp"), func(j *train.Job) { j.Mode, j.CheckpointEvery = train.Rudra{Tree: 2, Threads: true}, 5 }},
		"\"tree\" is 1":    {func(j *train.Job) { j.Mode = train.Rudra{Tree: 1} }},
	} {
		j := job(t)
		j.Mode = train.Rudra{Tree: 2}
		for _, o := range opts {
			o(j)
		}
		j.Prepare()
		if err := j.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Behind relays in three levels learners come into asynchronous runs and leave them: by plan,
// those too who have a relay, and after deaths of those who have none. Nothing that passed a
// relay is lost, on real clocks too, and the run goes on from each of its marks.
func TestRudraOpen(t *testing.T) {
	t.Parallel()
	plan := func(j *train.Job) {
		j.Leaves = []train.Departure{{Worker: 4, Step: 30}, {Worker: 8, Step: 40}, {Worker: 3, Step: 60}}
		j.Joins = []train.Joining{{Worker: 1, Step: 20}, {Worker: 4, Step: 70}, {Worker: 8, Step: 80}}
	}
	for name, opts := range map[string][]option{
		"asp":           {mode("rudra(tree=2)"), policy("asp"), with("ef21(topk(keep=0.3))")},
		"softsync":      {mode("rudra(tree=2)"), policy("softsync(n=2)"), with("feedback(topk(keep=0.2))"), func(j *train.Job) { j.CheckpointEvery = 5 }},
		"adv*":          {mode("rudra(tree=2,threads=true)"), policy("asp")},
		"adv*, sums":    {mode("rudra(tree=2,threads=true)"), policy("softsync(n=3)"), with("qsgd(bits=8)"), learning(0.01)},
		"without marks": {mode("rudra(tree=2)"), policy("kbatchasync(k=3)")},
	} {
		if leftOut(name, 2) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			opts := append(opts, open, workers(9), plan)
			whole, s := runOn(t, simulated(0), job(t, opts...), nil)
			checkOpen(t, whole)
			if n := len(whole.Members); n != 7 || len(whole.Members[n-1].Workers) != 8 {
				t.Errorf("memberships %+v", whole.Members)
			}
			real, _ := runOn(t, &local.Net{}, job(t, opts...), nil)
			checkOpen(t, real)
			at := func(share float64) string { return seconds(share * whole.Final.Seconds).String() }
			seeds := 4
			if !patience.Long {
				seeds = 1
			}
			for seed := range seeds {
				faults := fmt.Sprintf("kill(w7,at=%s)+rejoin(w7,at=%s)+poisson(every=%s,of=[kill,rejoin,rejoin,pause],ranks=[w7,w8],for=2ms,until=1s,seed=%d)", at(0.2), at(0.3), at(0.1), seed+1)
				o, _ := runOn(t, faultyOf(t, 9, faults), job(t, opts...), nil)
				if checkOpen(t, o); t.Failed() {
					t.Fatal(faults)
				}
			}
			for at, st := range s.states {
				again, _ := runOn(t, simulated(seconds(float64(st.Ints["nanoseconds"])/1e9)), job(t, opts...), st)
				if checkOpen(t, again); t.Failed() {
					t.Fatalf("resumed at update %d", at)
				}
				if !patience.Long {
					break
				}
			}
		})
	}
}
