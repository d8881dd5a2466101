package train_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/patience"
	"github.com/gradlab/gradlab/internal/rng"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/checkpoint"
	"github.com/gradlab/gradlab/sgd/train/record"
	"github.com/gradlab/gradlab/sgd/train/timing"
	"github.com/gradlab/gradlab/staleness"
)

var update = flag.Bool("update", false, "write testdata/runs.txt anew")

const goldenRuns = "testdata/runs.txt"

// run is what the golden file says of one run on the virtual cluster.
type run struct {
	params      string // SHA-256 of the parameters at the end
	told        string // of all that the observer was told: reports, evaluations, progress
	nanoseconds int64  // when the last rank ended
	up, down    uint64 // bytes, at the last evaluation
	checkpoints int
	keys        string // SHA-256 of the names in the last checkpoint
	state       string // and of all it holds
	frames      int    // that ranks sent
	witness     string // SHA-256 of all frames in the order in which they were sent
}

func (r run) String() string {
	return fmt.Sprintf("%s %s %d %d %d %d %s %s %d %s", r.params, r.told, r.nanoseconds, r.up, r.down, r.checkpoints, r.keys, r.state, r.frames, r.witness)
}

// toldEval is an evaluation in the form that rows are hashes of.
type toldEval struct {
	Step      int     `json:"step"`
	Samples   uint64  `json:"samples"`
	Epoch     float64 `json:"epoch"`
	Seconds   float64 `json:"seconds"`
	Accuracy  float64 `json:"accuracy"`
	Loss      float64 `json:"loss"`
	BytesUp   uint64  `json:"bytes_up"`
	BytesDown uint64  `json:"bytes_down"`
	Spread    float64 `json:"spread,omitempty"`
	Last      bool    `json:"last,omitempty"`
	Averaged  bool    `json:"averaged,omitempty"`
}

func toldOf(e record.Eval) toldEval {
	return toldEval{e.Step, e.Samples, e.Epoch, e.Seconds, e.Values["accuracy"], e.Values["loss"], e.BytesUp, e.BytesDown, e.Spread, e.Last, e.Averaged}
}

