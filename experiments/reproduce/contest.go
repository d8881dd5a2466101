package reproduce

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/stats"
)

// A contest compares ways to train, its sides, after each was tuned with the same
// budget: as many candidates, each over the same seeds at its full length (Nado et
// al. 2021). Choices are made on samples held out of the training set and on seeds
// that are not reported. What is reported was trained on the whole training set,
// with seeds 1 … seeds, and evaluated on the test set.
type contest struct {
	lab   *Lab
	keys  []string // of every run
	tries int      // seeds of a candidate: 101, 102, …
	seeds int      // seeds reported
	// score is what the best setting has most of; nil: accuracy. NaN is the least.
	score func(*sample) float64
	sides []*side
}

// heldOut is the share of the training set that choices are made on.
const heldOut = 0.1

// firstTry is the first seed of those that choices are made with.
const firstTry = 101

// side is one way to train. The sample of its reported runs is there once the
// contest has been held.
type side struct {
	name       string
	candidates []candidate
	like       *side // whose choice this side takes over, without a budget of its own; nil: it is tuned
	tried      []*sample
	chosen     int
	*sample
}

// candidate is one setting of what is tuned.
type candidate struct {
	name string // as "0.1, decay 5e-4"
	keys []string
	edge bool // the least or the greatest of a grid
}

// grid is a candidate for each rate, ascending, and each further knob, "" being none.
func grid(rates []float64, knobs []string, keys func(rate float64, knob string) []string) (out []candidate) {
	if len(knobs) == 0 {
		knobs = []string{""}
	}
	for _, knob := range knobs {
		for i, rate := range rates {
			name := fmt.Sprintf("%g", rate)
			if knob != "" {
				name += " " + knob
			}
			out = append(out, candidate{name, keys(rate, knob), len(rates) > 1 && (i == 0 || i == len(rates)-1)})
		}
	}
	return out
}

// octaves are n values from the first, each twice the one before.
func octaves(first float64, n int) (out []float64) {
	for i := range n {
		out = append(out, first*math.Pow(2, float64(i)))
	}
	return out
}

// tune enters a side that is tuned.
func (c *contest) tune(name string, candidates []candidate) *side {
	s := &side{name: name, candidates: candidates}
	c.sides = append(c.sides, s)
	return s
}

// follow enters a side that takes over what was chosen for another one: its
// candidate of the same index.
func (c *contest) follow(like *side, name string, candidates []candidate) *side {
	s := c.tune(name, candidates)
	s.like = like
	return s
}

// fair says whether the sides can be compared.
func (c *contest) fair() error {
	budget := 0
	for _, s := range c.sides {
		switch {
		case len(s.candidates) == 0:
			return fmt.Errorf("side %q has no candidate", s.name)
		case s.like != nil && len(s.like.candidates) != len(s.candidates):
			return fmt.Errorf("side %q has %d candidates, and %q, whose choice it takes over, has %d", s.name, len(s.candidates), s.like.name, len(s.like.candidates))
		case s.like != nil:
		case budget != 0 && len(s.candidates) != budget:
			return fmt.Errorf("side %q has %d candidates, others %d: budgets must be equal", s.name, len(s.candidates), budget)
		default:
			budget = len(s.candidates)
		}
	}
	if c.tries < 1 || c.seeds < 2 || c.seeds >= firstTry {
		return errors.New("a contest wants a seed for its choices, and 2 to 100 that are reported")
	}
	return nil
}

// hold tunes every side, and then runs what was chosen.
func (c *contest) hold(ctx context.Context) error {
	if err := c.fair(); err != nil {
		return err
	}
	tuning := c.lab.plan(c.tries)
	tuning.first = firstTry
	for _, s := range c.sides {
		s.tried = nil
		for _, k := range s.candidates {
			if s.like == nil && len(s.candidates) > 1 {
				s.tried = append(s.tried, tuning.add(fmt.Sprintf("tuning %s, %s", s.name, k.name), slices.Concat(c.keys, k.keys, []string{fmt.Sprintf("validation=%g", heldOut)})...))
			}
		}
	}
	if err := tuning.make(ctx); err != nil {
		return err
	}
	reported, same := c.lab.plan(c.seeds), map[string]*sample{} // two sides may have come to one configuration
	for _, s := range c.sides {
		s.chosen = c.best(s.tried)
	}
	for _, s := range c.sides {
		if s.like != nil {
			s.chosen = s.like.chosen
		}
		k := s.candidates[s.chosen]
		config := strings.Join(k.keys, " ")
		if same[config] == nil {
			same[config] = reported.add(fmt.Sprintf("%s, %s", s.name, k.name), slices.Concat(c.keys, k.keys)...)
		}
		s.sample = same[config]
	}
	return reported.make(ctx)
}

