package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// measure is what one goes through on the way to a target: seconds, bytes or updates.
type measure struct {
	how, preposition string
	of               func(*Trial, record.Eval) float64
	reach            func(*Config) stats.Reach
	word             func(float64) string
}

// seconds and crossed are the time and the bytes on the way.
var (
	seconds = measure{"Soonest", "in", func(t *Trial, e record.Eval) float64 { return t.stretched() * e.Seconds }, func(c *Config) stats.Reach { return c.ToSeconds }, progress.Seconds}
	crossed = measure{"With the fewest bytes", "with", (*Trial).Crossing, func(c *Config) stats.Reach { return c.ToBytes }, bytesText}
)

// updates are what is gone through whatever a step costs.
var updates = measure{"Fewest updates", "after", func(_ *Trial, e record.Eval) float64 { return float64(e.Step) },
	func(c *Config) stats.Reach { return c.ToUpdates }, func(x float64) string { return fmt.Sprintf("%.0f updates", x) }}

// wayTo is how far a trial went to the target. Evaluations see it late: it was reached
// behind the one before. A trial that never got there went to its end, at least.
type way struct{ before, at float64 }

func wayTo(t *Task, of *Trial, m measure) (w way) {
	for _, e := range of.Curve.Evals {
		w = way{w.at, m.of(of, e)}
		if t.Target.Reached(e) {
			break
		}
	}
	return w
}

// few is a list that is no longer than the sentence it is in.
func few(names []string) string {
	if n := len(names); n > 3 {
		return fmt.Sprintf("%s, %s and %d more", names[0], names[1], n-2)
	}
	return list(names)
}

// tested names the test that sentences rest on.
const tested = "by multiple comparison with the best, α = 0.05"

