package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/sgd"
)

// Answer is what the task's runs say, in sentences, the most important first. The
// last ones say what the virtual clock billed codecs at.
func (t *Task) Answer() []string {
	out := t.answer()
	if p := pays(t); p != "" { // behind the first sentence, which says what is soonest
		out = slices.Insert(out, min(1, len(out)), p)
	}
	var results []*experiments.Result
	for _, c := range t.Configs {
		for _, trial := range c.Trials {
			results = append(results, trial.Result)
		}
	}
	if len(t.mixed) > 0 {
		out = append(out, fmt.Sprintf("Some of these runs have metric=%s and others metric=%s: all are compared by %s; --target 'loss<=1.9' has them compared by loss.", t.mixed[1], t.mixed[0], t.Target.Metric.Head()))
	}
	out = append(out, bottlenecks(t)...)
	if len(t.choices()) > 1 && isRepeated(t) {
		out = append(out, "What seeds tell is told "+tested+".")
	}
	if n := clockNote(t); n != "" {
		out = append(out, n)
	}
	if t.share.OfBest && t.Target.Asked() {
		out = append(out, fmt.Sprintf("The target, %s, is %s of the %s that a run reached.", t.Goal(), percent(t.share.Value), t.Target.Metric.Best()))
	}
	for _, n := range experiments.CodecNotes(results) {
		out = append(out, "In virtual time "+n+".")
	}
	return out
}

func (t *Task) answer() []string {
	if !t.Learned() {
		return cheapest(t)
	}
	if len(t.Configs) == 1 {
		c := t.Configs[0]
		return []string{fmt.Sprintf("One configuration: %s reaches %s %s of %s in %s and %s.",
			c.Label, article(t.Target.Metric.Head()), t.Target.Metric.Head(), words(c.Score, t.score), progress.Seconds(c.Seconds.Mean), bytesText(c.Bytes.Mean))}
	}
	if len(t.choices()) == 0 {
		return append([]string{"No configuration that works together learns anything."}, asides(t)...)
	}
	var out []string
	if t.Target.Asked() {
		out = append(out, strings.TrimSpace(probably(t)+" "+firstTo(t, seconds)), differ(t))
		if isCrossing(t) {
			out = append(out, firstTo(t, crossed))
		}
		out = append(out, firstTo(t, updates))
	}
	best := t.best()
	winner := t.Target.Metric.Winner()
	s := fmt.Sprintf("%s, at the best evaluation: %s, %s, and %s at the end.", strings.ToUpper(winner[:1])+winner[1:], best.Label, words(best.Best, t.score), t.score(best.Score.Mean))
	var same, worse, unknown, equal []string
	for _, c := range t.choices() {
		switch {
		case c == best:
		case c.Behind.Same:
			equal = append(equal, c.Label)
		case !t.keenest.tells(best, c):
			unknown = append(unknown, c.Label)
		case t.keenest.beats(best, c):
			worse = append(worse, c.Label)
		default:
			same = append(same, c.Label)
		}
	}
	if len(equal) > 0 {
		s += fmt.Sprintf(" %s learns the same to the last bit.", list(equal))
		if len(equal) > 1 {
			s = strings.Replace(s, "learns the same", "learn the same", 1)
		}
	}
	switch {
	case len(same)+len(worse) == 0 && !isRepeated(t):
		s += " With one seed each, nothing says which differences would come again."
	case len(same)+len(worse) == 0:
	case len(same) == 0 && len(unknown) == 0:
		s += " All others are behind it by more than the seeds explain."
	case len(same) == 0:
		s += fmt.Sprintf(" %s %s behind it by more than the seeds explain; of %s there are too few seeds.", list(worse), are(len(worse)), list(unknown))
	case len(worse) == 0 && len(unknown) == 0:
		s += " The seeds do not tell it from any other."
	default:
		s += fmt.Sprintf(" The seeds do not tell it from %s.", list(same))
	}
	out = append(out, s, onFront(t))
	if !t.Target.Asked() {
		how := "0.9 asks for one, --target 0.95best for 95 % of the best"
		if m := t.Target.Metric; m.LessIsBetter {
			how = fmt.Sprintf("'%s<=1.9' asks for one, --target '%s<=1.05best' for 105 %% of the least", m.Name, m.Name)
		} else if m.Unit != sgd.Share {
			how = fmt.Sprintf("'%s>=1.9' asks for one, --target '%s>=0.95best' for 95 %% of the best", m.Name, m.Name)
		}
		out = append(out, fmt.Sprintf("Which is soonest depends on the %s wanted, and these runs agree on none: --target %s.", t.Target.Metric.Head(), how))
	}
	said := slices.DeleteFunc(append(out, asides(t)...), func(s string) bool { return s == "" })
	return slices.Compact(said) // that no configuration reaches the target is said once
}

