package train_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/gossip"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/replicas"
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/sgd/train/wire"
	"github.com/gradlab/gradlab/staleness"
)

// swift and halting are two clusters that have nothing in common: network, speed of
// devices, and the law by which steps take unlike times.
func swift(j *train.Job) comm.Net {
	j.Timing = timing.Timing{FLOPS: 1e9, Law: timing.Lognormal{Sigma: 0.2}}
	return &sim.Net{Network: &sim.Fair{Bandwidth: 1e8, Latency: 100 * time.Microsecond}}
}

func halting(j *train.Job) comm.Net {
	j.Timing = timing.Timing{FLOPS: 3e7, Law: timing.Exponential{}, Codec: timing.FlatRate(1e8), Apply: 1e7, Slow: timing.Slow{{Count: 1, Factor: 4}, {Sigma: 0.5}}}
	return &sim.Net{Network: &sim.FIFO{Bandwidth: 3e6, Latency: 2 * time.Millisecond}}
}

// journal is a sink that keeps what it hears.
type journal struct {
	sink
	progress []record.Progress
}

func (s *journal) Progress(p record.Progress) { s.progress = append(s.progress, p) }

func on(t *testing.T, net func(*train.Job) comm.Net, j *train.Job) (*train.Observer, *journal) {
	t.Helper()
	s := &journal{}
	n := net(j)
	j.Prepare()
	return observeOn(t, n, j, nil, s), s
}

// weightless leaves the content of a job out.
func weightless(sizes *wire.Sizes) option {
	return func(j *train.Job) { j.Weightless, j.Sizes = true, sizes }
}

// trials is every mode with every policy that it takes, and ways to set them up.
func trials(t *testing.T, visit func(t *testing.T, opts []option)) {
	combined(map[string][]option{
		"plain":   {func(j *train.Job) { j.CheckpointEvery = 7 }},
		"overlap": {lapped},
		"cycle":   {func(j *train.Job) { j.Overlap = train.Fusion{Cycle: 50 * time.Microsecond} }},
		"prior":   {prior(500)},
	}, func(pair, way string, opts []option, refused error) {
		if refused == nil {
			t.Run(pair+"/"+way, func(t *testing.T) { visit(t, opts) })
		}
	})
}

// lapped lets gradients leave beside the pass, in parts where the mode cuts pushes, to two servers.
func lapped(j *train.Job) {
	j.Overlap, j.Servers = train.Buckets{Bytes: 500}, 2
	if j.Mode.Traits(j).PerPush > 0 {
		j.Overlap = train.Buckets{}
	}
}

// combined visits every mode with every policy in all ways: the pair of both, the name of the
// way, and why the virtual cluster cannot run the job, if it cannot.
func combined(ways map[string][]option, visit func(pair, way string, opts []option, refused error)) {
	for _, mode := range train.Modes.Names() {
		m, _ := train.Modes.Proto(mode)
		for _, policy := range staleness.Policies.Names() {
			p, _ := staleness.Policies.Proto(policy)
			pair := train.Modes.Spec(m) + "/" + staleness.Policies.Spec(p)
			for _, way := range slices.Sorted(maps.Keys(ways)) {
				opts := append([]option{func(j *train.Job) {
					j.Mode, j.Policy, j.Updates, j.EvalEvery = m, p, 24, 10
					_, easgd := m.(replicas.EASGD)
					if _, ruled := m.Traits(j).Refuses["optimizer"]; easgd || ruled {
						optimizer("sgd")(j)
					}
					if _, choco := m.(gossip.Choco); choco {
						with("topk(keep=0.2)")(j)
					}
					switch m.(type) {
					case gossip.SGP, gossip.AGP:
						graph("one_peer")(j)
					case gossip.ADPSGD:
						graph("pairs")(j)
					default:
						graph("ring")(j)
					}
				}}, ways[way]...)
				visit(pair, way, opts, refusal(opts))
			}
		}
	}
}

