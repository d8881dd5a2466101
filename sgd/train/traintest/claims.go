package traintest

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/timing"
)

// claims are the checks of what a mode claims, by name: each shows claims true, and,
// where it can be shown, that none is missing.
var claims = []check{
	{"ranks", showsRanks}, {"counts", showsCounts}, {"pushes", showsPushes}, {"points", showsPoints}, {"tree", showsTree}, {"beside", showsBeside},
	{"sums", showsSums}, {"conduct", showsConduct}, {"under way", showsUnderWay}, {"timeless", showsTimeless}, {"outlives", showsOutlives}, {"elastic", showsElastic}, {"admits", showsAdmits},
	{"weightless", showsWeightless}, {"steady", showsSteady}, {"codecs", showsCodecs}, {"refusals", showsRefusals}, {"quiet", showsNoGarbage},
}

// unseen says whether a claim cannot be seen: a mode whose workers share memory runs on
// no virtual cluster, as conduct shows.
func unseen(m train.Mode, claim string) bool {
	return m.Traits(impossible(func(j *train.Job) { j.Mode = m })).SharedMemory && !slices.Contains([]string{"conduct", "codecs", "refusals", "quiet"}, claim)
}

// showsRanks: reports say which rank is what, and who shows parameters is who has them.
func showsRanks(m train.Mode) error {
	r, err := tried(m, func(j *train.Job) { j.Servers = 2 })
	if err != nil {
		return err
	}
	w, world := r.job.Workers, r.job.World()
	if world != w+r.traits.Servers || len(r.reports) != world {
		return unkept("Servers %d, and %d ranks report, of %d workers", r.traits.Servers, len(r.reports), w)
	}
	var want []int
	for rank := range world {
		role := "worker"
		switch {
		case rank == world-1 && r.traits.Coordinator:
			role = "coordinator"
		case rank >= w:
			role = "server"
			want = append(want, rank)
		case rank < r.traits.Models, rank == 0 && r.traits.Servers+r.traits.Models == 0:
			want = append(want, rank)
		}
		if got := r.reports[rank].Role; got != role {
			return unkept("Servers %d and Coordinator %v: rank %d should be a %s, and reports as %s", r.traits.Servers, r.traits.Coordinator, rank, role, got)
		}
	}
	if r.traits.Models > w {
		return unkept("Models %d of %d workers", r.traits.Models, w)
	}
	var shown []int
	for _, e := range r.sent(func(e event) bool { return e.Tag == train.OnSnapshot.Tag() }) {
		shown = append(shown, e.rank)
	}
	slices.Sort(shown)
	if shown = slices.Compact(shown); !slices.Equal(shown, want) {
		return unkept("Models %d and Servers %d, so that ranks %v should show parameters; %v do", r.traits.Models, r.traits.Servers, want, shown)
	}
	return nil
}

// showsCounts: PerUpdate, by the gradients that were taken, or that shards applied.
func showsCounts(m train.Mode) error {
	r, err := tried(m, func(j *train.Job) { j.Servers = 2 })
	if err != nil {
		return err
	}
	_, all := r.passes()
	least := r.traits.PerUpdate * r.job.Updates
	most := least
	switch {
	case r.traits.PerUpdate < 1:
		return unkept("PerUpdate %d", r.traits.PerUpdate)
	case r.traits.Coordinator: // a line search takes more
		most = math.MaxInt
	case r.traits.Servers > 0:
		all = int(r.reports[r.job.Workers].Ledger.Applied) * max(1, r.traits.PerPush)
		if r.traits.Tree > 0 && r.traits.Beside { // sums are not taken apart
			most = math.MaxInt
		}
	case r.traits.Conduct == train.Free: // until all have heard of the end
		most += 2 * r.job.Workers
	}
	if all < least || all > most {
		return unkept("PerUpdate %d: %d gradients in %d updates, want %d", r.traits.PerUpdate, all, r.job.Updates, least)
	}
	return nil
}