func short(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// arithmetic is a mark of how this machine rounds: sums of products may be fused or
// not. Bits of parameters can be compared only where it is the same.
func arithmetic(t *testing.T) string {
	m := model(t, "mlp(hidden=[24])", sgd.Shape{C: 1, H: 4, W: 4})
	var b sgd.Batch
	if err := (clusters{1000, sgd.Shape{C: 1, H: 4, W: 4}, 3, true}).Batch(sgd.Draw{N: 8}, &b); err != nil {
		t.Fatal(err)
	}
	params, grad := make([]float32, m.Layout().Size()), make([]float32, m.Layout().Size())
	m.Init(params, 1)
	if _, err := m.Grad(t.Context(), sgd.Pass{Params: params, Grad: grad, Scratch: m.NewScratch()}, b); err != nil {
		t.Fatal(err)
	}
	f32.Axpy(grad, float32(rng.New(1, "mark").Norm(0)), params)
	return short(f32.AppendBytes(nil, grad))
}

// recorded makes a run and notes what it comes to, and the names in its checkpoint.
func recorded(t *testing.T, opts []option) (r run, names []string) {
	t.Helper()
	return recordedFrom(t, opts, nil)
}

// resumed is recorded of the run that goes on from the first checkpoint of the one of opts.
func resumed(t *testing.T, opts []option) (r run, names []string) {
	t.Helper()
	_, s := runOn(t, simulated(0), job(t, opts...), nil)
	if len(s.states) == 0 {
		t.Fatal("it makes no checkpoint to go on from")
	}
	return recordedFrom(t, opts, s.states[slices.Min(slices.Collect(maps.Keys(s.states)))])
}

// recordedFrom is recorded of a run that goes on from a state; nil: from the start.
func recordedFrom(t *testing.T, opts []option, from *checkpoint.State) (r run, names []string) {
	t.Helper()
	j := job(t, opts...)
	s := &journal{}
	start := time.Duration(0)
	if from != nil {
		start = time.Duration(from.Ints["nanoseconds"])
	}
	net := &witness{Net: simulated(start), sum: sha256.New()}
	o := observeOn(t, net, j, from, s)
	r.frames, r.witness = net.n, hex.EncodeToString(net.sum.Sum(nil)[:8])
	r.params = "-"
	if o.SHA256 != "" {
		r.params = o.SHA256[:16]
	}
	slices.SortFunc(o.Reports, func(a, b record.RankReport) int { return cmp.Compare(a.Rank, b.Rank) })
	end := 0.0
	for _, p := range o.Reports {
		end = max(end, p.Seconds)
	}
	var evals []toldEval // nil where there are none
	for _, e := range s.evals {
		evals = append(evals, toldOf(e))
	}
	told, err := json.Marshal([]any{o.Reports, evals, s.progress, toldOf(o.Final)})
	if err != nil {
		t.Fatal(err)
	}
	r.told, r.nanoseconds = short(told), int64(math.Round(end*1e9))
	r.up, r.down = o.Final.BytesUp, o.Final.BytesDown
	r.checkpoints, r.keys, r.state = len(s.states), "-", "-"
	if s.last != nil {
		for _, keys := range [][]string{
			slices.Sorted(maps.Keys(s.last.Vectors)), slices.Sorted(maps.Keys(s.last.Bytes)), slices.Sorted(maps.Keys(s.last.Ints)),
		} {
			names = append(names, append(keys, "")...)
		}
		b, err := s.last.Encode(nil, j.Model.Layout())
		if err != nil {
			t.Fatal(err)
		}
		r.keys, r.state = short([]byte(strings.Join(names, "\n"))), short(b)
	}
	return r, names
}

// goldens visits the runs of the golden file, but for those of fingerprints: every mode with
// every policy that it takes, and what modes, codecs, correctors and nets of ranks have beside.
func goldens(t *testing.T, visit func(t *testing.T, opts []option)) {
	trials(t, visit)
	few := func(j *train.Job) {
		j.Updates, j.EvalEvery, j.CheckpointEvery = 24*each(j), 10*each(j), 6
	}
	list := func(group string, of map[string][]option) {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			opts := append(slices.Clone(of[name]), few)
			if !possible(opts) {
				opts = append(opts, func(j *train.Job) { j.CheckpointEvery = 0 })
			}
			t.Run(group+"/"+name, func(t *testing.T) { visit(t, opts) })
		}
	}
	list("roads", roads)
	list("asynchronous", asynchronous)
	named := map[string][]option{}
	for _, c := range apart {
		named[c.name] = c.opts
	}
	list("apart", named)
	named = map[string][]option{}
	for _, c := range rudra {
		named[c.name] = c.opts
	}
	list("rudra", named)
	priced := func(j *train.Job) { j.Timing.Codec, j.Timing.Apply = timing.FlatRate(1e8), 1e7 }
	weightless := func(j *train.Job) {
		j.Weightless = true
		few(j)
		j.EvalEvery, j.CheckpointEvery = 0, 0
	}
	more := map[string][]option{
		"order log":                {policy("asp"), func(j *train.Job) { j.LogOrder, j.Servers = true, 2 }},
		"priced":                   {policy("asp"), with("qsgd"), down("topk(keep=0.2)"), priced},
		"priced, overlap":          {with("qsgd"), down("fp16"), priced, func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 500} }},
		"priced, ring":             {mode("reduce"), with("feedback(topk(keep=0.1))"), priced},
		"priced, gossip":           {mode("adpsgd"), graph("ring"), with("fp16"), priced},
		"priced, tree":             {mode("rudra(tree=2)"), workers(5), with("qsgd"), priced},
		"partition":                {mode("reduce"), with("topk(keep=0.1)"), func(j *train.Job) { j.Overlap = train.Priority{Bytes: 500, Partition: 300} }},
		"keep in passing":          {func(j *train.Job) { n := 0; j.Due = func() bool { n++; return n%9 == 0 } }},
		"keep in passing, ring":    {mode("reduce"), func(j *train.Job) { n := 0; j.Due = func() bool { n++; return n%9 == 0 } }},
		"keep in passing, gossip":  {mode("dpsgd"), graph("ring"), func(j *train.Job) { n := 0; j.Due = func() bool { n++; return n%9 == 0 } }},
		"keep last":                {func(j *train.Job) { j.KeepLast = true }},
		"until":                    {func(j *train.Job) { j.Until.Value = 0.3 }},
		"until, gossip":            {mode("adpsgd"), graph("ring"), func(j *train.Job) { j.Until.Value = 0.3 }},
		"sandblaster":              blasting(8),
		"sandblaster, portions":    blasting(6, mode("sandblaster(portions=7,backup=2)")),
		"slow worker":              {mode("easgd(tau=3)"), policy("asp"), func(j *train.Job) { j.Timing.Slow = timing.Slow{{Count: 1, Factor: 5}} }},
		"weightless":               {weightless, policy("asp"), with("topk(keep=0.1,index=raw32)"), func(j *train.Job) { j.Servers = 2 }},
		"weightless, barrier":      {weightless, mode("server(barrier=true)"), func(j *train.Job) { j.Overlap = train.Buckets{Bytes: 500} }},
		"weightless, ksync":        {weightless, policy("ksync(k=2)")},
		"weightless, ring":         {weightless, mode("reduce"), with("feedback(powersgd(rank=2))")},
		"weightless, ring, cycle":  {weightless, mode("reduce"), fused(20*time.Microsecond, 600)},
		"weightless, ring, first":  {weightless, mode("reduce"), prior(500)},
		"weightless, gather":       {weightless, mode("gather"), with("topk(keep=0.1,index=raw32)")},
		"weightless, tree":         {weightless, mode("rudra(tree=2,threads=true)"), policy("asp"), workers(5)},
		"accumulate":               {mode("reduce"), with("accumulate(every=3)"), topology("tree")},
		"scatter":                  {mode("reduce"), with("scatter(topk(keep=0.1))")},
		"vote":                     {mode("reduce"), with("vote"), learning(0.005)},
		"ef21":                     {policy("asp"), with("ef21(topk(keep=0.3))")},
		"zero":                     {func(j *train.Job) { j.NonFinite = "zero" }, learning(1e20)},
		"adam, three shards, fp16": {optimizer("adam"), with("fp16"), down("bf16"), func(j *train.Job) { j.Servers = 3 }},
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		opts := more[name]
		switch {
		case strings.HasPrefix(name, "keep in passing"):
			opts = append([]option{few, func(j *train.Job) { j.CheckpointEvery = 0 }}, opts...)
		case name == "keep last" || strings.HasPrefix(name, "until"):
			opts = append([]option{func(j *train.Job) { j.Updates, j.EvalEvery = 24*4, 10 }}, opts...)
		case strings.HasPrefix(name, "sandblaster"):
			opts = append(opts, func(j *train.Job) { j.EvalEvery, j.CheckpointEvery = 3, 2 })
		case !strings.HasPrefix(name, "weightless"):
			opts = append([]option{few}, opts...)
		}
		t.Run("more/"+name, func(t *testing.T) { visit(t, opts) })
	}
}

