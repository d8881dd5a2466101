package report

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// raced is a configuration whose trials reach the target at such seconds, evaluated every
// step of so many; never is as +Inf, and then the run ends after 1 s.
func raced(label string, step float64, at ...float64) *Config {
	c := &Config{Group: &store.Group{Label: label}, ToSeconds: stats.Reaching(at)}
	for seed, end := range at {
		run := &store.Run{Config: config.Default()}
		run.Config.Seed = uint64(seed)
		t := &Trial{Run: run}
		for s := math.Mod(min(end, 1), step); s < min(end, 1)-step/2; s += step {
			t.Curve.Evals = append(t.Curve.Evals, record.Eval{Seconds: s, Values: record.Values{"accuracy": 0.5}})
		}
		last := record.Eval{Seconds: min(end, 1), Values: record.Values{"accuracy": 0.96}}
		if math.IsInf(end, 1) {
			last.Values["accuracy"] = 0.5
		}
		t.Curve.Evals = append(t.Curve.Evals, last)
		c.Trials = append(c.Trials, t)
	}
	return c
}

// That one is sooner than the others is said where it was tested, and nowhere else.
func TestSoonestIsTested(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	seconds := seconds
	seconds.word = func(x float64) string { return strings.TrimSuffix(strings.TrimSuffix(percent(x/100), " %"), ".00") }
	for name, c := range map[string]struct {
		configs []*Config
		want    []string
		not     string
	}{
		"the seeds cross": {
			[]*Config{raced("topk", 0.005, 0.125, 0.108, 0.127), raced("qsgd", 0.005, 0.136, 0.136, 0.092)},
			[]string{"Soonest at 95 %, in the median of 3 seeds: topk", "The seeds do not tell it from qsgd"}, "explain",
		},
		"all are later": {
			[]*Config{raced("a", 0.01, 0.2, 0.21, 0.22), raced("b", 0.01, 0.4, 0.41, 0.43), raced("c", 0.01, 0.5, 0.52, 0.51)},
			[]string{"Soonest at 95 %: a, in 0.21 (median of 3 seeds); next is b, in 0.41, 2.0 times.", "each of the others is more than the seeds explain"}, "in the median",
		},
		"within an evaluation": {
			[]*Config{raced("a", 0.05, 0.2, 0.21, 0.22), raced("b", 0.05, 0.24, 0.25, 0.26), raced("c", 0.05, 0.5, 0.52, 0.51)},
			[]string{"Soonest at 95 %, in the median of 3 seeds: a", "Level with it, within one evaluation (0.05): b."}, "not tell",
		},
		"two alike": {
			[]*Config{raced("a", 0.05, 0.2, 0.21, 0.22), raced("b", 0.05, 0.2, 0.21, 0.22)},
			[]string{"Soonest at 95 %, in the median of 3 seeds: a, in 0.21; the same as b. Level with it"}, "next is",
		},
		"a rival that is seldom evaluated": {
			[]*Config{raced("a", 0.01, 0.2, 0.21, 0.22), raced("b", 0.2, 0.38, 0.39, 0.4)},
			[]string{"Soonest at 95 %, in the median of 3 seeds: a", "Level with it, within one evaluation (0.20): b."}, "explain",
		},
		"the others never": {
			[]*Config{raced("a", 0.01, 0.2, 0.21, 0.22), raced("b", 0.01, inf, inf, inf)},
			[]string{"Soonest at 95 %: a", "no other gets there in most of its runs", "more than the seeds explain"}, "in the median",
		},
		"the leader not always": {
			[]*Config{raced("a", 0.01, 0.2, 0.21, inf), raced("b", 0.01, 0.8, 0.81, 0.82)},
			[]string{"Soonest at 95 %, in the median of 3 seeds: a", "do not tell it from b"}, "explain",
		},
		"one seed": {
			[]*Config{raced("a", 0.01, 0.2), raced("b", 0.01, 0.3)},
			[]string{"Soonest at 95 %, in one run: a, in 0.20; next is b, in 0.30, 1.5 times."}, "seeds",
		},
	} {
		task := &Task{Target: record.Goal{Metric: sgd.Accuracy, Value: 0.95}, Configs: c.configs}
		s := firstTo(task, seconds)
		for _, want := range c.want {
			if !strings.Contains(s, want) {
				t.Errorf("%s: no %q in: %s", name, want, s)
			}
		}
		if strings.Contains(s, c.not) {
			t.Errorf("%s: %q in: %s", name, c.not, s)
		}
	}
}

// That one needs the fewest updates is tested as well, by the steps of evaluations.
func TestFewestUpdatesAreTested(t *testing.T) {
	t.Parallel()
	after := func(label string, every int, at ...float64) *Config {
		c := raced(label, 1)
		c.ToUpdates = stats.Reaching(at)
		for seed, end := range at {
			run := &store.Run{Config: config.Default()}
			run.Config.Seed = uint64(seed)
			trial := &Trial{Run: run}
			for step := every; step <= int(end); step += every {
				e := record.Eval{Step: step, Values: record.Values{"accuracy": 0.5}}
				if step == int(end) {
					e.Values["accuracy"] = 0.96
				}
				trial.Curve.Evals = append(trial.Curve.Evals, e)
			}
			c.Trials = append(c.Trials, trial)
		}
		return c
	}
	task := &Task{Target: record.Goal{Metric: sgd.Accuracy, Value: 0.95}, Configs: []*Config{after("a", 10, 100, 110, 120), after("b", 10, 110, 120, 120), after("c", 10, 300, 310, 330)}}
	s := firstTo(task, updates)
	for _, want := range []string{"Fewest updates at 95 %, in the median of 3 seeds: a, after 110 updates", "Level with it, within one evaluation (10 updates): b."} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in: %s", want, s)
		}
	}
	task.Configs = append(task.Configs[:1], task.Configs[2])
	if s := firstTo(task, updates); !strings.Contains(s, "next is c, after 310 updates, 2.8 times") || !strings.Contains(s, "more than the seeds explain") {
		t.Error(s)
	}
}