// showsPushes: PerPush, by the gradients that a worker took and the pushes it made, and
// Acked, by whether it asked for parameters.
func showsPushes(m train.Mode) error {
	r, err := tried(m)
	if err != nil {
		return err
	}
	if r.traits.Servers == 0 || r.traits.Tree > 0 || r.traits.Coordinator {
		if r.traits.PerPush > 0 || r.traits.Acked {
			return unkept("PerPush or Acked, and no worker pushes to a server")
		}
		return nil
	}
	each, _ := r.passes()
	for w, took := range each {
		pushes := len(r.sent(func(e event) bool { return e.rank == w && e.Tag == train.OnPush.Tag() && int(e.To) == r.job.Workers }))
		if per := max(1, r.traits.PerPush); took < pushes*per || took > (pushes+1)*per {
			return unkept("PerPush %d: worker %d took %d gradients and pushed %d times", r.traits.PerPush, w, took, pushes)
		}
	}
	if asked := len(r.sent(func(e event) bool { return e.Tag == train.OnPull.Tag() })) > 0; asked != r.traits.Acked {
		return unkept("Acked %v, and workers ask for parameters: %v", r.traits.Acked, asked)
	}
	return nil
}

// showsPoints: without PerPush, workers compute on what servers sent, byte for byte;
// with one gradient a push they may, as they can fetch after each.
func showsPoints(m train.Mode) error {
	r, err := tried(m)
	if err != nil || r.traits.Servers == 0 {
		return err
	}
	own := map[uint64]bool{}
	for _, p := range r.points {
		own[p.params] = true
	}
	initial := make([]float32, r.job.Model.Layout().Size())
	r.job.Model.Init(initial, r.job.Seed)
	delete(own, markOf(initial))
	for _, e := range r.sent(func(e event) bool { return e.Kind == comm.Parameters }) {
		delete(own, maphash.Bytes(markSeed, e.body))
	}
	if apart := len(own) > 0; apart != (r.traits.PerPush > 0) && r.traits.PerPush != 1 {
		return unkept("PerPush %d, and workers compute at %d points that nobody sent them", r.traits.PerPush, len(own))
	}
	return nil
}

// showsTree: how many ranks push to one.
func showsTree(m train.Mode) error {
	r, err := tried(m, workers(9), rounds(4))
	if err != nil || r.traits.Servers == 0 {
		return err
	}
	from := map[int32]map[int]bool{}
	for _, e := range r.sent(func(e event) bool { return e.Kind == comm.Gradient }) {
		if from[e.To] == nil {
			from[e.To] = map[int]bool{}
		}
		from[e.To][e.rank] = true
	}
	if most := len(from[int32(r.job.Workers)]); r.traits.Tree == 0 && most != r.job.Workers {
		return unkept("no Tree, and of %d workers %d push to a server", r.job.Workers, most)
	}
	for to, ranks := range from {
		if r.traits.Tree > 0 && len(ranks) > r.traits.Tree {
			return unkept("Tree %d, and %d ranks push to rank %d", r.traits.Tree, len(ranks), to)
		}
	}
	return nil
}

// showsBeside: who goes on while it pulls takes two gradients at one point.
func showsBeside(m train.Mode) error {
	r, err := tried(m, policy("asp"), func(j *train.Job) { j.Timing.FLOPS, j.Timing.Law = 1e9, nil })
	if err != nil || r.traits.Servers == 0 || r.traits.PerPush > 0 || r.traits.Coordinator {
		if err == nil && r.traits.Beside {
			return unkept("Beside, which is for workers who compute on what servers sent")
		}
		return nil // it takes no policy asp
	}
	last, again := map[int]point{}, false
	for _, p := range r.points {
		again = again || last[p.worker].params == p.params
		last[p.worker] = p
	}
	if again != r.traits.Beside {
		return unkept("Beside %v, and a worker goes on at the same point: %v", r.traits.Beside, again)
	}
	return nil
}

// showsSums: all workers take the gradients of a step at one point; and by the bytes,
// what is summed, or gathered.
func showsSums(m train.Mode) error {
	r, err := tried(m)
	if err != nil {
		return err
	}
	alike := r.traits.Servers == 0
	at := map[int]uint64{}
	for _, p := range r.points {
		if have, ok := at[p.step]; ok && have != p.params {
			alike = false
		}
		at[p.step] = p.params
	}
	if alike != r.traits.Sums {
		return unkept("Sums %v, and without servers all workers compute at one point in every step: %v", r.traits.Sums, alike)
	}
	if !r.traits.Sums {
		if r.traits.Gathers {
			return unkept("Gathers, and not Sums")
		}
		return nil
	}
	w := r.job.Workers
	n, total := 4*r.job.Model.Layout().Size()*r.job.Updates, 0
	for _, rep := range r.reports {
		total += int(rep.Traffic.SentBytes[comm.Gradient])
	}
	if want := map[bool]int{false: 2 * (w - 1) * n, true: w * (w - 1) * n}[r.traits.Gathers]; total != want {
		return unkept("Gathers %v: %d bytes in all, want %d", r.traits.Gathers, total, want)
	}
	return nil
}