// firstTo words which configuration reaches the target first, by how much, and from which
// others that was told.
func firstTo(t *Task, m measure) string {
	cs := slices.Clone(t.choices())
	slices.SortStableFunc(cs, func(a, b *Config) int { return cmp.Compare(m.reach(a).Median, m.reach(b).Median) })
	target := t.Goal()
	a := m.reach(cs[0])
	if math.IsInf(a.Median, 1) || math.IsNaN(a.Median) {
		return unreached(t)
	}
	if len(cs) == 1 {
		return fmt.Sprintf("%s reaches %s %s %s.", cs[0].Label, target, m.preposition, m.word(a.Median))
	}
	contest := toTarget(t, m, cs)
	if m.how == seconds.how {
		contest.draws = func(a, b *Config) float64 { return isBefore(t, a, b) }
	}
	var later, level, untold []string
	within := 0.0
	for _, c := range cs[1:] {
		switch {
		case contest.level(cs[0], c):
			level, within = append(level, c.Label), max(within, evaluated(t, cs[0], m), evaluated(t, c, m))
		case contest.beats(cs[0], c):
			later = append(later, c.Label)
		default:
			untold = append(untold, c.Label)
		}
	}
	s := m.how + " at " + target
	if len(later) < len(cs)-1 {
		if a.N > 1 {
			s += fmt.Sprintf(", in the median of %d seeds", a.N)
		} else {
			s += ", in one run"
		}
	}
	s += fmt.Sprintf(": %s, %s %s", cs[0].Label, m.preposition, m.word(a.Median))
	if a.N > 1 && len(later) == len(cs)-1 {
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
	s += "."
	if n := len(level); n > 0 {
		s += fmt.Sprintf(" Level with it, within one evaluation (%s): %s.", m.word(within), few(level))
	}
	switch {
	case len(later) == len(cs)-1 && len(cs) == 2:
		s += " That is more than the seeds explain."
	case len(later) == len(cs)-1:
		s += " Its lead over each of the others is more than the seeds explain."
	case len(untold) > 0 && a.N > 1:
		s += fmt.Sprintf(" The seeds do not tell it from %s.", list(untold))
	}
	return s
}

// unreached says that no choice reaches the target, what the best of them came to, and
// what to type for a target that is reached.
func unreached(t *Task) string {
	m := t.Target.Metric
	value, label := math.NaN(), ""
	for _, c := range t.choices() {
		v := c.Best.Max
		if m.LessIsBetter {
			v = c.Best.Min
		}
		if m.Better(v, value) {
			value, label = v, c.Label
		}
	}
	less := record.Goal{Metric: m, OfBest: true, Value: 0.95}
	if m.LessIsBetter {
		less.Value = 1.05
	}
	text := "'" + less.String() + "'" // "<" is the shell's
	if m == sgd.Accuracy {
		text = fmt.Sprintf("%gbest", less.Value)
	}
	return fmt.Sprintf("No configuration reaches %s in most of its runs: the %s of an evaluation is %s, of %s. --target %s asks for %s of that.",
		t.Goal(), m.Best(), t.score(value), label, text, percent(less.Value))
}

// baselineOf is one worker alone, the soonest if there are several; nil: there is none.
func baselineOf(t *Task) (alone *Config) {
	for _, c := range t.Configs {
		if c.Alone && !c.AtChance && (alone == nil || c.time(t) < alone.time(t)) {
			alone = c
		}
	}
	return alone
}

// pays words whether any configuration of several workers is sooner than one worker alone;
// "" where that is not known.
func pays(t *Task) string {
	alone := baselineOf(t)
	if alone == nil || len(t.choices()) == 0 {
		return ""
	}
	where := ""
	if t.Virtual {
		where = " at network.bandwidth=" + t.Configs[0].Runs[0].Config.Show("network.bandwidth")
	}
	first := slices.MinFunc(t.choices(), func(a, b *Config) int { return cmp.Compare(a.time(t), b.time(t)) })
	x, y := first.time(t), alone.time(t)
	if !finite(x) && !finite(y) {
		return ""
	}
	what, at := "as many samples", func(x *Trial) float64 { return reachedIn(t, x) }
	switch {
	case isReached(t):
		what, at = t.Goal(), func(x *Trial) float64 { return wayTo(t, x, seconds).at }
	case t.Learned(): // ends that are as good as each other are not known
		return ""
	}
	figures := fmt.Sprintf("one worker alone takes %s to %s, and %s, the soonest of the others, %s", orNever(y), what, first.Label, orNever(x))
	if finite(x) && finite(y) && x > 0 {
		figures += ": a speed-up of " + store.SpeedUp(y/x)
	}
	sooner, told := against(t, first, alone, at)
	verdict := "Distribution does not pay"
	if sooner {
		verdict = "Distribution pays"
	}
	switch {
	case len(first.Trials) == 1 || len(alone.Trials) == 1:
		return fmt.Sprintf("%s%s, in one run: %s.", verdict, where, figures)
	case told:
		return fmt.Sprintf("%s%s: %s.", verdict, where, figures)
	}
	return fmt.Sprintf("That distribution pays%s is not shown: %s, which cannot be told apart.", where, figures)
}

// against reports whether the soonest of the choices is sooner than one worker alone, and
// whether seeds and draws tell: by Welch's or the paired test on logarithms at Sidak's level
// for all choices, of which the soonest is one, and by the distance between evaluations.
func against(t *Task, first, alone *Config, at func(*Trial) float64) (sooner, told bool) {
	logs := func(c *Config) map[uint64]float64 {
		out := map[uint64]float64{}
		for _, trial := range c.Trials {
			out[trial.Config.Seed] = math.Log(at(trial))
		}
		return out
	}
	d, _ := stats.Compare(logs(first), logs(alone))
	p := -math.Expm1(float64(len(t.choices())) * math.Log1p(-d.P))
	x, y := first.time(t), alone.time(t)
	sooner, told = x < y, p < stats.Level && (d.Mean > 0) == (x < y)
	if isReached(t) && math.Abs(x-y) <= max(evaluated(t, first, seconds), evaluated(t, alone, seconds)) {
		told = false
	}
	if ahead := isBefore(t, first, alone); t.draws > 0 && max(ahead, 1-ahead) < 1-stats.Level {
		told = false
	}
	return sooner, told
}

func orNever(x float64) string {
	if finite(x) {
		return progress.Seconds(x)
	}
	return "never"
}
