package reproduce

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/stats"
)

// SmithEquivalence compares a rate that falls with a batch that grows (Smith,
// Kindermans, Ying and Le 2017).
type SmithEquivalence struct{}

var _ = Studies.Add("smith-equivalence", "a batch that grows where the rate would fall: the same curves in fewer updates", SmithEquivalence{})

// Group implements Study.
func (SmithEquivalence) Group() Group { return LargeBatch }

// Mechanisms implements Study.
func (SmithEquivalence) Mechanisms() []Mechanism {
	return []Mechanism{
		{Name: "growth", Doc: "the batch stays as it is", Off: swap("batch_schedule", `^growth.*`, "fixed"), Slow: true},
	}
}

// Run implements Study.
func (s SmithEquivalence) Run(ctx context.Context, lab *Lab) (*Report, error) {
	m := lab.minibatch()
	const factor, third = 4, 4 // falls at epochs 4 and 8 of 12
	first, second := third, 2*third
	epoch := m.size / m.small
	r := &Report{
		Title: "the rate divided by four, or the batch multiplied by four",
		Source: "Smith, Kindermans, Ying and Le 2017 (abstract): a growing batch gives the same learning curve, in training and test, after the same epochs with fewer updates; " +
			"the first rate can be raised too, with the batch in proportion",
		Stated: append(m.stated(),
			fmt.Sprintf("the rate is divided, or the batch multiplied, by %d at epochs %d and %d of %d; the first batch is %d", factor, first, second, m.epochs, m.small),
			fmt.Sprintf("larger from the start: batch %d and four times the rate; the batch grows at epoch %d, and at %d, where it would be a third of the training set, the rate falls", 4*m.small, first, second),
			"the rate is tuned for the side whose rate falls; the others take it over"),
	}
	c := &contest{lab: lab, keys: m.keys(), tries: m.tries, seeds: 5}
	falls := c.tune("rate falls", grid(m.rates(), nil, func(x float64, _ string) []string {
		return []string{batchOf(m.small), nesterov(""), fmt.Sprintf("eval_every=%d", epoch), fmt.Sprintf("schedule=step(lr=%g,factor=%g,at=[%d,%d])", x, 1.0/factor, first, second)}
	}))
	grows := c.follow(falls, "batch grows", grid(m.rates(), nil, func(x float64, _ string) []string {
		return []string{batchOf(m.small), nesterov(""), fmt.Sprintf("eval_every=%d", epoch), fmt.Sprintf("schedule=constant(lr=%g)", x),
			fmt.Sprintf("batch_schedule=growth(factor=%d,at=[%d,%d])", factor, first, second)}
	}))
	larger := c.follow(falls, "larger from the start", grid(m.rates(), nil, func(x float64, _ string) []string {
		return []string{batchOf(4 * m.small), nesterov(""), fmt.Sprintf("eval_every=%d", epoch/4), fmt.Sprintf("schedule=step(lr=%g,factor=%g,at=[%d])", 4*x, 1.0/factor, second),
			fmt.Sprintf("batch_schedule=growth(factor=%d,at=[%d])", factor, first)}
	}))
	if err := c.hold(ctx); err != nil {
		return nil, err
	}
	c.tables(r, "the rate", falls)
	stage := third * epoch // updates of four epochs at the first batch
	r.exactly(Claim, "rate falls: updates", "", float64(3*stage), float64(falls.first().Steps))
	r.exactly(Claim, "batch grows: updates, 1 + 1/4 + 1/16 of a third of those", "", float64(stage+stage/4+stage/16), float64(grows.first().Steps))
	r.exactly(Claim, "larger from the start: updates, 1/4 + 1/16 + 1/16 of a third of those", "", float64(stage/4+stage/16+stage/16), float64(larger.first().Steps))
	r.noWorse(Claim, grows, falls)
	r.noWorse(Claim, larger, falls)
	curves, err := s.curves(r, m.epochs, falls, grows, larger)
	r.Tables = append(r.Tables, curves)
	return r, err
}

// curves compares accuracies at the epochs that all sides were evaluated at. The
// first one is the reference.
func (SmithEquivalence) curves(r *Report, epochs int, sides ...*side) (figure.Table, error) {
	t := figure.Table{Title: "test accuracy in % after so many epochs, mean and 95 % interval; paired differences to the first", Header: []string{"epoch"}}
	at := make([]map[int]map[uint64]float64, len(sides))
	for i, s := range sides {
		t.Header = append(t.Header, s.name)
		if i > 0 {
			t.Header = append(t.Header, "difference")
		}
		var err error
		if at[i], err = s.byEpoch(); err != nil {
			return t, err
		}
	}
	apart := make([]float64, len(sides))
	for e := 1; e <= epochs; e++ {
		row := []string{fmt.Sprint(e)}
		for i := range sides {
			if at[i][e] == nil {
				break
			}
			row = append(row, plusMinus(summary(at[i][e])))
			if i > 0 {
				d := stats.Paired(at[0][e], at[i][e])
				apart[i] = max(apart[i], math.Abs(d.Mean)-d.Half)
				row = append(row, fmt.Sprintf("%+.2f ± %.2f", d.Mean, d.Half))
			}
		}
		if len(row) == len(t.Header) {
			t.Rows = append(t.Rows, row)
		}
	}
	for i, s := range sides[1:] {
		r.between(Claim, s.name+": its curve is that of "+sides[0].name+", to the intervals and half a point: most that it is apart beyond its interval", "points", 0, apart[i+1], 0, slack)
	}
	return t, nil
}

// byEpoch is the test accuracy in per cent by whole epoch and seed.
func (s *sample) byEpoch() (map[int]map[uint64]float64, error) {
	out := map[int]map[uint64]float64{}
	for _, run := range s.Runs {
		m, err := run.Curve()
		if err != nil {
			return nil, err
		}
		for _, e := range m.Evals {
			at := int(math.Round(e.Epoch))
			if math.Abs(e.Epoch-float64(at)) > 1e-6 {
				continue
			}
			if out[at] == nil {
				out[at] = map[uint64]float64{}
			}
			out[at][run.Config.Seed] = 100 * e.Values["accuracy"]
		}
	}
	return out, nil
}

// summary describes values by seed.
func summary(by map[uint64]float64) stats.Summary {
	var x []float64
	for _, v := range by {
		x = append(x, v)
	}
	slices.Sort(x) // sums do not depend on the order of a map
	return stats.Summarize(x)
}