// sized says whether a run's times and bytes are the same however a machine rounds.
func sized(j *train.Job) bool {
	raw := func(f compress.Family) bool { return compress.Spec(f) == "raw" }
	byLoss := strings.HasPrefix(staleness.Policies.Spec(j.Policy), "adasync")
	return raw(j.Codec) && raw(j.DownCodec) && !byLoss && !j.Until.Asked() && j.Timing.Codec == nil
}

// Runs come to what they came to when the golden file was written: parameters,
// virtual time, bytes, all that is told, and what a checkpoint holds. A machine that
// rounds in another way than the one it was written on compares names in
// checkpoints and, where sizes do not depend on data, times and bytes.
func TestGoldenRuns(t *testing.T) {
	t.Parallel()
	patience.Virtual(t)
	mark := "arithmetic " + arithmetic(t)
	want, same := map[string]string{}, true
	if b, err := os.ReadFile(goldenRuns); err == nil {
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		same = lines[0] == mark
		for _, line := range lines[1:] {
			name, said, _ := strings.Cut(line, "\t")
			want[name] = said
		}
	} else if !*update {
		t.Fatal(err)
	}
	var out []string
	judge := func(t *testing.T, opts []option, recorded func(*testing.T, []option) (run, []string)) {
		t.Helper()
		name := strings.TrimPrefix(t.Name(), "TestGoldenRuns/")
		got, names := recorded(t, opts)
		out = append(out, fmt.Sprintf("%s\t%s", name, got))
		said, ok := want[name]
		switch {
		case *update:
		case !ok:
			t.Errorf("%s does not know this run; write it anew with -update and look at the difference", goldenRuns)
		case same && said != got.String():
			t.Errorf("it came to\n%s\nand in %s to\n%s\nnames in its checkpoint:\n%s", got, goldenRuns, said, strings.Join(names, "\n"))
		case !same:
			s, g := strings.Fields(said), strings.Fields(got.String())
			if s[6] != g[6] {
				t.Errorf("other names in its checkpoint:\n%s", strings.Join(names, "\n"))
			}
			if sized(job(t, opts...)) && !slices.Equal(s[2:6], g[2:6]) {
				t.Errorf("nanoseconds, bytes and checkpoints are %v, not %v", g[2:6], s[2:6])
			}
		}
	}
	goldens(t, func(t *testing.T, opts []option) { judge(t, opts, recorded) })
	fingerprints(t, judge, func(name string, refused error) {
		got := "refused: " + refused.Error()
		out = append(out, name+"\t"+got)
		if said := want[name]; said != got && !*update {
			t.Errorf("%s: %s; %s says %q", name, got, goldenRuns, said)
		}
	})
	switch {
	case *update:
		slices.Sort(out)
		text := strings.Join(append([]string{mark}, out...), "\n") + "\n"
		if err := os.WriteFile(goldenRuns, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	case len(out) < len(want) && !t.Failed() && !strings.Contains(flag.Lookup("test.run").Value.String(), "/"):
		t.Errorf("%d runs of %s are no longer made", len(want)-len(out), goldenRuns)
	}
}