// showsConduct: beside a slow worker others make more steps if nobody waits, and as
// many if all are in step. Workers that share memory have none of the virtual cluster.
func showsConduct(m train.Mode) error {
	r, err := tried(m, func(j *train.Job) {
		j.Timing = timing.Timing{FLOPS: 1e7, Slow: timing.Slow{{Count: 1, Factor: 4}}}
	})
	if shared := m.Traits(impossible(func(j *train.Job) { j.Mode = m })).SharedMemory; shared || err != nil {
		if !shared || err == nil || !strings.Contains(err.Error(), "net=local") {
			return unkept("SharedMemory %v, and on the virtual cluster it ends with %v", shared, err)
		}
		return nil
	}
	each, _ := r.passes()
	uneven := r.traits.Servers == 0 && slices.Min(each) < slices.Max(each)
	if free := r.traits.Conduct == train.Free; free != uneven {
		return unkept("Conduct %d, and beside a slow worker they make %v steps", r.traits.Conduct, each)
	}
	if conducted := r.traits.Conduct != train.NotConducted; conducted != (r.traits.Models > 0) || conducted && r.traits.Servers > 0 {
		return unkept("Conduct %d, Models %d and Servers %d: workers show models where the observer conducts them and there is no server", r.traits.Conduct, r.traits.Models, r.traits.Servers)
	}
	return nil
}

// showsUnderWay: a run in step that is stopped after a step with nothing under way ends,
// resumed, at the instant at which it would have ended, and others do not, on a network
// that is slow enough.
func showsUnderWay(m train.Mode) error {
	stopped := func(j *train.Job) {
		polls := 0
		j.Stopping = func() bool { polls++; return polls > 1 }
	}
	var whole *trial
	late := 0.
	for _, bandwidth := range []float64{1e8, 2e6} {
		net := func(start int64) comm.Net {
			return &sim.Net{Start: time.Duration(start), Network: &sim.Fair{Bandwidth: bandwidth, Latency: 100 * time.Microsecond}}
		}
		var legs [3]*trial
		for i, opt := range []option{func(*train.Job) {}, stopped, func(*train.Job) {}} {
			j, err := fit(m, rounds(40), opt)
			if err != nil {
				return err
			}
			if i == 0 && j.StopRule(false, 0) != train.StopAtStep {
				return nil // nobody rests after steps
			}
			start, from := int64(0), (*checkpoint.State)(nil)
			if i == 2 {
				if from = legs[1].last; from == nil || legs[1].obs.Final.Step >= j.Updates {
					return fmt.Errorf("it did not stop")
				}
				start = from.Ints["nanoseconds"]
			}
			if legs[i], err = try(j, net(start), from); err != nil {
				return err
			}
		}
		whole = legs[0]
		if legs[2].obs.SHA256 != whole.obs.SHA256 {
			return fmt.Errorf("stopped after step %d and resumed it ends with other parameters", legs[1].obs.Final.Step)
		}
		late = max(late, math.Abs(legs[2].obs.Final.Seconds-whole.obs.Final.Seconds))
	}
	if whole.traits.UnderWay != (late > 0) {
		return unkept("UnderWay %v, and a run that is stopped and resumed ends %g s apart", whole.traits.UnderWay, late)
	}
	return nil
}

// showsTimeless: the same bits on two clusters that have nothing in common. That they
// differ where it is not claimed is not asked for.
func showsTimeless(m train.Mode) error {
	for _, p := range []string{"bsp", "asp", "softsync(n=2)"} {
		var hashes [2]string
		var claimed bool
		for i, cluster := range []func(*train.Job) comm.Net{swift, halting} {
			j, err := fit(m, policy(p), rounds(12))
			if err != nil {
				break // it does not take the policy
			}
			net := cluster(j)
			r, err := try(j, net, nil)
			if err != nil {
				return err
			}
			claimed, hashes[i] = r.job.Timeless(), r.obs.SHA256
		}
		if claimed && hashes[0] != hashes[1] {
			return unkept("Timeless with policy %s, and two clusters end with other parameters", p)
		}
	}
	return nil
}

