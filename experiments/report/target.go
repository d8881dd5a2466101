package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/sgd/train"
)

// measure is what one goes through on the way to a target: seconds, bytes or updates.
type measure struct {
	how, preposition string
	of               func(*Trial, train.Eval) float64
	reach            func(*Config) stats.Reach
	word             func(float64) string
}

// updates are what is gone through whatever a step costs.
var updates = measure{"Fewest updates", "after", func(_ *Trial, e train.Eval) float64 { return float64(e.Step) },
	func(c *Config) stats.Reach { return c.ToUpdates }, func(x float64) string { return fmt.Sprintf("%.0f updates", x) }}

// way is how far a trial went to the target. Evaluations see it late: it was reached
// behind the one before. A trial that never got there went to its end, at least.
type way struct{ before, at float64 }

func (t *Task) way(of *Trial, m measure) (w way) {
	for _, e := range of.Curve.Evals {
		w = way{w.at, m.of(of, e)}
		if t.Target.Reached(e) {
			break
		}
	}
	return w
}

// standing says of a configuration whether the leader's lead over it was tested.
type standing int

const (
	untold standing = iota // the seeds do not tell them apart, or there are too few
	level                  // nearer than evaluations are to each other
	later                  // later by more than seeds explain
)

// ways are those of a configuration's trials, by seed, and how far apart evaluations are where the
// target was reached, in the median.
func (t *Task) ways(c *Config, m measure) (at map[uint64]float64, step float64) {
	at = map[uint64]float64{}
	var steps []float64
	for _, trial := range c.Trials {
		w := t.way(trial, m)
		at[trial.Config.Seed] = w.at
		steps = append(steps, w.at-w.before)
	}
	return at, stats.Median(steps)
}

// rivals compares every choice with a leader on the way to the target, as one family of
// tests (see stats.Compare, stats.Holm), but for those that are within an evaluation of
// it: of at most so much. A leader of which a trial never got there leads nobody for
// certain.
func (t *Task) rivals(lead *Config, m measure) (stands map[*Config]standing, within float64) {
	stands = map[*Config]standing{}
	first, own := t.ways(lead, m)
	var tested []*Config
	var p []float64
	for _, c := range t.choices() {
		if c == lead {
			continue
		}
		at, step := t.ways(c, m)
		if step = max(step, own); math.Abs(m.reach(c).Median-m.reach(lead).Median) <= step {
			stands[c], within = level, max(within, step)
			continue
		}
		d, _ := stats.Compare(first, at)
		if d.Mean <= 0 || m.reach(lead).Reached < m.reach(lead).N {
			d.P = 1
		}
		tested, p = append(tested, c), append(p, d.P)
	}
	for i, p := range stats.Holm(p) {
		if p < 0.05 {
			stands[tested[i]] = later
		}
	}
	return stands, within
}

// few is a list that is no longer than the sentence it is in.
func few(names []string) string {
	if n := len(names); n > 3 {
		return fmt.Sprintf("%s, %s and %d more", names[0], names[1], n-2)
	}
	return list(names)
}

// first words which configuration reaches the target first, by how much, and from which
// others that was told.
func (t *Task) first(m measure) string {
	cs := slices.Clone(t.choices())
	slices.SortStableFunc(cs, func(a, b *Config) int { return cmp.Compare(m.reach(a).Median, m.reach(b).Median) })
	target := t.Goal()
	a := m.reach(cs[0])
	if math.IsInf(a.Median, 1) || math.IsNaN(a.Median) {
		return fmt.Sprintf("No configuration reaches %s in most of its runs.", target)
	}
	if len(cs) == 1 {
		return fmt.Sprintf("%s reaches %s %s %s%s.", cs[0].Label, target, m.preposition, m.word(a.Median), t.sooner(a, m))
	}
	stands, within := t.rivals(cs[0], m)
	of := map[standing][]string{}
	for _, c := range cs[1:] {
		of[stands[c]] = append(of[stands[c]], c.Label)
	}
	s := m.how + " at " + target
	if len(of[later]) < len(cs)-1 {
		if a.N > 1 {
			s += fmt.Sprintf(", in the median of %d seeds", a.N)
		} else {
			s += ", in one run"
		}
	}
	s += fmt.Sprintf(": %s, %s %s", cs[0].Label, m.preposition, m.word(a.Median))
	if a.N > 1 && len(of[later]) == len(cs)-1 {
		s += fmt.Sprintf(" (median of %d seeds)", a.N)
	}
	next := m.reach(cs[1])
	switch {
	case math.IsInf(next.Median, 1) || math.IsNaN(next.Median):
		s += "; no other gets there in most of its runs"
	case next.Median == a.Median:
		s += "; the same as " + cs[1].Label
	case a.Median > 0:
		s += fmt.Sprintf("; next is %s, %s %s", cs[1].Label, m.preposition, m.word(next.Median))
		if ratio := next.Median / a.Median; ratio >= 1.05 {
			s += fmt.Sprintf(", %.1f times", ratio)
		}
	}
	s += t.sooner(a, m) + "."
	const test = "(paired by seed, Holm, α = 0.05)"
	if n := len(of[level]); n > 0 {
		s += fmt.Sprintf(" Level with it, within one evaluation (%s): %s.", m.word(within), few(of[level]))
	}
	switch {
	case len(of[later]) == len(cs)-1 && len(cs) == 2:
		s += " That is more than the seeds explain " + test + "."
	case len(of[later]) == len(cs)-1:
		s += " Its lead over each of the others is more than the seeds explain " + test + "."
	case len(of[untold]) > 0 && a.N > 1:
		s += fmt.Sprintf(" The seeds do not tell it from %s %s.", list(of[untold]), test)
	}
	return s
}

// sooner warns where one worker alone is sooner than all who work together. In
// bytes, of which it sends none, it is no news.
func (t *Task) sooner(than stats.Reach, m measure) string {
	for _, c := range t.Configs {
		if at := m.reach(c).Median; c.Alone && at > 0 && at < than.Median {
			return fmt.Sprintf("; one worker alone is sooner than all of them, in %s", m.word(at))
		}
	}
	return ""
}
