package sweep

import (
	"math"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

func tuning(t testing.TB, budget int, texts ...string) Tuning {
	t.Helper()
	over, err := ParseTuning(texts)
	if err != nil {
		t.Fatal(err)
	}
	return Tuning{Over: over, Budget: budget, Validation: 0.1}
}

// Every configuration gets the same budget, on held-out data and with seeds that are
// not reported; what is compared afterwards is on the test set, at the sweep's seeds.
func TestTuningIsFair(t *testing.T) {
	t.Parallel()
	s := space(t, "codec=raw,topk(keep=0.1)", "workers=1,2")
	s.Repeats = 2
	jobs, err := s.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		budget, trials, seeds int
	}{{0, 4, 1}, {4, 4, 1}, {3, 3, 1}, {8, 4, 2}} {
		tune := tuning(t, c.budget, "schedule.lr=log(1e-3,1,4)")
		plan, err := tune.Plan(jobs)
		if err != nil || len(plan) != 4 {
			t.Fatalf("%d configurations, %v", len(plan), err)
		}
		for _, of := range plan {
			if len(of.Jobs) != 2 || len(of.Trials) != c.trials {
				t.Errorf("budget %d: %s has %d trials for %d jobs", c.budget, of.Name, len(of.Trials), len(of.Jobs))
			}
			for i, trial := range of.Trials {
				if len(trial.Jobs) != c.seeds || trial.Values[0] != plan[0].Trials[i].Values[0] {
					t.Errorf("budget %d: %+v", c.budget, trial)
				}
				for _, j := range trial.Jobs {
					if j.Config.Validation != 0.1 || j.Config.Seed <= 2 || j.Config.Schedule != "constant(lr="+trial.Values[0]+")" || j.Config.Codec != of.Jobs[0].Config.Codec || j.Config.Workers != of.Jobs[0].Config.Workers {
						t.Errorf("%s: %+v", j.Name, j.Config)
					}
				}
			}
		}
		results := map[string]*experiments.Result{}
		for _, j := range Trials(plan) {
			accuracy := 0.5
			if j.Config.Codec == "raw" && j.Config.Schedule == "constant(lr=1)" || j.Config.Codec != "raw" && j.Config.Schedule == "constant(lr=0.1)" {
				accuracy = 0.9
			}
			results[j.ID] = &experiments.Result{Status: "done", Metrics: []sgd.Metric{sgd.Accuracy}, Metric: "accuracy", Values: record.Values{"accuracy": accuracy}}
		}
		best, err := tune.Choose(plan, results)
		if err != nil || len(best) != 8 {
			t.Fatalf("%d jobs, %v", len(best), err)
		}
		for _, of := range plan {
			edges := strings.Join(tune.Edges(of), "")
			if raw := of.Jobs[0].Config.Codec == "raw"; c.trials == 4 && raw != strings.Contains(edges, "highest value tried") {
				t.Errorf("%s: %q", of.Name, edges)
			}
		}
		for _, j := range best {
			if j.Config.Validation != 0 || j.Config.Seed > 2 || c.trials == 4 && j.Config.Schedule != map[bool]string{true: "constant(lr=1)", false: "constant(lr=0.1)"}[j.Config.Codec == "raw"] {
				t.Errorf("%s: %+v", j.Name, j.Config)
			}
		}
		if c.trials == 3 && !strings.Contains(tune.Budgeted(plan), "3 of 4 combinations") {
			t.Error(tune.Budgeted(plan))
		}
	}
}