// showsOutlives: a worker dies halfway.
func showsOutlives(m train.Mode) error {
	for _, p := range []string{"bsp", "asp"} {
		opts := []option{policy(p), rounds(12), workers(6), func(j *train.Job) { j.Servers = 2 }}
		j, err := fit(m, opts...)
		if err != nil {
			continue // it does not take the policy
		}
		whole, err := try(j, nil, nil)
		if err != nil {
			return err
		}
		outlived, last := 0, error(nil)
		for rank := range j.Workers {
			j, err := fit(m, opts...)
			if err != nil {
				return err
			}
			r, err := try(j, dying(rank, whole.obs.Final.Seconds/2), nil)
			if err == nil && r.obs.Final.Step == j.Updates && len(r.obs.Dead) == 1 {
				outlived++
			}
			last = err
		}
		if claimed := whole.traits.Outlives; claimed != (outlived > 0) {
			return unkept("Outlives %v with policy %s, and of %d runs in which a worker died %d went on; the last: %v", claimed, p, j.Workers, outlived, last)
		}
	}
	return nil
}

// showsWeightless: times and bytes without weights are those with them.
func showsWeightless(m train.Mode) error {
	var seen [2]*trial
	for i, bare := range []bool{false, true} {
		j, err := fit(m, rounds(12), func(j *train.Job) { j.Weightless, j.EvalEvery = bare, 0 })
		if bare && err != nil {
			if seen[0].traits.Weightless {
				return unkept("Weightless, and refuses it: %v", err)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if seen[i], err = try(j, nil, nil); err != nil {
			return err
		}
	}
	if n := len(seen[1].points); n > 0 {
		return unkept("Weightless, and takes %d gradients all the same", n)
	}
	a, b := seen[0].obs.Final, seen[1].obs.Final
	if a.Seconds != b.Seconds || a.BytesUp != b.BytesUp || a.BytesDown != b.BytesDown {
		return unkept("Weightless: %v s, %d and %d bytes; with weights %v s, %d and %d", b.Seconds, b.BytesUp, b.BytesDown, a.Seconds, a.BytesUp, a.BytesDown)
	}
	return nil
}

// showsSteady: as many updates take as long, at first and later. Where nobody waits it
// takes more updates to see that.
func showsSteady(m train.Mode) error {
	var claimed, together bool
	worst := map[int]float64{}
	for _, n := range []int{1, 2, 4, 40} {
		var took [4]float64
		for i := range 3 {
			j, err := fit(m, rounds(n*(i+1)), func(j *train.Job) { j.Timing = timing.Timing{FLOPS: 1e8} })
			if err != nil {
				return err
			}
			r, err := try(j, &sim.Net{Network: &sim.Fair{Bandwidth: 2e7, Latency: 100 * time.Microsecond}}, nil)
			if err != nil {
				return err
			}
			claimed, took[i+1] = r.traits.Steady, r.obs.Final.Seconds
			together = r.traits.Conduct != train.Free && j.Policy.Traits(j.Workers).Synchronous
		}
		for i := range 2 {
			worst[n] = max(worst[n], math.Abs((took[i+2]-took[i+1])/took[1]-1))
		}
	}
	most := max(worst[1], worst[2], worst[4], worst[40])
	switch off := worst[40]; {
	case claimed && together && max(off, worst[4]) > 0.1, claimed && off > 0.15:
		return unkept("Steady, and the first updates take %.0f %% more or less than later ones", 100*max(off, worst[4]))
	case !claimed && most < 0.1:
		return unkept("not Steady, and all updates take alike")
	}
	return nil
}

// kinds are codecs of each kind that a mode may take.
var kinds = map[train.Takes][]string{
	train.TakesPlain: {"raw"}, train.TakesCasts: {"fp16", "bf16"}, train.TakesForgetful: {"topk(keep=0.3)", "qsgd(bits=4)"},
	train.TakesAll: {"feedback(topk(keep=0.3))", "ef21(topk(keep=0.3))"},
}

// showsCodecs: what it takes is taken, what it does not is refused with its reason, and
// with what is taken it learns at least a quarter of what it learns with raw.
func showsCodecs(m train.Mode) error {
	t := m.Traits(impossible(func(j *train.Job) { j.Mode = m }))
	first := math.Log(10) // the loss of parameters that know nothing
	plain := &trial{}
	if !t.SharedMemory {
		var err error
		if plain, err = tried(m, rounds(40), rate(0.02)); err != nil {
			return err
		}
	}
	for kind, codecs := range kinds {
		for _, text := range codecs {
			for key, c := range map[string]struct {
				takes train.Takes
				set   option
			}{"codec": {t.Codec, with(text)}, "down_codec": {t.Down, down(text)}} {
				if key == "down_codec" && t.Servers == 0 {
					continue
				}
				j, err := fit(m, c.set, rounds(40), rate(0.02))
				switch {
				case kind > c.takes && err == nil:
					return unkept("to take %v as %s, and takes %s", c.takes, key, text)
				case kind > c.takes && (!strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), t.Refuses[key]) || t.Refuses[key] == ""):
					return fmt.Errorf("refuses %s %s without its reason: %w", key, text, err)
				case kind > c.takes || t.SharedMemory:
					continue
				case err != nil:
					return unkept("to take %v as %s: %s: %v", c.takes, key, text, err)
				}
				r, err := try(j, nil, nil)
				if err != nil {
					return fmt.Errorf("%s %s: %w", key, text, err)
				}
				if is, raw := first-r.obs.Final.Values["loss"], first-plain.obs.Final.Values["loss"]; !(is > raw/4) {
					return unkept("to take %v as %s, and with %s the loss falls by %.3g, with raw by %.3g", c.takes, key, text, is, raw)
				}
			}
		}
	}
	return nil
}

