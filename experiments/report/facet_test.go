package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// seeded are three runs of a codec, whose accuracies lie around one.
func seeded(codec string, accuracy float64, change func(*store.Run)) (out []*store.Run) {
	for i, noise := range []float64{0, 0.01, 0.03} {
		r := trial(codec, uint64(i)+1, store.Done, accuracy*(1+noise))
		r.Result.ParamsSHA256 = fmt.Sprint(codec, r.Config.Seed)
		r.Result.Chance, r.Result.TestSamples = 0.1, 1000
		change(r)
		r.ID = r.Config.Hash()
		out = append(out, r)
	}
	return out
}

func keep(*store.Run) {}

// Networks are facets: what is true on one is neither hidden nor doubled by another.
func TestOneFrontATableAndAFamilyForEachNetwork(t *testing.T) {
	t.Parallel()
	var runs []*store.Run
	for _, codec := range []string{"raw", "bf16"} {
		runs = append(runs, seeded(codec, map[string]float64{"raw": 0.9, "bf16": 0.74}[codec], keep)...)
	}
	alone := mustNew(t, runs).Tasks[0]
	for _, codec := range []string{"raw", "bf16"} {
		runs = append(runs, seeded(codec, map[string]float64{"raw": 0.9, "bf16": 0.74}[codec], func(r *store.Run) {
			r.Config.NetworkBandwidth *= 10
			r.Result.VirtualSeconds /= 10
		})...)
	}
	r := mustNew(t, runs)
	if len(r.Tasks) != 2 || r.Tasks[0].Facet != "network.bandwidth=1Gbps" || r.Tasks[1].Facet != "network.bandwidth=10Gbps" {
		t.Fatalf("%d tasks", len(r.Tasks))
	}
	for _, task := range r.Tasks {
		if len(task.Configs) != 2 || strings.Join(task.Varying, " ") != "codec" || task.Configs[1].Behind.P != alone.Configs[1].Behind.P || !task.Configs[0].Front {
			t.Errorf("%s: configurations differ in %v, p %v; alone %v", task.Facet, task.Varying, task.Configs[1].Behind.P, alone.Configs[1].Behind.P)
		}
	}
	page := html(t, r)
	for _, want := range []string{"<h2>mlp(hidden=[16]) on digits, virtual time, network.bandwidth=10Gbps</h2>", "Where: ", "network.latency=50µs"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if box := r.Box(); len(box.Rows) != 2 || box.Rows[1].Where != "network.bandwidth=10Gbps" || !strings.Contains(page, `<a href="#`+box.Rows[1].Slug+`">network.bandwidth=10Gbps</a></th>`) {
		t.Errorf("it begins with %+v", box)
	}
}

// What learned nothing, and one worker that sends nothing, compete for nothing,
// however soon they are there.
func TestWhatIsNoChoice(t *testing.T) {
	t.Parallel()
	runs := seeded("raw", 0.9, keep)
	runs = append(runs, seeded("bf16", 0.9, func(r *store.Run) { r.Result.BytesUp, r.Result.BytesDown = r.Result.BytesUp/2, r.Result.BytesDown/2 })...)
	runs = append(runs, seeded("sign", 0.11, func(r *store.Run) { r.Result.VirtualSeconds, r.Result.BytesUp = 1e-6, 1 })...)
	runs = append(runs, seeded("raw", 0.95, func(r *store.Run) {
		r.Config.Workers, r.Config.Mode = 1, "reduce"
		r.Result.BytesUp, r.Result.BytesDown, r.Result.VirtualSeconds = 0, 0, 1e-3
	})...)
	task := mustNew(t, runs).Tasks[0]
	for _, c := range task.Configs {
		want := map[string]string{"raw": "true false false", "bf16": "true false false", "sign": "false true false", "one worker alone": "false false true"}[c.Label]
		if got := fmt.Sprint(c.Front, c.AtChance, c.Alone); got != want {
			t.Errorf("%s: on the front, at chance, alone: %s, want %s", c.Label, got, want)
		}
	}
	answer := strings.Join(task.Answer(), "\n")
	for _, c := range task.Configs { // all copies of one run, which is as soon with one worker as with four
		if c.Alone {
			c.ToSeconds.Median /= 2
		}
	}
	if s := task.Answer()[1]; !strings.Contains(s, "istribution pays") || !strings.Contains(s, "one worker alone takes ") {
		t.Error(s)
	}
	if strings.Contains(strings.Split(answer, "\n")[0], "one worker") {
		t.Errorf("one worker alone is the answer: %s", answer)
	}
	for _, want := range []string{"Most accurate, at the best evaluation: ", "To measure against: one worker alone, ", "No better than always answering the same (10 %, up to 11.86 % by luck), and so no choice: sign"} {
		if !strings.Contains(answer, want) {
			t.Errorf("no %q in\n%s", want, answer)
		}
	}
	if strings.Contains(answer, "Most accurate, at the best evaluation: one worker") {
		t.Error(answer)
	}
	lines := 0
	for _, s := range task.Sections[0].Panels {
		for _, x := range s.Series {
			if strings.HasSuffix(x.Name, "one worker alone") {
				lines++
				if len(x.X) != 2 || x.Y[0] != x.Y[1] || x.Marks {
					t.Errorf("%+v is no line", x)
				}
			}
		}
	}
	if lines != 3 {
		t.Errorf("%d lines to measure against", lines)
	}
}

// Where everything is at chance, nothing is on the front for being there first.
func TestAllAtChance(t *testing.T) {
	t.Parallel()
	runs := append(seeded("raw", 0.1, keep), seeded("bf16", 0.11, keep)...)
	task := mustNew(t, runs).Tasks[0]
	for _, c := range task.Configs {
		if c.Front {
			t.Errorf("%s is on the front", c.Label)
		}
	}
	if s := strings.Join(task.Answer(), " "); strings.Contains(s, "Most accurate") || strings.Contains(s, "Pareto") || !strings.Contains(s, "and so no choice: bf16 and raw") {
		t.Error(s)
	}
}

// Runs with the same trajectories are one test, and told as the same.
func TestSameTrajectoriesAreOneTest(t *testing.T) {
	t.Parallel()
	two := append(seeded("raw", 0.9, keep), seeded("bf16", 0.897, keep)...)
	want := mustNew(t, two).Tasks[0].Configs[1].Behind.P
	again := func(codec string, accuracy float64) []*store.Run {
		return seeded(codec, accuracy, func(r *store.Run) { r.Config.Topology = "tree" })
	}
	task := mustNew(t, append(two, append(again("raw", 0.9), again("bf16", 0.897)...)...)).Tasks[0]
	tests := 0
	for _, c := range task.Configs {
		if c.Behind.P == want {
			tests++
		}
	}
	if len(task.Configs) != 4 || tests != 2 {
		t.Errorf("%d of %d configurations have p %v", tests, len(task.Configs), want)
	}
	if s := strings.Join(task.Answer(), " "); !strings.Contains(s, "learns the same to the last bit") {
		t.Error(s)
	}
}

// Another target than the runs aimed at is looked up in their evaluations.
func TestTargetOfTheReport(t *testing.T) {
	t.Parallel()
	r, err := New(sample, record.Goal{Value: 0.05})
	if err != nil {
		t.Fatal(err)
	}
	own := mustNew(t, sample).Tasks[0]
	task := r.Tasks[0]
	if task.Target.Value != 0.05 || own.Target.Value != 0.1 || !strings.Contains(task.Answer()[0], "5 %") || task.Configs[0].ToSeconds.Reached != 2 {
		t.Errorf("target %v: %s", task.Target, task.Answer()[0])
	}
	if want := task.Configs[0].Trials[0].Curve.Evals[0].Seconds; task.Configs[0].ToSeconds.Min > want {
		t.Errorf("reached in %v, first evaluated at %v", task.Configs[0].ToSeconds.Min, want)
	}
	dir := t.TempDir()
	files, err := r.Figures(dir)
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "curves.svg")); err != nil || !strings.Contains(string(b), "target 5 %") {
		t.Error("the target is not in the figures", err)
	}
}

