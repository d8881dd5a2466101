package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/stats"
)

// onClusters lets the times of a task be those of draws of real clusters, where all of its
// configurations are drawn alike.
func onClusters(t *Task, drawn map[*Config]*Draws) {
	n := 0
	for _, c := range t.Configs {
		d := drawn[c]
		if d == nil || n > 0 && len(d.Seconds) != n {
			t.undrawn = append(t.undrawn, c.Label)
			continue
		}
		n = len(d.Seconds)
	}
	if len(t.undrawn) > 0 || n == 0 {
		return
	}
	t.draws = n
	for _, c := range t.Configs {
		t.drawnFrom = drawn[c].From
		clock := c.Trials[0].Result.VirtualSeconds
		for _, s := range drawn[c].Seconds {
			c.factors = append(c.factors, s/clock)
		}
		middle := stats.Median(c.factors)
		for _, trial := range c.Trials {
			trial.stretch = middle
		}
		c.Seconds = stats.Summarize(scaled(c.Group.Values(field("seconds")), middle))
		if t.Target.Asked() {
			var at []float64
			for _, trial := range c.Trials {
				at = append(at, reachedIn(t, trial))
			}
			for range c.Failed {
				at = append(at, math.Inf(1))
			}
			c.ToSeconds = stats.Reaching(at)
		}
		c.Low, c.High = liesIn(t, c)
	}
	t.compare()
}

func scaled(x []float64, by float64) (out []float64) {
	for _, v := range x {
		out = append(out, by*v)
	}
	return out
}

// clusters is how many times as long as in the median each draw of a configuration takes; 1
// where none were made.
func (c *Config) clusters() []float64 {
	if len(c.factors) == 0 {
		return []float64{1}
	}
	return scaled(c.factors, 1/stats.Median(c.factors))
}

// reachedIn is when a trial reached the target, or ended where nothing is to be reached;
// +Inf: never.
func reachedIn(t *Task, trial *Trial) float64 {
	if !t.Target.Asked() {
		return trial.Seconds() * trial.stretched()
	}
	for _, e := range trial.Curve.Evals {
		if t.Target.Reached(e) {
			return e.Seconds * trial.stretched()
		}
	}
	return math.Inf(1)
}

// liesIn is where nine in ten of a configuration's times to the target lie, or of its whole
// runs, over seeds and draws.
func liesIn(t *Task, c *Config) (low, high float64) {
	var all []float64
	for _, trial := range c.Trials {
		for _, f := range c.clusters() {
			all = append(all, reachedIn(t, trial)*f)
		}
	}
	slices.Sort(all)
	return quantile(all, 0.05), quantile(all, 0.95)
}

// isBefore is the probability that a configuration is sooner than another one, by draws; 1 if
// none were made. Seeds are those of its median.
func isBefore(t *Task, a, b *Config) float64 {
	if t.draws == 0 {
		return 1
	}
	n := 0.0
	x, y := a.clusters(), b.clusters()
	for i := range x {
		switch p, q := a.time(t)*x[i], b.time(t)*y[i]; {
		case p < q:
			n++
		case p == q:
			n += 0.5
		}
	}
	return n / float64(len(x))
}

// Lead is a choice and how probably it is first.
type Lead struct {
	Config *Config
	P      float64
}

