package report

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Runs that are compared by their loss: less is better, everywhere.
func TestByLoss(t *testing.T) {
	t.Parallel()
	var runs []*store.Run
	for seed := range uint64(3) {
		bit := float64(seed) / 1000
		for codec, loss := range map[string]float64{"raw": 0.5, "bf16": 0.7, "sign": 1.2} {
			r := trial(codec, seed, store.Done, 0.9-loss/10)
			r.Config.Metric, r.Config.Target = "loss", record.Goal{}
			scoring(r, sgd.Loss, loss+bit)
			if codec == "sign" { // the most accurate one has the largest loss
				scoring(r, sgd.Accuracy, 0.99)
			}
			runs = append(runs, r)
		}
	}
	report := mustNew(t, runs)
	task := report.Tasks[0]
	answer := strings.Join(task.Answer(), " ")
	for _, want := range []string{"Least loss, at the best evaluation: codec=raw", "Pareto front of time, bytes and least loss", "--target 'loss<=1.9' asks for one", "0.501"} {
		if !strings.Contains(answer, strings.ReplaceAll(want, "codec=raw", task.best().Label)) {
			t.Errorf("no %q in %s", want, answer)
		}
	}
	if task.best().Best.Max > 0.51 || task.Configs[0] != task.best() || task.Target.Metric != sgd.Loss {
		t.Errorf("best is %s, of %v", task.best().Label, task.best().Score)
	}
	for _, c := range task.Configs {
		if c.AtChance {
			t.Errorf("%s is at chance", c.Label)
		}
	}
	page := html(t, report)
	for _, want := range []string{">last loss</th>", "behind the best</th>", "loss over updates", "best test loss"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s on the page", want)
		}
	}
	if strings.Contains(page, "Most accurate") {
		t.Error("the page speaks of accuracy")
	}
	r, err := New(runs, record.Goal{Metric: sgd.Loss, Value: 1e9}) // every first evaluation reaches it
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Tasks[0].Answer()[0]; !strings.Contains(s, "at loss 1e+09") {
		t.Error(s)
	}
	mixed := append([]*store.Run{trial("raw", 9, store.Done, 0.9)}, runs...)
	if task := mustNew(t, mixed).Tasks[0]; task.Target.Metric != sgd.Accuracy {
		t.Error("runs that are not compared alike are compared by loss")
	} else if s := strings.Join(task.Answer(), " "); !strings.Contains(s, "all are compared by accuracy; --target 'loss<=1.9'") || strings.Contains(answer, "all are compared") {
		t.Error(s)
	}
}

// A seed that diverged makes a gap in a mean curve, and no peak.
func TestDivergedSeedsMakeGaps(t *testing.T) {
	t.Parallel()
	c := &Config{Group: &store.Group{}}
	for _, losses := range [][]float64{{2, 1, 0.5}, {2, math.MaxFloat64, 0.5}} {
		tr := &Trial{}
		for i, l := range losses {
			tr.Curve.Progress = append(tr.Curve.Progress, record.Progress{Step: i + 1, Loss: l})
		}
		c.Trials = append(c.Trials, tr)
	}
	y := c.curve(1, func(tr *Trial) (xs, ys []float64) { return thinned(tr.Curve.Progress) }, logarithmic).Y
	if len(y) != 3 || math.Abs(y[0]-2) > 1e-9 || !math.IsNaN(y[1]) || math.Abs(y[2]-0.5) > 1e-9 {
		t.Errorf("%v; want 2, a gap, 0.5", y)
	}
}

// planted is a run of the sample with evaluations of a metric: their values, of which the
// i-th is after i+1 seconds.
func planted(t *testing.T, codec string, seed uint64, m sgd.Metric, values ...float64) *store.Run {
	t.Helper()
	r := trial(codec, seed, store.Done, 0.9)
	r.Folder, r.Metrics, r.Result.Metrics = t.TempDir(), []sgd.Metric{m, sgd.Loss}, []sgd.Metric{m, sgd.Loss}
	r.Config.Metric, r.Config.Target, r.Result.Metric = sgd.First, record.Goal{}, m.Name
	var lines []byte
	var evals []record.Eval
	for i, x := range values {
		e := record.Eval{Step: 10 * (i + 1), Seconds: float64(i + 1), BytesUp: uint64(1000 * (i + 1)), Values: record.Values{m.Name: x, "loss": 1}}
		b, err := json.Marshal(experiments.Line{Kind: "eval", Eval: &e})
		if err != nil {
			t.Fatal(err)
		}
		lines, evals = append(append(lines, b...), '\n'), append(evals, e)
	}
	if err := os.WriteFile(filepath.Join(r.Folder, "metrics.jsonl"), lines, 0o600); err != nil {
		t.Fatal(err)
	}
	r.Result.Values, r.Result.VirtualSeconds = evals[len(evals)-1].Values, float64(len(values))
	r.Result.Reach(record.Goal{Metric: m}, evals)
	return r
}