// A value whose run failed, or did not reach the target, is not chosen.
func TestTuningLeavesOutWhatFails(t *testing.T) {
	t.Parallel()
	jobs, err := space(t, "target=0.5").Jobs()
	if err != nil {
		t.Fatal(err)
	}
	tune := tuning(t, 0, "schedule.lr=0.1,0.2,0.4")
	tune.ByTime = true
	plan, err := tune.Plan(jobs)
	if err != nil {
		t.Fatal(err)
	}
	trials := Trials(plan)
	results := map[string]*experiments.Result{
		trials[0].ID: {Status: "done", Values: record.Values{"accuracy": 0.9}},
		trials[2].ID: {Status: "done", Values: record.Values{"accuracy": 0.6}, TargetReached: true, TargetSeconds: 7},
	}
	if best, err := tune.Choose(plan, results); err != nil || best[0].Config.Schedule != "constant(lr=0.4)" {
		t.Errorf("%+v, %v", best, err)
	}
	delete(results, trials[2].ID)
	if best, err := tune.Choose(plan, results); err == nil || len(best) > 0 || !strings.Contains(err.Error(), "reached the target") {
		t.Errorf("%+v, %v", best, err)
	}
}

func TestTuningMistakesAreTold(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		args []string
		tune []string
		Tuning
	}{
		"want what to tune":        {tune: []string{"schedule.lr"}},
		"has no option \"rate\"":   {tune: []string{"schedule.rate=0.1,0.2"}},
		"neither a key nor":        {tune: []string{"shedule.lr=0.1,0.2"}},
		"several options \"bits\"": {args: []string{"codec=bysize(qsgd,qsgd)"}, tune: []string{"codec.bits=2,4"}},
		"given twice":              {tune: []string{"batch=8,16", "batch=4"}},
		"no part of one":           {tune: []string{"seed=1,2"}},
		"a multiple of it":         {tune: []string{"batch=8,16"}, Tuning: Tuning{Budget: 3}},
		"nothing to choose":        {tune: []string{"batch=8,16"}, Tuning: Tuning{Budget: 1}},
		"are on the test set":      {args: []string{"validation=0.2"}, tune: []string{"batch=8,16"}},
		"target=0.9":               {tune: []string{"batch=8,16"}, Tuning: Tuning{ByTime: true}},
		"--validation 2":           {tune: []string{"batch=8,16"}, Tuning: Tuning{Validation: 2}},
	} {
		over, err := ParseTuning(c.tune)
		if err == nil {
			jobs, bad := space(t, c.args...).Jobs()
			if bad != nil {
				t.Fatal(bad)
			}
			c.Tuning.Over = over
			if c.Tuning.Validation == 0 {
				c.Tuning.Validation = 0.1
			}
			_, err = c.Tuning.Plan(jobs)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// Tuning runs are evaluated on training samples that no run of the tuning trains
// on, and never on the test set.
func TestTuningNeverSeesTheTestSet(t *testing.T) {
	t.Parallel()
	jobs, err := space(t).Jobs()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := tuning(t, 4, "schedule.lr=0.01,0.1").Plan(jobs)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := jobs[0].Build(config.Places{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range execute(t, Trials(plan), 2, processes(t.TempDir(), "job")) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		j, err := o.Job.Build(config.Places{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := whole.Data.Train.Len(); j.Data.Train.Len()+j.Data.Test.Len() != n || !strings.Contains(o.Result.Note, "held out") {
			t.Errorf("%d and %d of %d samples, note %q", j.Data.Train.Len(), j.Data.Test.Len(), n, o.Result.Note)
		}
	}
}

// A trial that diverged is never the best by loss.
func TestTuningLeavesOutWhatDiverged(t *testing.T) {
	t.Parallel()
	tune := Tuning{By: "loss"}
	for loss, ok := range map[float64]bool{0.5: true, math.MaxFloat64: false} {
		trial := &Trial{Jobs: []Job{{ID: "a"}}}
		tune.judge(trial, map[string]*experiments.Result{"a": {Status: "done", Metrics: []sgd.Metric{sgd.Accuracy, sgd.Loss}, Values: record.Values{"loss": loss}}})
		if trial.OK != ok {
			t.Errorf("loss %v: %+v", loss, trial)
		}
	}
}
