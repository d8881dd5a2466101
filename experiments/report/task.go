package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train"
)

// Task is what can be compared with each other: runs of one model on one data
// set, on the same kind of clock.
type Task struct {
	Model, Data string
	Virtual     bool    // the clock is that of a virtual cluster
	Target      float64 // test accuracy that all runs aim at; 0: they differ, or aim at none
	Configs     []*Config
	Varying     []string // keys in which configurations differ
	Usual       []string // what their names leave out, as "key=value"
	Sections    []Section
}

// Section is a figure with what there is to say about it.
type Section struct {
	Name   string // of its files
	Title  string
	Text   string
	Panels []figure.Figure
	Notes  []string // under the figure, a line each
}

// Config is a configuration and its repeats over seeds.
type Config struct {
	Label                    string
	Trials                   []*Trial // by seed
	Accuracy, Seconds, Bytes stats.Summary
	ToSeconds, ToBytes       stats.Reach // to the task's target
	Staleness                stats.Summary
	Failed                   int              // seeds beside the trials whose run failed
	Front                    bool             // no other configuration is at least as good in accuracy, time and bytes and better in one
	Behind                   stats.Difference // in accuracy, to the best configuration, paired by seed
	P                        float64          // of that difference, corrected for the number of configurations; NaN if it cannot be told
}

// Trial is a run with its curves.
type Trial struct {
	*store.Run
	Curve store.Curve
	Ranks []train.RankReport
}

// Crossing is the bytes that had crossed the network at an evaluation.
func (t *Trial) Crossing(e train.Eval) float64 { return float64(t.Crossed(e.BytesUp, e.BytesDown)) }

// Learned is false for runs without weights, which have times and bytes alone.
func (t *Task) Learned() bool { return !t.Configs[0].Trials[0].Config.Weightless }

func taskKey(r *store.Run) string {
	what := r.Config.Model + "\x00" + r.Config.Data
	if r.Config.Weightless {
		what = r.Config.Timing
	}
	return fmt.Sprint(what, "\x00", r.Virtual(), r.Config.Weightless)
}

// Seeds is the number of trials, of how many runs if some failed.
func (c *Config) Seeds() string {
	if c.Failed == 0 {
		return fmt.Sprint(len(c.Trials))
	}
	return fmt.Sprintf("%d of %d", len(c.Trials), len(c.Trials)+c.Failed)
}

// Slug names the task in file names.
func (t *Task) Slug() string {
	clock := "wall"
	if t.Virtual {
		clock = "sim"
	}
	s := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '-'
	}, t.What()+"-"+clock)
	for strings.Contains(s, "--") {
		s = strings.ReplaceAll(s, "--", "-")
	}
	return strings.ToLower(s)
}

// What is computed: a model on data, or a profile without weights.
func (t *Task) What() string {
	if !t.Learned() {
		return t.Configs[0].Trials[0].Config.Timing + " without weights"
	}
	return t.Model + " on " + t.Data
}

// Clock is what its seconds are of.
func (t *Task) Clock() string {
	if t.Virtual {
		return "virtual time"
	}
	return "wall time"
}

func newTask(runs []*store.Run) (*Task, error) {
	first := runs[0]
	t := &Task{Model: first.Config.Model, Data: first.Config.Data, Virtual: first.Virtual(), Target: first.Config.Target, Varying: store.Varying(store.Latest(runs))}
	for _, r := range runs {
		if r.Config.Target != t.Target {
			t.Target = 0
		}
	}
	groups := store.Groups(runs)
	t.Usual = store.Usual(groups)
	for _, g := range groups {
		c, err := newConfig(g, t.Target)
		if err != nil {
			return nil, err
		}
		t.Configs = append(t.Configs, c)
	}
	t.compare()
	for _, s := range []Section{t.pareto(), t.curves(), t.staleness(), t.traffic(), t.time(), t.scaling()} {
		if len(s.Panels) > 0 {
			t.Sections = append(t.Sections, s)
		}
	}
	return t, nil
}

func newConfig(g *store.Group, target float64) (*Config, error) {
	c := &Config{Label: g.Label}
	var accuracy, seconds, bytes, stale, toSeconds, toBytes []float64
	for _, r := range g.Runs {
		if !isDone(r) {
			c.Failed++
			d, err := r.ToTarget(target)
			if err != nil {
				return nil, err
			}
			toSeconds, toBytes = append(toSeconds, d.Seconds), append(toBytes, d.Bytes)
			continue
		}
		t := &Trial{Run: r}
		var err error
		if t.Curve, err = r.Metrics(); err != nil {
			return nil, err
		}
		if t.Ranks, err = r.Ranks(); err != nil {
			return nil, err
		}
		c.Trials = append(c.Trials, t)
		accuracy = append(accuracy, r.Result.Accuracy)
		seconds = append(seconds, r.Seconds())
		bytes = append(bytes, float64(r.Crossed(r.Result.BytesUp, r.Result.BytesDown)))
		stale = append(stale, r.Result.StalenessMean)
		s, b := math.Inf(1), math.Inf(1)
		if r.Result.TargetReached {
			s, b = r.Result.TargetSeconds, float64(r.Result.TargetBytes)
		}
		toSeconds, toBytes = append(toSeconds, s), append(toBytes, b)
	}
	c.Accuracy, c.Seconds, c.Bytes, c.Staleness = stats.Summarize(accuracy), stats.Summarize(seconds), stats.Summarize(bytes), stats.Summarize(stale)
	if target > 0 {
		c.ToSeconds, c.ToBytes = stats.Reaching(toSeconds), stats.Reaching(toBytes)
	}
	return c, nil
}

// accuracies are the configuration's final accuracies by seed.
func (c *Config) accuracies() map[uint64]float64 {
	out := map[uint64]float64{}
	for _, t := range c.Trials {
		out[t.Config.Seed] = t.Result.Accuracy
	}
	return out
}

// compare finds the Pareto front, and who is behind the best.
func (t *Task) compare() {
	for _, c := range t.Configs {
		c.Front = !slices.ContainsFunc(t.Configs, func(o *Config) bool { return o.dominates(c) })
	}
	best := t.best()
	ps := make([]float64, len(t.Configs))
	for i, c := range t.Configs {
		ps[i] = math.NaN()
		if c != best {
			c.Behind = stats.Paired(best.accuracies(), c.accuracies())
			ps[i] = c.Behind.P
		}
	}
	for i, p := range stats.Holm(ps) {
		t.Configs[i].P = p
	}
}

// dominates is true if c is at least as good in all three and better in one.
func (c *Config) dominates(o *Config) bool {
	a := [3]float64{-c.Accuracy.Mean, c.Seconds.Mean, c.Bytes.Mean}
	b := [3]float64{-o.Accuracy.Mean, o.Seconds.Mean, o.Bytes.Mean}
	better := false
	for i := range a {
		if a[i] > b[i] {
			return false
		}
		better = better || a[i] < b[i]
	}
	return better
}

func (t *Task) best() *Config {
	return slices.MaxFunc(t.Configs, func(a, b *Config) int { return cmp.Compare(a.Accuracy.Mean, b.Accuracy.Mean) })
}

// front are the configurations nobody dominates, the most accurate first.
func (t *Task) front() []*Config {
	var out []*Config
	for _, c := range t.Configs {
		if c.Front {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b *Config) int { return cmp.Compare(b.Accuracy.Mean, a.Accuracy.Mean) })
	return out
}