// What gains less than a hundredth in bytes, and loses in all else, is not on the front.
func TestFrontHasATolerance(t *testing.T) {
	t.Parallel()
	at := func(accuracy, seconds, bytes float64) *Config {
		one := func(x float64) stats.Summary { return stats.Summarize([]float64{x}) }
		r := trial("raw", 1, store.Done, accuracy)
		r.Result.VirtualSeconds, r.Result.BytesUp, r.Result.BytesDown = seconds, uint64(bytes), 0
		return &Config{Group: &store.Group{}, Trials: []*Trial{{Run: r}}, Best: one(accuracy), Seconds: one(seconds), Bytes: one(bytes)}
	}
	good, little, much := at(0.95, 1, 10000), at(0.908, 1.75, 9944), at(0.90, 1.75, 9000)
	task := &Task{Configs: []*Config{little, much, good}}
	compete(task)
	if !good.Front || little.Front || !much.Front {
		t.Errorf("on the front: %v, %v for 0.56 %% of the bytes, %v for 10 %%", good.Front, little.Front, much.Front)
	}
}

// Configurations that the seeds cannot tell apart are equal on the front, in time as in
// accuracy; one that is slower beyond doubt and as accurate is off it.
func TestFrontKnowsWhatSeedsCannotTell(t *testing.T) {
	t.Parallel()
	make := func(codec string, accuracy, seconds []float64) (out []*store.Run) {
		for i := range accuracy {
			r := trial(codec, uint64(i)+1, store.Done, accuracy[i])
			r.Result.VirtualSeconds, r.Config.Target, r.Result.ParamsSHA256 = seconds[i], record.Goal{}, fmt.Sprint(codec, i)
			r.ID = r.Config.Hash()
			out = append(out, r)
		}
		return out
	}
	runs := make("raw", []float64{0.95, 0.93, 0.94, 0.95}, []float64{1, 1.3, 1.1, 1.2})
	runs = append(runs, make("bf16", []float64{0.93, 0.94, 0.95, 0.94}, []float64{1.2, 1.1, 1.3, 1.2})...)
	runs = append(runs, make("fp16", []float64{0.94, 0.95, 0.93, 0.94}, []float64{10, 11, 12, 10})...)
	front := map[string]bool{}
	for _, c := range mustNew(t, runs).Tasks[0].Configs {
		front[c.Label] = c.Front
	}
	if !front["raw"] || !front["bf16"] || front["fp16"] {
		t.Errorf("on the front: %v", front)
	}
	// Sooner by what the seeds do not tell, at many times the bytes: the answer begins with it.
	first := make("sign", []float64{0.94, 0.95, 0.94, 0.93}, []float64{0.9, 1.1, 0.8, 1.2})
	for _, r := range runs {
		r.Result.BytesUp, r.Result.BytesDown = r.Result.BytesUp/10, r.Result.BytesDown/10
	}
	for _, c := range mustNew(t, append(runs, first...)).Tasks[0].Configs {
		if c.Label == "sign" && !c.Front {
			t.Error("the soonest is off the front")
		}
	}
}

// A target may be a share of the best that a configuration of the facet reached, of the
// report or of the runs, and what no configuration reaches says how to ask for less.
func TestTargetOfTheBest(t *testing.T) {
	t.Parallel()
	var best float64
	for _, r := range sample {
		best = max(best, r.Result.Best["accuracy"].Value)
	}
	r, err := New(sample, record.Goal{OfBest: true, Value: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	task := r.Tasks[0]
	if want := 0.5 * best; math.Abs(task.Target.Value-want) > 1e-12 || task.Target.OfBest {
		t.Errorf("the target is %v, want %v", task.Target, want)
	}
	if s := strings.Join(task.Answer(), " "); !strings.Contains(s, "is 50 % of the best accuracy that a run reached") || !strings.Contains(s, "Soonest at ") {
		t.Error(s)
	}
	var own []*store.Run
	for _, x := range sample {
		c := *x
		c.Config.Target = record.Goal{OfBest: true, Value: 0.5}
		own = append(own, &c)
	}
	if of := mustNew(t, own).Tasks[0]; of.Target != task.Target {
		t.Errorf("of the runs %v, of the report %v", of.Target, task.Target)
	}
	r, err = New(sample, record.Goal{Value: 0.99})
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Tasks[0].Answer()[0]; !strings.Contains(s, "No configuration reaches 99 %") || !strings.Contains(s, "the best accuracy of an evaluation is "+percent(best)) || !strings.Contains(s, "--target 0.95best asks for 95 % of that") {
		t.Error(s)
	}
}
