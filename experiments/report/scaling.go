package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/stats"
)

// ladder is configurations that differ in their number of workers alone.
type ladder struct {
	label string
	rungs []*Config // by workers
}

func (c *Config) workers() int { return c.Trials[0].Config.Workers }

// throughput is the mean over seeds of samples a second.
func (c *Config) throughput() float64 {
	var v []float64
	for _, t := range c.Trials {
		if s := t.Seconds() * t.stretched(); s > 0 {
			v = append(v, float64(t.Result.Samples)/s)
		}
	}
	return stats.Summarize(v).Mean
}

// laddersOf joins configurations that agree in everything but workers. Those
// with a single number of workers say nothing about scaling.
func laddersOf(t *Task) []*ladder {
	var keys []string
	for _, k := range t.Varying {
		if k != "workers" {
			keys = append(keys, k)
		}
	}
	if len(keys) == len(t.Varying) {
		return nil
	}
	byLabel := map[string]*ladder{}
	var out []*ladder
	for _, c := range t.Configs {
		var parts []string
		for _, k := range keys {
			v := c.Trials[0].Config.Show(k)
			if len(keys) > 1 {
				v = k + "=" + v
			}
			parts = append(parts, v)
		}
		label := strings.Join(parts, " ")
		if label == "" {
			label = c.Trials[0].Recipe
		}
		l := byLabel[label]
		if l == nil {
			l = &ladder{label: label}
			byLabel[label] = l
			out = append(out, l)
		}
		l.rungs = append(l.rungs, c)
	}
	for _, l := range out {
		slices.SortStableFunc(l.rungs, func(a, b *Config) int { return cmp.Compare(a.workers(), b.workers()) })
	}
	return slices.DeleteFunc(out, func(l *ladder) bool { return len(l.rungs) < 2 })
}

func (l *ladder) points() []stats.Point {
	var out []stats.Point
	for _, c := range l.rungs {
		out = append(out, stats.Point{N: c.workers(), Throughput: c.throughput()})
	}
	return out
}

func scalingOf(t *Task) Section {
	ls := laddersOf(t)
	if len(ls) == 0 {
		return Section{}
	}
	s := Section{Name: "scaling", Title: "Scaling",
		Text: "Throughput is samples a second over the whole run; efficiency compares it with perfect scaling of the fewest workers. A fit needs three numbers of workers, and four to prove anything."}
	workers := figure.Axis{Label: "workers", Log: true}
	rate := figure.Figure{Title: "throughput", X: workers, Y: figure.Axis{Label: "samples a second", Log: true}}
	share := figure.Figure{Title: "efficiency", X: workers, Y: figure.Axis{Label: "of perfect scaling", Unit: figure.Percent}}
	if n := len(ls); folds(n) {
		s.Notes = append(s.Notes, fmt.Sprintf("Of %d that differ in workers alone the %d with the first of the table.", n, most))
		ls = ls[:most]
	}
	for _, l := range ls {
		ps := l.points()
		r, e := figure.Series{Name: l.label, Marks: true}, figure.Series{Name: l.label, Marks: true}
		for i, x := range stats.Efficiency(ps) {
			n := float64(ps[i].N)
			r.X, r.Y = append(r.X, n), append(r.Y, ps[i].Throughput)
			e.X, e.Y = append(e.X, n), append(e.Y, x)
		}
		rate.Series, share.Series = append(rate.Series, r), append(share.Series, e)
		s.Notes = append(s.Notes, l.label+": "+fitted(ps))
	}
	first := ls[0].points()
	ideal := figure.Series{Name: "perfect scaling of " + ls[0].label, Faded: true}
	for _, p := range first {
		ideal.X = append(ideal.X, float64(p.N))
		ideal.Y = append(ideal.Y, first[0].Throughput*float64(p.N)/float64(first[0].N))
	}
	rate.Series = append(rate.Series, ideal)
	s.Panels = []figure.Figure{rate, share}
	return s
}

// fitted words the law of scaling that the points follow.
func fitted(ps []stats.Point) string {
	law, err := stats.USL(ps)
	name := "universal scalability law"
	if err != nil {
		if law, err = stats.Amdahl(ps); err != nil {
			return err.Error()
		}
		name = "Amdahl's law"
	}
	s := fmt.Sprintf("%s with σ %.3g", name, law.Sigma)
	if law.Kappa > 0 {
		s += fmt.Sprintf(", κ %.3g", law.Kappa)
	}
	s += fmt.Sprintf(" (error %.1f %%)", 100*law.RMS)
	switch n, x := law.Limit(); {
	case math.IsInf(x, 1):
		return s + ": no limit in sight"
	case math.IsInf(n, 1):
		return s + fmt.Sprintf(": levels off at %.3g samples a second", x)
	default:
		return s + fmt.Sprintf(": at most %.3g samples a second, with %.0f workers", x, n)
	}
}
