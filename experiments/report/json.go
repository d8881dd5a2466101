package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Summary is what a task's runs say, as data: one JSON object.
type Summary struct {
	Facet    string      `json:"facet"`  // what was computed, and where, as the page is headed
	Target   record.Goal `json:"target"` // 0: none
	Seeds    int         `json:"seeds"`  // most of a configuration
	Answers  Answers     `json:"answers"`
	Baseline *Baseline   `json:"baseline"` // one worker alone; null: it is not there
	// Crossings are where the best configurations over a swept key change places, of this
	// facet or of several that differ in the key.
	Crossings []Crossing `json:"crossings"`
}

// Answers are the winners in all that is asked for; null where that is not known.
type Answers struct {
	Soonest      *Winner `json:"soonest"`       // seconds to the target
	FewestBytes  *Winner `json:"fewest_bytes"`  // bytes to the target
	MostAccurate *Winner `json:"most_accurate"` // best value of the metric by which runs are compared: least loss, say
}

// Winner is a configuration that is first in something.
type Winner struct {
	Configuration string      `json:"configuration"`
	Value         store.Maybe `json:"value"` // median of the way to the target; mean of the best score
	// Low and High are where nine cases of ten lie, over seeds and, of seconds, draws; of
	// the best score the 95 % interval of the mean.
	Low         store.Maybe `json:"low"`
	High        store.Maybe `json:"high"`
	Probability store.Maybe `json:"probability"` // of being first, over the same; null: one seed and no draws tell none
	Ties        []string    `json:"ties"`        // that cannot be told from it
	RunnerUp    string      `json:"runner_up"`   // "": there is none
	Ratio       store.Maybe `json:"ratio"`       // its value over the winner's
}

// Baseline is one worker alone.
type Baseline struct {
	Configuration string      `json:"configuration"`
	Seconds       store.Maybe `json:"seconds"` // to the target, in the median; null: it never gets there
}

// Summary is the task's answer as data.
func (t *Task) Summary() Summary {
	d := Summary{Facet: t.Title(), Target: t.Target, Crossings: []Crossing{}}
	for _, v := range t.views {
		d.Crossings = append(d.Crossings, v.Crossings...)
	}
	for _, c := range t.Configs {
		d.Seeds = max(d.Seeds, len(c.Trials)+c.Failed)
	}
	if alone := baselineOf(t); alone != nil {
		d.Baseline = &Baseline{alone.Label, store.Maybe(alone.time(t))}
	}
	if isReached(t) || !t.Learned() {
		d.Answers.Soonest = t.winner(t.soonest, func(c *Config) float64 { return c.time(t) }, func(c *Config) (low, high float64) { return liesIn(t, c) }, leadsOf(t, true, func(x *Trial) float64 { return reachedIn(t, x) }))
	}
	if bytes := t.bytesOf; (isReached(t) || !t.Learned()) && isCrossing(t) {
		d.Answers.FewestBytes = t.winner(t.lightest, t.lightest.middle, func(c *Config) (low, high float64) {
			var all []float64
			for _, x := range c.Trials {
				all = append(all, bytes(x))
			}
			s := stats.Summarize(all)
			return s.Min, s.Max
		}, leadsOf(t, false, bytes))
	}
	if t.Learned() && len(t.choices()) > 0 {
		sign := signOf(t)
		d.Answers.MostAccurate = t.winner(t.keenest, func(c *Config) float64 { return sign * t.keenest.middle(c) },
			func(c *Config) (low, high float64) { return c.Best.Mean - c.Best.Half, c.Best.Mean + c.Best.Half },
			leadsOf(t, false, func(x *Trial) float64 { return sign * bestOf(x.Run, t.Target) }))
	}
	return d
}

// bytesOf are a trial's bytes to the target, or of its whole run where nothing is to be
// reached; +Inf: it never got there.
func (t *Task) bytesOf(x *Trial) float64 {
	if !t.Target.Asked() {
		return float64(x.Crossed(x.Result.BytesUp, x.Result.BytesDown))
	}
	for _, e := range x.Curve.Evals {
		if t.Target.Reached(e) {
			return x.Crossing(e)
		}
	}
	return math.Inf(1)
}

// winner is the choice that is first in a contest; nil: none gets there.
func (t *Task) winner(c *contest, value func(*Config) float64, lies func(*Config) (low, high float64), leads []Lead) *Winner {
	order := t.choices()
	slices.SortStableFunc(order, func(a, b *Config) int { return cmp.Compare(c.middle(a), c.middle(b)) })
	if len(order) == 0 || !finite(c.middle(order[0])) {
		return nil
	}
	first := order[0]
	low, high := lies(first)
	w := &Winner{Configuration: first.Label, Value: store.Maybe(value(first)), Low: store.Maybe(low), High: store.Maybe(high),
		Probability: store.Maybe(math.NaN()), Ties: []string{}, Ratio: store.Maybe(math.NaN())}
	for _, l := range leads {
		if l.Config == first {
			w.Probability = store.Maybe(l.P)
		}
	}
	others := order[1:]
	slices.SortFunc(others, func(a, b *Config) int { // equals alike in all facets, so that their rows of the box can be one
		return cmp.Or(cmp.Compare(c.middle(a), c.middle(b)), cmp.Compare(a.Label, b.Label))
	})
	for i, o := range others {
		if i == 0 {
			w.RunnerUp, w.Ratio = o.Label, store.Maybe(value(o)/value(first))
		}
		if c.order(first, o) == 0 {
			w.Ties = append(w.Ties, o.Label)
		}
	}
	return w
}