// Whether several workers are sooner than one alone is said by the seeds that there are,
// with the speed-up of each configuration over it.
func TestWhetherDistributionPays(t *testing.T) {
	t.Parallel()
	for want, took := range map[string][]float64{"Distribution pays at": {3, 3.1, 3.05}, "Distribution does not pay at": {0.3, 0.31, 0.3}, "That distribution pays at": {0.9, 1.2, 1}} {
		runs := seeded("raw", 0.9, func(r *store.Run) {
			r.Config.Weightless, r.Config.Target = true, record.Goal{}
			r.Result.VirtualSeconds = 1 + 0.01*float64(r.Config.Seed)
		})
		runs = append(runs, seeded("raw", 0.9, func(r *store.Run) {
			r.Config.Workers, r.Config.Mode, r.Config.Weightless = 1, "reduce", true
			r.Result.BytesUp, r.Result.BytesDown, r.Result.VirtualSeconds = 0, 0, took[r.Config.Seed-1]
		})...)
		report := mustNew(t, runs)
		task := report.Tasks[0]
		if s := strings.Join(task.Answer(), " "); !strings.Contains(s, want) || !strings.Contains(s, "network.bandwidth=1Gbps") {
			t.Errorf("no %q in %s", want, s)
		}
		if up := task.SpeedUp(task.Configs[0]); up < 0.25 || up > 3.1 || task.SpeedUp(task.Configs[1]) != 1 {
			t.Errorf("a speed-up of %v and %v", up, task.SpeedUp(task.Configs[1]))
		}
		if page := html(t, report); !strings.Contains(page, ">speed-up</th>") {
			t.Error("the page has no speed-ups")
		}
	}
}