// best is the index of the best of those tried, the first of equal ones.
func (c *contest) best(tried []*sample) (at int) {
	score, most := c.score, math.NaN()
	if score == nil {
		score = (*sample).mean
	}
	for i, t := range tried {
		if x := score(t); x > most || math.IsNaN(most) && !math.IsNaN(x) {
			at, most = i, x
		}
	}
	return at
}

// setting names what a side was run with.
func (s *side) setting() string { return s.candidates[s.chosen].name }

// narrow says which sides chose the edge of their grid, so that a wider one might
// serve them better.
func (c *contest) narrow() (notes []string) {
	for _, s := range c.sides {
		if s.like == nil && s.candidates[s.chosen].edge {
			notes = append(notes, fmt.Sprintf("%s chose the edge of its grid, %s: a wider grid might serve it better", s.name, s.setting()))
		}
	}
	return notes
}

// tables adds what was tuned, over what, and what was measured. Differences are to
// the side called reference.
func (c *contest) tables(r *Report, knobs string, reference *side) {
	tuned := figure.Table{
		Title: fmt.Sprintf("what was tuned: %s; accuracy in %% on the %g %% of the training set held out, mean of %s %s that are not reported",
			knobs, 100*heldOut, count(c.tries, "seed", "seeds"), seedRange(firstTry, c.tries)),
		Header: []string{"side", "budget", "chosen", "tried"},
	}
	result := figure.Table{
		Title:  fmt.Sprintf("test accuracy in %%, %d seeds, 95 %% intervals; paired differences to %s", c.seeds, reference.name),
		Header: []string{"side", "with", "updates", "accuracy", "difference", "p"},
	}
	for _, s := range c.sides {
		if s.like == nil {
			var tried []string
			for i, t := range s.tried {
				tried = append(tried, fmt.Sprintf("%s: %.2f", s.candidates[i].name, 100*t.mean()))
			}
			tuned.Rows = append(tuned.Rows, []string{s.name, count(len(s.candidates), "candidate", "candidates"), s.setting(), strings.Join(tried, "; ")})
		} else {
			tuned.Rows = append(tuned.Rows, []string{s.name, "none", s.setting(), "as " + s.like.name})
		}
		row := []string{s.name, s.setting(), fmt.Sprint(s.first().Steps), plusMinus(s.accuracy()), "", ""}
		if s != reference {
			d := stats.Paired(reference.bySeed(), s.bySeed())
			row[4], row[5] = fmt.Sprintf("%+.2f ± %.2f", d.Mean, d.Half), fmt.Sprintf("%.2g", d.P)
		}
		result.Rows = append(result.Rows, row)
	}
	r.Tables = append(r.Tables, tuned, result)
	r.Notes = append(r.Notes, c.narrow()...)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func seedRange(first, n int) string {
	if n == 1 {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d to %d", first, first+n-1)
}

// better adds the ordering that a source publishes: a is more accurate than b. It
// holds if the 95 % interval of the paired difference lies above zero. Otherwise a
// note says whether the interval leaves it open or contradicts the source.
func (r *Report) better(k Kind, a, b *side) {
	d := stats.Paired(b.bySeed(), a.bySeed())
	name := fmt.Sprintf("%s is better than %s", a.name, b.name)
	r.add(Point{Name: name + ": difference in accuracy", Unit: "points", Published: math.NaN(), Ours: d.Mean,
		Least: math.Nextafter(d.Half, math.Inf(1)), Most: math.MaxFloat64, Kind: k})
	if d.Mean-d.Half > 0 {
		return
	}
	if d.Mean+d.Half < 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("disagrees with the source: %s. Ours is the opposite, by %.2f ± %.2f points", name, -d.Mean, d.Half))
		return
	}
	r.Notes = append(r.Notes, fmt.Sprintf("not shown: %s. The interval, %+.2f ± %.2f points, includes zero", name, d.Mean, d.Half))
}

// slack bounds, in points of accuracy, what an interval may excuse where a side is
// said to be no worse.
const slack = 0.5

// noWorse adds that a is no less accurate than b, as a source publishes: up to the
// 95 % interval of the paired difference, and never by more than half a point.
func (r *Report) noWorse(k Kind, a, b *side) {
	d := stats.Paired(b.bySeed(), a.bySeed())
	name := fmt.Sprintf("%s is no worse than %s", a.name, b.name)
	p := Point{Name: name + ", to its interval or half a point: difference in accuracy", Unit: "points", Published: math.NaN(), Ours: d.Mean,
		Least: -min(d.Half, slack), Most: math.MaxFloat64, Kind: k}
	r.add(p)
	if !(d.Mean >= p.Least) {
		r.Notes = append(r.Notes, fmt.Sprintf("disagrees with the source: %s. Ours is worse by %.2f ± %.2f points", name, -d.Mean, d.Half))
	}
}