// asides are about configurations that are no choice.
func asides(t *Task) (out []string) {
	var lost []string
	var level, above float64
	for _, c := range t.Configs {
		if c.AtChance {
			lost = append(lost, c.Label)
			level, above = c.chance()
		}
		if !c.Alone || c.AtChance {
			continue
		}
		s := fmt.Sprintf("To measure against: %s, which sends nothing, ", c.alone())
		if m := c.ToSeconds.Median; t.Target.Asked() && !math.IsInf(m, 1) && !math.IsNaN(m) {
			s += fmt.Sprintf("takes %s to %s and ", progress.Seconds(m), t.Goal())
		}
		out = append(out, s+fmt.Sprintf("ends at %s after %s.", words(c.Score, t.score), progress.Seconds(c.Seconds.Mean)))
	}
	if len(lost) > 0 {
		out = append(out, fmt.Sprintf("No better than always answering the same (%s, up to %s by luck), and so no choice: %s.", percent(level), percent(above), list(lost)))
	}
	return out
}

// Asked names what choices compete in.
func (t *Task) Asked() string {
	time, bytes := "time", "bytes"
	if t.Target.Asked() {
		time, bytes = "time to "+t.Goal(), "bytes to "+t.Goal()
	}
	what := []string{time}
	if isCrossing(t) {
		what = append(what, bytes)
	}
	if t.Learned() {
		what = append(what, t.Target.Metric.Best())
	}
	return list(what)
}

// onFront words which configurations are on the Pareto front.
func onFront(t *Task) string {
	front, choices := t.front(), t.choices()
	of := t.Asked()
	if len(front) == len(choices) {
		if len(front) == 1 {
			return ""
		}
		return fmt.Sprintf("No configuration dominates another: all %d are on the Pareto front of %s.", len(front), of)
	}
	var names []string
	for _, c := range front {
		names = append(names, c.Label)
	}
	return fmt.Sprintf("On the Pareto front of %s %s %d of %d: %s.", of, are(len(front)), len(front), len(choices), list(names))
}

// cheapest words the answer where nothing was learned.
func cheapest(t *Task) []string {
	least := func(what string, of func(*Config) float64, word func(float64) string) string {
		cs := slices.Clone(t.choices())
		slices.SortStableFunc(cs, func(a, b *Config) int { return cmp.Compare(of(a), of(b)) })
		s := fmt.Sprintf("%s: %s, %s", what, cs[0].Label, word(of(cs[0])))
		if len(cs) > 1 && of(cs[0]) > 0 {
			s += fmt.Sprintf("; next is %s, %s, %.1f times", cs[1].Label, word(of(cs[1])), of(cs[1])/of(cs[0]))
		}
		return s + "."
	}
	out := []string{least("Fastest", func(c *Config) float64 { return c.Seconds.Mean }, progress.Seconds)}
	if isCrossing(t) {
		out = append(out, least("Fewest bytes", func(c *Config) float64 { return c.Bytes.Mean }, bytesText))
	}
	if len(t.choices()) > 1 {
		out = append(out, onFront(t))
	}
	for _, c := range t.Configs {
		if c.Alone {
			out = append(out, fmt.Sprintf("To measure against: %s, which sends nothing, takes %s.", c.alone(), progress.Seconds(c.Seconds.Mean)))
		}
	}
	return out
}

func isRepeated(t *Task) bool {
	return slices.ContainsFunc(t.Configs, func(c *Config) bool { return len(c.Trials) > 1 })
}

// article is that of a noun.
func article(noun string) string {
	if strings.ContainsAny(noun[:min(1, len(noun))], "aeiouAEIOU") {
		return "an"
	}
	return "a"
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func list(names []string) string {
	if n := len(names); n > 5 {
		return strings.Join(names[:4], ", ") + fmt.Sprintf(" and %d more", n-4)
	} else if n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

func percent(x float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.2f", 100*x), ".00") + " %"
}

func bytesText(x float64) string { return progress.Bytes(uint64(max(0, x))) }

// words is a mean with half its 95 % interval, or the range of two values.
func words(s stats.Summary, word func(float64) string) string {
	switch {
	case s.N == 2 && s.Min < s.Max:
		return fmt.Sprintf("%s (%s to %s)", word(s.Mean), word(s.Min), word(s.Max))
	case s.N > 2 && s.Half > 0:
		return word(s.Mean) + " ± " + word(s.Half)
	}
	return word(s.Mean)
}

// reached words how far it was to the target.
func reached(r stats.Reach, word func(float64) string) string {
	switch {
	case r.N == 0:
		return ""
	case r.Reached == 0:
		return "never"
	case math.IsInf(r.Median, 1):
		return fmt.Sprintf("%d of %d seeds", r.Reached, r.N)
	case r.Reached < r.N:
		return fmt.Sprintf("%s (%d of %d)", word(r.Median), r.Reached, r.N)
	}
	return word(r.Median)
}