// showsRefusals: a key is refused, with the reason and what to set, if the mode says so;
// overlap is refused where it is not heeded.
func showsRefusals(m train.Mode) error {
	set := map[string][]option{
		"optimizer": {optimizer("momentum")}, "policy": {policy("asp")}, "corrector": {corrector("alpha_tau")},
		"overlap": {func(j *train.Job) { j.Overlap = train.Buckets{} }}, "gap": {func(j *train.Job) { j.Gap = true }},
		"order_log": {func(j *train.Job) { j.LogOrder = true }}, "checkpoint_every": {func(j *train.Job) { j.CheckpointEvery = 6 }},
	}
	t := m.Traits(impossible(func(j *train.Job) { j.Mode = m }))
	for _, key := range train.Refusals() {
		if set[key] == nil {
			return fmt.Errorf("no value of %s to try", key)
		}
		_, err := fit(m, set[key]...)
		why, refused := t.Refuses[key]
		switch {
		case refused && why == "":
			return fmt.Errorf("refuses %s for no reason", key)
		case refused && (err == nil || !strings.Contains(err.Error(), why) && !strings.Contains(err.Error(), "policy") && !strings.Contains(err.Error(), "corrector")):
			return unkept("to refuse %s: %v", key, err)
		case !refused && err != nil && t.Servers > 0 && key != "policy" && key != "corrector":
			return fmt.Errorf("refuses %s, and Refuses does not say so: %w", key, err)
		}
	}
	if _, refused := t.Refuses["overlap"]; refused == slices.Contains(t.Heeds, "overlap") {
		return unkept("to heed overlap: %v, and to refuse it: %v", !refused, refused)
	}
	for key := range t.Refuses {
		if key != "codec" && key != "down_codec" && !slices.Contains(train.Refusals(), key) {
			return fmt.Errorf("refuses %q, which is none of %v", key, train.Refusals())
		}
	}
	for _, choice := range t.Heeds {
		if !slices.Contains(train.Choices(), choice) {
			return fmt.Errorf("heeds %q, which is none of %v", choice, train.Choices())
		}
	}
	return nil
}

// showsNoGarbage: traits are asked for in every step.
func showsNoGarbage(m train.Mode) error {
	j := impossible(func(j *train.Job) { j.Mode = m })
	if n := testing.AllocsPerRun(10, func() { m.Traits(j) }); n > 0 {
		return fmt.Errorf("Traits allocates %v times", n)
	}
	m.Traits(&train.Job{Mode: m}) // it must do with an empty job
	return nil
}