// refusal is why a job cannot run on a virtual cluster; nil: it can.
func refusal(opts []option) error {
	j := unchecked(opts...)
	if err := j.Check(); err != nil {
		return err
	}
	if j.Mode.Traits(j).SharedMemory {
		return train.ErrNotShared
	}
	return nil
}

// possible says whether a job can run on a virtual cluster.
func possible(opts []option) bool { return refusal(opts) == nil }

// A job that claims to be timeless has the same parameters on two clusters that
// have nothing in common; of the others some have not, or the claim would be idle.
func TestTimeless(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	claimed, differ := map[string]bool{}, map[string]bool{}
	trials(t, func(t *testing.T, opts []option) {
		a, sa := on(t, swift, job(t, opts...))
		b, sb := on(t, halting, job(t, opts...))
		mode := train.Modes.Spec(a.Job.Mode)
		if same := a.SHA256 == b.SHA256; a.Job.Timeless() {
			claimed[mode] = true
			if !same {
				t.Error("it claims to be timeless, and the clusters end with different parameters")
			}
			if len(sa.evals) != len(sb.evals) {
				t.Fatalf("%d and %d evaluations", len(sa.evals), len(sb.evals))
			}
			for i, e := range sa.evals {
				if o := sb.evals[i]; e.Values["accuracy"] != o.Values["accuracy"] || e.Values["loss"] != o.Values["loss"] || e.Step != o.Step {
					t.Errorf("evaluations %+v and %+v", e, o)
				}
			}
		} else if !same {
			differ[mode] = true
		}
	})
	if len(claimed) < 8 || len(differ) < 4 {
		t.Errorf("%d modes claim it, %d depend on time", len(claimed), len(differ))
	}
}

// codecs whose payloads have sizes that depend on the data, or that exchange in
// ways of their own.
var sizedCodecs = []string{
	"raw", "bf16", "qsgd(bits=4)", "feedback(topk(keep=0.1))", "threshold", "entropy(qsgd(bits=2))", "dgc(keep=0.1,warmup=1)",
	"strom(tau=0.01)", "feedback(powersgd(rank=2))", "intsum", "cltk(keep=0.1)", "sketch(keep=0.05,rows=1,width=2)", "scatter(topk(keep=0.1))", "adacomp", "sidco(keep=0.1)",
}

// billed is reports without what they tell of themselves: frames for the observer
// hold losses and states as text, of some length or other, and parameters only with
// weights, and nobody pays for them.
func billed(all []record.RankReport) []record.RankReport {
	for i := range all {
		all[i].Gap = nil // a priced run takes over what was measured
		all[i].Traffic.SentBody[comm.Report], all[i].Traffic.SentFrames[comm.Report] = 0, 0
	}
	return all
}

