package store

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// others are copies of a run that is done, which change alters.
func others(t *testing.T, change ...func(*Run)) (out []*Run) {
	t.Helper()
	first := filtered(t, find(t), "codec=raw", "seed=1")[0]
	for _, f := range change {
		r, res := *first, *first.Result
		r.Result = &res
		f(&r)
		r.ID = r.Config.Hash()
		out = append(out, &r)
	}
	return out
}

func table(t *testing.T, runs []*Run) string {
	t.Helper()
	var b strings.Builder
	if err := Summary(&b, "markdown", runs); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Runs on two clocks, and on two networks, are in tables of their own, which say
// where they are; a target has a column where all agree on it.
func TestSummaryOfSeveralEnvironments(t *testing.T) {
	t.Parallel()
	local := func(r *Run) { r.Config.Net, r.Result.WallSeconds = "local", 7 }
	fast := func(r *Run) { r.Config.NetworkBandwidth *= 10 }
	same := func(*Run) {}
	if s := table(t, others(t, same, local)); !strings.Contains(s, "net=sim\n") || !strings.Contains(s, "| virtual time |") || !strings.Contains(s, "net=local\n") || !strings.Contains(s, "| wall time |") || !strings.Contains(s, "| 7.0s |") {
		t.Error(s)
	}
	if s := table(t, others(t, same, fast)); !strings.Contains(s, "network.bandwidth=10Gbps\n| run |") || strings.Contains(s, "| network.bandwidth |") {
		t.Error(s)
	}
	if s := table(t, others(t, same)); !strings.Contains(s, "note: Virtual times are on an ideal software stack (transport=ideal).\n") {
		t.Error(s)
	}
	if s := table(t, others(t, local)); strings.Contains(s, "transport=") {
		t.Error(s)
	}
	if s := table(t, others(t, same)); strings.Contains(s, "net=") || !strings.Contains(s, "| time to 0.95 | bytes to 0.95 |") || strings.Contains(s, "±") || !strings.Contains(s, "| 1.0× |") || !strings.Contains(s, "| 0.5× |") {
		t.Error(s)
	}
	if s := table(t, others(t, same, func(r *Run) { r.Config.Codec, r.Config.Target.Value = "bf16", 0.5 })); strings.Contains(s, "time to") || !strings.HasPrefix(s, "| codec | last accuracy |") {
		t.Error(s)
	}
}

// The figures of runs that were stopped are those of a part: they are in no mean
// and no row of the table or of a comparison, and named below.
func TestStoppedRunsAreInNoMean(t *testing.T) {
	t.Parallel()
	runs := others(t, func(*Run) {},
		func(r *Run) { r.Config.Seed, r.State, r.Result.BytesUp, r.Name = 2, Stopped, 1, "seed=2" },
		func(r *Run) { r.Config.Codec, r.State, r.Result.BytesUp, r.Name = "bf16", Stopped, 1, "codec=bf16" })
	if s := table(t, runs); !strings.Contains(s, "| raw | 0.9276 | 30 | 40.1 MB |") || strings.Contains(s, "| bf16 |") || !strings.Contains(s, "note: seed=2 is stopped at step 30 and in no mean") {
		t.Error(s)
	}
	// Of nothing but a stopped run, whose name says nothing, there is no table.
	if s := table(t, others(t, func(r *Run) { r.State, r.Name, r.Recipe = Stopped, "", "digits" })); strings.Contains(s, "|") || !strings.Contains(s, "note: digits is stopped at step 30") {
		t.Error(s)
	}
	f, err := FieldNamed("bytes")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Compare(Groups(runs), 0, f, record.Goal{Value: 0.9})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := c.Write(&b, "markdown", 0); err != nil {
		t.Fatal(err)
	}
	if len(c.Groups) != 1 || c.Groups[0].N != 1 || c.Groups[0].Of != 1 || c.Groups[0].To.Seconds.N != 1 || !strings.Contains(b.String(), "codec=bf16 is stopped") {
		t.Errorf("%d groups, %+v\n%s", len(c.Groups), c.Groups[0], b.String())
	}
}

// Rows with the same trajectories and the same values are one test, those with the
// baseline's are none; what differs in the field compared is a test of its own.
func TestOneTestPerTrajectory(t *testing.T) {
	t.Parallel()
	var changes []func(*Run)
	for _, x := range []struct {
		topology string
		off      float64
		sha      string
		seconds  float64
	}{{"ring", 0, "a", 1}, {"tree", 0, "a", 2}, {"halving", 0.1, "b", 3}, {"doubling", 0.1, "b", 4}, {"direct", 0.2, "c", 5}} {
		for seed := range 3 {
			changes = append(changes, func(r *Run) {
				r.Config.Topology, r.Config.Seed = x.topology, uint64(seed+1)
				noise := 0.01 * float64(seed*seed)
				r.Result.Values = record.Values{"accuracy": 0.5 + noise - (1+noise)*x.off}
				r.Result.ParamsSHA256, r.Result.VirtualSeconds = x.sha, x.seconds+noise
			})
		}
	}
	groups := Groups(others(t, changes...))
	p := func(name string) (own []float64, got []Against) {
		f, err := FieldNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range groups[1:] {
			own = append(own, stats.Paired(groups[0].BySeed(f), g.BySeed(f)).P)
		}
		return own, Test(groups[0], groups, f)
	}
	own, got := p("accuracy")
	if !got[1].Same || !math.IsNaN(got[1].P) || got[1].Mean != 0 {
		t.Errorf("the baseline's own trajectory: %+v", got[1])
	}
	want := stats.Holm([]float64{own[1], own[3]}) // a family of two
	if got[2].P != want[0] || got[3].P != want[0] || got[4].P != want[1] || got[2].Same {
		t.Errorf("p %v, %v and %v, want %v, twice the first", got[2].P, got[3].P, got[4].P, want)
	}
	own, got = p("seconds")
	for i, q := range stats.Holm(own) {
		if got[i+1].P != q || got[i+1].Same {
			t.Errorf("seconds: p %v, want %v of a family of four", got[i+1].P, q)
		}
	}
}

// Figures have the names of what is in them: other runs leave them alone, the same
// ones write them again.
func TestPlotsOfOtherRunsStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runs := filtered(t, find(t), "net=sim", "state=done")
	plot := func(runs []*Run) []string {
		files, err := Plot(dir, "quickstart", runs)
		if err != nil || len(files) != 2 {
			t.Fatal(files, err)
		}
		return files
	}
	first, other := plot(runs), plot(runs[:2])
	if first[0] == other[0] || plot([]*Run{runs[3], runs[1], runs[2], runs[0]})[0] != first[0] {
		t.Errorf("%s and %s", first[0], other[0])
	}
	if all, _ := filepath.Glob(filepath.Join(dir, "*.svg")); len(all) != 2 {
		t.Errorf("%v", all)
	}
	if b, err := os.ReadFile(first[0]); err != nil || !strings.Contains(string(b), "feedback(topk(keep=0.01))") {
		t.Error("no label", err)
	}
}