// Which is soonest, which is best and what is on the front goes by a metric of any direction:
// the same runs with opposite values have the same answer.
func TestByAnyMetric(t *testing.T) {
	t.Parallel()
	for _, m := range []sgd.Metric{{Name: "gain"}, {Name: "cost", Unit: "mJ", LessIsBetter: true}} {
		sign := 1.0
		if m.LessIsBetter {
			sign = -1
		}
		var runs []*store.Run
		for seed := range uint64(3) {
			x := func(values ...float64) (out []float64) {
				for _, v := range values {
					out = append(out, sign*(v+float64(seed)/1000))
				}
				return out
			}
			runs = append(runs, planted(t, "raw", seed, m, x(1, 2, 3, 8, 7)...), planted(t, "bf16", seed, m, x(4, 5, 5, 5, 5)...), planted(t, "sign", seed, m, x(0, 0, 1, 2, 2)...))
		}
		r, err := New(runs, record.Goal{Metric: sgd.Metric{Name: m.Name, LessIsBetter: m.LessIsBetter}, Value: sign * 2.9})
		if err != nil {
			t.Fatal(err)
		}
		task := r.Tasks[0]
		s := task.Summary()
		if s.Answers.Soonest == nil || !strings.Contains(s.Answers.Soonest.Configuration, "bf16") || !strings.Contains(s.Answers.MostAccurate.Configuration, "raw") {
			t.Errorf("%s: %+v, %+v", m.Name, s.Answers.Soonest, s.Answers.MostAccurate)
		}
		if got := float64(s.Answers.MostAccurate.Value); math.Abs(got-sign*8.001) > 1e-9 {
			t.Errorf("%s: best of %v", m.Name, got)
		}
		for _, c := range task.Configs {
			want := !strings.Contains(c.Label, "sign")
			if c.Front != want || c.BestAt != 40 && strings.Contains(c.Label, "raw") || c.AtChance || c.Behind.Mean > 0 != (c == task.best()) {
				t.Errorf("%s, %s: on the front %v, best at %v, behind %v", m.Name, c.Label, c.Front, c.BestAt, c.Behind.Mean)
			}
		}
		answer := strings.Join(task.Answer(), " ")
		for _, want := range []string{"at the best evaluation: raw", "Soonest at " + task.Goal() + ": bf16, in 1.0s", m.Best()} {
			if !strings.Contains(answer, want) {
				t.Errorf("%s: no %q in %s", m.Name, want, answer)
			}
		}
		unreached, err := New(runs, record.Goal{Value: sign * 9})
		if err != nil {
			t.Fatal(err)
		}
		if s := unreached.Tasks[0].Answer()[0]; !strings.Contains(s, "of raw") || !strings.Contains(s, m.Name) || strings.Contains(s, "105 %") != m.LessIsBetter {
			t.Error(s)
		}
		share, err := New(runs, record.Goal{OfBest: true, Value: map[bool]float64{true: 1.5, false: 0.5}[m.LessIsBetter]})
		if err != nil {
			t.Fatal(err)
		}
		if to := share.Tasks[0].Target; to.OfBest || !m.Better(sign*8.002, to.Value) || !m.Better(to.Value, sign*3) {
			t.Errorf("%s: a share of the best is %v", m.Name, to)
		}
		for _, wrong := range []record.Goal{{Metric: sgd.Accuracy, Value: 0.5}, {Metric: sgd.Metric{Name: m.Name, LessIsBetter: !m.LessIsBetter}, Value: 1}} {
			if _, err := New(runs, wrong); err == nil || !strings.Contains(err.Error(), m.Name) {
				t.Errorf("%s: %v", m.Name, err)
			}
		}
	}
}