// leadsOf are the probabilities with which choices are first in what value gives of a trial,
// less of which is better, +Inf: never; the most probable one first. Seeds that all of them have are
// paired, and draws are of the same clusters; ties are shared out. nil: one seed and no
// draw tells no probability.
func leadsOf(t *Task, drawn bool, value func(*Trial) float64) []Lead {
	choices := t.choices()
	if len(choices) < 2 {
		return nil
	}
	bySeed := map[uint64][]*Trial{}
	for _, c := range choices {
		for _, trial := range c.Trials {
			bySeed[trial.Config.Seed] = append(bySeed[trial.Config.Seed], trial)
		}
	}
	draws := 1
	if drawn && t.draws > 0 {
		draws = t.draws
	}
	factors := map[*Config][]float64{}
	for _, c := range choices {
		if factors[c] = []float64{1}; draws > 1 {
			factors[c] = c.clusters()
		}
	}
	won, cases := make([]float64, len(choices)), 0.0
	for _, trials := range bySeed {
		if len(trials) != len(choices) {
			continue
		}
		for d := range draws {
			cases++
			least, at := math.Inf(1), []int(nil)
			for i, trial := range trials { // in the order of the choices
				v := value(trial) * factors[choices[i]][d]
				if v < least {
					least, at = v, nil
				}
				if v == least && !math.IsInf(v, 1) {
					at = append(at, i)
				}
			}
			for _, i := range at {
				won[i] += 1 / float64(len(at))
			}
		}
	}
	if cases < 2 {
		return nil
	}
	var out []Lead
	for i, c := range choices {
		out = append(out, Lead{c, won[i] / cases})
	}
	slices.SortStableFunc(out, func(a, b Lead) int {
		return cmp.Or(cmp.Compare(b.P, a.P), cmp.Compare(a.Config.time(t), b.Config.time(t)))
	})
	return out
}

// probably words who is first how probably, and over what.
func probably(t *Task) string {
	leads := leadsOf(t, true, func(x *Trial) float64 { return reachedIn(t, x) })
	if leads == nil || leads[0].P == 0 {
		return ""
	}
	var rest []string
	sum := 0.0
	for _, l := range leads {
		if sum += l.P; l != leads[0] && l.P >= 0.005 {
			rest = append(rest, l.Config.Label)
		}
	}
	s := fmt.Sprintf("%s is first with probability %.2f", leads[0].Config.Label, leads[0].P)
	if len(rest) > 0 {
		s += fmt.Sprintf("; %s in the rest", list(rest))
	}
	if sum < 0.995 {
		s += fmt.Sprintf("; with probability %.2f none gets there", 1-sum)
	}
	return s + ", " + overWhat(t) + "."
}

// differ words why the choice that is first most probably is not the soonest in the median;
// "" where one is both.
func differ(t *Task) string {
	leads := leadsOf(t, true, func(x *Trial) float64 { return reachedIn(t, x) })
	if leads == nil {
		return ""
	}
	median := func(l Lead) float64 { return l.Config.ToSeconds.Median }
	often, soonest := leads[0], slices.MinFunc(leads, func(a, b Lead) int { return cmp.Compare(median(a), median(b)) })
	if !(median(soonest) < median(often)) {
		return ""
	}
	counted, step := "seed by seed", 0.0
	if t.draws > 0 {
		counted += " on the same draws"
	}
	for _, c := range t.choices() {
		step = max(step, evaluated(t, c, seconds))
	}
	return fmt.Sprintf("%s is first more often and %s is sooner in the median: first places are counted %s, a median is of each one's seeds by themselves, in steps of an evaluation (%s).",
		often.Config.Label, soonest.Config.Label, counted, progress.Seconds(step))
}

// overWhat says what probabilities are over.
func overWhat(t *Task) string {
	seeds := map[uint64]int{}
	for _, c := range t.choices() {
		for _, trial := range c.Trials {
			seeds[trial.Config.Seed]++
		}
	}
	n := 0
	for _, k := range seeds {
		if k == len(t.choices()) {
			n++
		}
	}
	s := fmt.Sprintf("over %d seeds", n)
	if n == 1 {
		s = "over one seed"
	}
	if t.draws > 0 {
		return s + fmt.Sprintf(" and %d draws of %s", t.draws, t.drawnFrom)
	}
	return s + stackOf(t)
}

// clockNote says what times are of, where they are not of draws; "" of wall clocks.
func clockNote(t *Task) string {
	if !t.Virtual || t.draws > 0 {
		return ""
	}
	s := "Times are those of the virtual clock" + stackOf(t) + ": what is not known of transport, device and codec rates is not in them"
	if len(t.undrawn) > 0 {
		s += fmt.Sprintf(", as it cannot be drawn for %s without computing gradients", list(t.undrawn))
	}
	return s + "."
}

// stackOf says on which software times of the virtual clock are.
func stackOf(t *Task) string {
	if !t.Virtual {
		return ""
	}
	return ", " + t.Configs[0].Runs[0].Config.Stack()
}