// No two labels are alike, though keys unknown here may be all that runs differ in.
func TestLabelsDiffer(t *testing.T) {
	t.Parallel()
	gs := Groups(others(t, func(r *Run) { r.Foreign = map[string]string{"later": "1"} }, func(r *Run) { r.Foreign = map[string]string{"later": "2"} }))
	if len(gs) != 2 || gs[0].Label == gs[1].Label || !strings.Contains(gs[0].Label, "later=1") {
		t.Errorf("%d groups, the first %q", len(gs), gs[0].Label)
	}
}

// Runs that differ in constants alone are told apart by these.
func TestLabelsNameConstants(t *testing.T) {
	t.Parallel()
	set := func(key, value string) func(*Run) {
		return func(r *Run) {
			if err := r.Config.Set(key, value); err != nil {
				t.Error(err)
			}
		}
	}
	gs := Groups(others(t, set("constants.share", "0.5"), set("constants.step", "1ms")))
	if len(gs) != 2 || gs[0].Label != "ideal(share=0.5)" || gs[1].Label != "ideal(step=1ms)" {
		t.Errorf("%d groups, labelled %q and %q", len(gs), gs[0].Label, gs[len(gs)-1].Label)
	}
}

// A record that tells more is not hidden by a younger one of the same configuration.
func TestLatestTellsMost(t *testing.T) {
	t.Parallel()
	runs := others(t, func(*Run) {}, func(r *Run) { r.Config.EvalEvery, r.Started = 0, r.Started.Add(time.Hour) }, func(r *Run) { r.Started = r.Started.Add(time.Minute) })
	if got := Latest(runs); len(got) != 1 || got[0] != runs[2] {
		t.Errorf("%d runs", len(got))
	}
	if runs[0].ID != runs[1].ID {
		t.Error("evaluations are part of the name")
	}
}

// Top-5 has a column where a run knows it, and none elsewhere.
func TestSummaryTellsTop5(t *testing.T) {
	t.Parallel()
	same := func(*Run) {}
	if s := table(t, others(t, same)); strings.Contains(s, "top-5") {
		t.Error(s)
	}
	if s := table(t, others(t, same, func(r *Run) {
		r.Config.Codec, r.Metrics = "bf16", []sgd.Metric{sgd.Accuracy, sgd.Loss, sgd.Top5}
		r.Result.Values = record.Values{"top5": 0.5678}
	})); !strings.Contains(s, "| top-5 |") || !strings.Contains(s, "| 0.5678 |") {
		t.Error(s)
	}
}
