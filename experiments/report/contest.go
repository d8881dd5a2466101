package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Behind is where a multiple comparison with the best leaves a configuration.
type Behind struct {
	stats.Standing
	Same bool // its runs are those of the best configuration to the last bit
}

// contest compares the choices in one thing that is asked for: time or bytes to the
// target, or the best score.
type contest struct {
	index   map[*Config]int
	ranking *stats.Ranking
	middle  func(*Config) float64          // less is better; +Inf: never
	level   func(a, b *Config) bool        // nearer to each other than can be measured
	reach   func(*Config) stats.Reach      // nil: nothing is to be reached
	draws   func(a, b *Config) (p float64) // probability that a is less than b, by draws; nil: none were made
}

// newContest compares configurations in a value of each trial, less of which is better.
// Ratios count where a value is a time or a number of bytes.
func newContest(configs []*Config, ratios bool, value func(*Trial) float64) *contest {
	c := &contest{index: map[*Config]int{}, level: func(a, b *Config) bool { return false }}
	var samples []map[uint64]float64
	for i, x := range configs {
		c.index[x] = i
		at := map[uint64]float64{}
		for _, t := range x.Trials {
			v := value(t)
			if ratios {
				v = math.Log(max(v, math.SmallestNonzeroFloat64))
			}
			if !math.IsNaN(v) {
				at[t.Config.Seed] = -v
			}
		}
		samples = append(samples, at)
	}
	c.ranking = stats.WithBest(samples)
	return c
}

// tells reports whether two configurations have seeds enough to be compared.
func (c *contest) tells(a, b *Config) bool { return c.ranking.Tells(c.index[a], c.index[b]) }

// beats reports whether a is better than b by more than is explained by seeds, by the
// distance between evaluations and by what is not known of transport, device and codecs.
func (c *contest) beats(a, b *Config) bool {
	switch {
	case !(c.middle(a) < c.middle(b)) || c.level(a, b) || !c.ranking.Worse(c.index[b], c.index[a]):
		return false
	case c.reach != nil && c.reach(a).Reached < c.reach(a).N: // a leader of which a trial never got there leads nobody for certain
		return false
	}
	return c.draws == nil || c.draws(a, b) >= 1-stats.Level
}

// order is −1 where a is better than b, 1 where b is, and 0 where they cannot be told
// apart. Of configurations with too few seeds to be compared only what was measured is
// known, and that counts.
func (c *contest) order(a, b *Config) int {
	x, y := c.middle(a), c.middle(b)
	switch {
	case x == y || c.level(a, b) || math.IsNaN(x) || math.IsNaN(y):
		return 0
	case !c.tells(a, b):
		return cmp.Compare(x, y)
	case c.beats(a, b):
		return -1
	case c.beats(b, a):
		return 1
	}
	return 0
}

// slack is the share of time or bytes below which a difference counts as none.
const slack = 0.01

func alike(x, y float64) bool { return x == y || math.Abs(x-y) <= slack*min(x, y) }

// toTarget compares configurations on the way to the target.
func toTarget(t *Task, m measure, configs []*Config) *contest {
	c := newContest(configs, true, func(x *Trial) float64 { return wayTo(t, x, m).at })
	c.reach = m.reach
	c.middle = func(x *Config) float64 { return m.reach(x).Median }
	steps := map[*Config]float64{}
	for x := range c.index {
		steps[x] = evaluated(t, x, m)
	}
	c.level = func(a, b *Config) bool {
		x, y := c.middle(a), c.middle(b)
		return math.Abs(x-y) <= max(steps[a], steps[b]) || alike(x, y)
	}
	return c
}

// evaluated is how far apart a configuration's evaluations are where the target was
// reached, in the median.
func evaluated(t *Task, c *Config, m measure) float64 {
	var steps []float64
	for _, trial := range c.Trials {
		w := wayTo(t, trial, m)
		steps = append(steps, w.at-w.before)
	}
	return stats.Median(steps)
}

// wholeRuns compares configurations in what their runs took from beginning to end.
func wholeRuns(configs []*Config, value func(*Trial) float64, of func(*Config) float64) *contest {
	c := newContest(configs, true, value)
	c.middle, c.level = of, func(a, b *Config) bool { return alike(of(a), of(b)) }
	return c
}

// scores compares the choices by their best evaluations.
func scores(t *Task) *contest {
	sign := signOf(t)
	c := newContest(t.choices(), false, func(x *Trial) float64 { return sign * bestOf(x.Run, t.Target) })
	c.middle = func(x *Config) float64 { return sign * x.Best.Mean }
	return c
}

// signOf is what scores are multiplied by, so that less is better.
func signOf(t *Task) float64 {
	if t.Target.Metric.LessIsBetter {
		return 1
	}
	return -1
}

// bestOf is a run's best value of the metric of a goal; NaN where there is none.
func bestOf(r *store.Run, goal record.Goal) float64 {
	if b, known := r.Result.Best[goal.Metric.Name]; known {
		return b.Value
	}
	return math.NaN()
}

// compete compares the choices in all that is asked for, and finds which of them are on
// the Pareto front: those that no other is better than in one thing and as good as in the
// others. Those that cannot be told apart are equal. What was measured to be first in
// something is on it, and where all lie in a circle, all are.
func compete(t *Task) {
	t.contests = nil
	choices := t.choices()
	if t.Target.Asked() {
		t.soonest, t.lightest = toTarget(t, seconds, choices), toTarget(t, crossed, choices)
	} else {
		t.soonest = wholeRuns(choices, func(x *Trial) float64 { return x.Seconds() * x.stretched() }, func(c *Config) float64 { return c.Seconds.Mean })
		t.lightest = wholeRuns(choices, func(x *Trial) float64 { return float64(x.Crossed(x.Result.BytesUp, x.Result.BytesDown)) }, func(c *Config) float64 { return c.Bytes.Mean })
	}
	t.soonest.draws = func(a, b *Config) float64 { return isBefore(t, a, b) }
	t.contests = append(t.contests, t.soonest)
	if isCrossing(t) {
		t.contests = append(t.contests, t.lightest)
	}
	if t.Learned() {
		t.keenest = scores(t)
		t.contests = append(t.contests, t.keenest)
	}
	any := false
	for _, c := range t.Configs {
		c.Front = c.Choice()
		for _, o := range choices {
			c.Front = c.Front && !dominates(t, o, c)
		}
		any = any || c.Front
	}
	for _, c := range choices {
		c.Front = c.Front || !any
	}
	for _, k := range t.contests { // what the answer names first is on it
		if len(choices) == 0 {
			break
		}
		first := slices.MinFunc(choices, func(a, b *Config) int { return cmp.Compare(k.middle(a), k.middle(b)) })
		tied := func(c *Config) bool { return c.Front && k.middle(c) == k.middle(first) }
		if finite(k.middle(first)) && !slices.ContainsFunc(choices, tied) {
			first.Front = true
		}
	}
}

// dominates reports whether a is as good as b in all that is asked for, and better in
// something.
func dominates(t *Task, a, b *Config) bool {
	better := false
	for _, c := range t.contests {
		switch c.order(a, b) {
		case 1:
			return false
		case -1:
			better = true
		}
	}
	return better
}