// A weightless job with the sizes of another takes, on another cluster, the times and bytes of the job itself
// there: to the nanosecond and the byte, in every report, at every evaluation.
func TestWeightlessTakesSizes(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	compare := func(t *testing.T, opts []option) {
		source := job(t, opts...)
		if !source.Timeless() {
			return
		}
		source.Sizes = &wire.Sizes{}
		on(t, swift, source)
		var file bytes.Buffer
		if _, err := source.Sizes.WriteTo(&file); err != nil {
			t.Fatal(err)
		}
		sizes, err := wire.ReadSizes(&file)
		if err != nil {
			t.Fatal(err)
		}
		want, ws := on(t, halting, job(t, opts...))
		got, gs := on(t, halting, job(t, append(opts, weightless(sizes))...))

		bare := func(e record.Eval) record.Eval { e.Values, e.Spread, e.Averaged = nil, 0, false; return e }
		if !reflect.DeepEqual(bare(got.Final), bare(want.Final)) {
			t.Errorf("ends as %+v, want %+v", got.Final, want.Final)
		}
		if len(gs.evals) != len(ws.evals) || len(gs.progress) != len(ws.progress) {
			t.Fatalf("%d evaluations and %d reports, want %d and %d", len(gs.evals), len(gs.progress), len(ws.evals), len(ws.progress))
		}
		for i := range gs.evals {
			if !reflect.DeepEqual(bare(gs.evals[i]), bare(ws.evals[i])) {
				t.Errorf("evaluation %+v, want %+v", gs.evals[i], ws.evals[i])
			}
		}
		for i := range gs.progress {
			g, w := &gs.progress[i], &ws.progress[i]
			g.Loss, g.GapMean, g.NoiseScale, g.NoiseTrace, g.NoiseSquare = w.Loss, w.GapMean, w.NoiseScale, w.NoiseTrace, w.NoiseSquare
			if !reflect.DeepEqual(gs.progress[i], ws.progress[i]) {
				t.Errorf("report %+v, want %+v", gs.progress[i], ws.progress[i])
			}
		}
		a, _ := json.Marshal(billed(got.Reports))
		b, _ := json.Marshal(billed(want.Reports))
		if !bytes.Equal(a, b) {
			t.Errorf("ranks report\n%s, want\n%s", a, b)
		}
	}
	trials(t, compare)
	for _, m := range []string{"server", "rudra(tree=2)", "reduce", "gather", "localsgd(h=3)", "choco(gamma=0.4)", "easgd(tau=2)"} {
		for _, c := range sizedCodecs {
			opts := []option{mode(m), with(c), graph("ring"), func(j *train.Job) { j.Updates, j.EvalEvery, j.CheckpointEvery = 12, 5, 5 }}
			if m == "easgd(tau=2)" {
				opts = append(opts, optimizer("sgd"))
			}
			if !possible(opts) {
				continue
			}
			t.Run(m+"/"+c, func(t *testing.T) { compare(t, opts) })
		}
	}
	for name, opts := range map[string][]option{
		"down":     {mode("server"), with("topk(keep=0.1)"), down("topk(keep=0.3)"), func(j *train.Job) { j.Servers = 2 }},
		"moments":  {mode("localsgd(h=3,inner=average)"), with("topk(keep=0.1)"), optimizer("adam")},
		"gaps":     {mode("server"), func(j *train.Job) { j.Gap = true }},
		"buffers":  {mode("reduce"), with("intsum"), normal(0), func(j *train.Job) { j.Updates = 6 }},
		"noise":    {mode("reduce"), prior(500), func(j *train.Job) { j.NoiseScale = true }},
		"averaged": {mode("reduce"), with("scatter(topk(keep=0.1))"), func(j *train.Job) { j.EMA = 0.9 }},
	} {
		t.Run(name, func(t *testing.T) { compare(t, opts) })
	}
}

// A record of sizes that is torn or damaged is an error, and so is one that ends
// before the run does.
func TestSizesRefuse(t *testing.T) {
	t.Parallel()
	opts := []option{with("topk(keep=0.1)"), func(j *train.Job) { j.Updates = 10 }}
	j := job(t, opts...)
	j.Sizes = &wire.Sizes{}
	on(t, swift, j)
	var file bytes.Buffer
	if _, err := j.Sizes.WriteTo(&file); err != nil || j.Sizes.Len() == 0 || !j.Sizes.Whole() {
		t.Fatal(j.Sizes.Len(), err)
	}
	for n := range file.Len() {
		if _, err := wire.ReadSizes(bytes.NewReader(file.Bytes()[:n])); err == nil {
			t.Fatalf("the first %d of %d bytes are taken", n, file.Len())
		}
	}
	for _, sizes := range []*wire.Sizes{{}, j.Sizes} {
		long := job(t, append(opts, func(j *train.Job) { j.Updates = 11 }, weightless(sizes))...)
		programs, err := long.Programs(&train.Observer{Job: long, Sink: &sink{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := simulated(0).Run(context.Background(), programs); err == nil || !strings.Contains(err.Error(), "ends before the run does") {
			t.Errorf("a run beyond its record: %v", err)
		}
	}
}
