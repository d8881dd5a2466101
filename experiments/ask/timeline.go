package ask

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/comm/pipeline"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/internal/regular"
)

// TimelineQuestion asks what devices do under a pipeline's schedule. Either Schedule with
// Stages and Micros says which plan, or File, in the form of torch.distributed.pipelining.
type TimelineQuestion struct {
	Schedule       string // spec text of pipeline.Schedules
	Stages, Micros int    // devices that hold a model's stages, micro-batches of a batch
	File           string
	Times          pipeline.Times
}

// Timeline is the answer: the plan, proved, and what it takes.
type Timeline struct {
	Schedule string         `json:"schedule"` // or the file
	Plan     *pipeline.Plan `json:"plan"`
	Cost     *pipeline.Cost `json:"cost"`
	Costs    []TimelineCost `json:"costs"` // of all schedules, this one first
}

// TimelineCost is the price of one schedule, for as many devices and micro-batches.
type TimelineCost struct {
	Schedule string  `json:"schedule"`
	Time     float64 `json:"time"`    // in the unit of the question's times
	Waiting  float64 `json:"waiting"` // share of it in which a device does nothing
	Held     float64 `json:"held"`    // the most micro-batches whose activations in all its stages a device holds
}

// mostCells bounds a plan that is made to be shown.
const mostCells = 1 << 20

// AnswerTimeline makes or reads a plan, proves and prices it, and sets all schedules beside
// it. The error says what is wrong with the question.
func AnswerTimeline(q TimelineQuestion) (*Timeline, error) {
	p, err := q.plan()
	if err != nil {
		return nil, err
	}
	cost, err := pipeline.Price(p, q.Times)
	if err != nil {
		return nil, err
	}
	t := &Timeline{Schedule: q.Schedule, Plan: p, Cost: cost}
	if q.File != "" {
		t.Schedule = q.File
	}
	add := func(name string, p *pipeline.Plan, cost *pipeline.Cost) {
		held := float64(slices.Max(cost.Held)*len(p.Devices)) / float64(len(p.Stages))
		t.Costs = append(t.Costs, TimelineCost{name, cost.Seconds, waiting(cost), held})
	}
	add(t.Schedule, p, cost)
	for _, name := range pipeline.Schedules.Names() {
		s, _ := pipeline.Schedules.Proto(name)
		if spec := pipeline.Schedules.Spec(s); spec != q.Schedule && name != q.Schedule {
			plan, err := s.Plan(len(p.Devices), p.Micros)
			if err != nil { // not for these numbers
				continue
			}
			cost, err := pipeline.Price(plan, divided(q.Times, p, plan))
			if err != nil {
				return nil, err
			}
			add(spec, plan, cost)
		}
	}
	return t, nil
}

// plan makes or reads the plan.
func (q TimelineQuestion) plan() (*pipeline.Plan, error) {
	if q.File != "" {
		b, err := regular.ReadFile(q.File, regular.Text)
		if err != nil {
			return nil, err
		}
		p, err := pipeline.ReadCSV(strings.NewReader(string(b)))
		if err == nil {
			err = pipeline.Verify(p)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.File, err)
		}
		return p, nil
	}
	s, err := pipeline.Schedules.Parse(q.Schedule)
	if err != nil {
		return nil, err
	}
	if q.Stages < 1 || q.Micros < 1 || q.Stages > mostCells/q.Micros {
		return nil, fmt.Errorf("%d stages and %d micro-batches: want at least 1 of each, and a product up to %d", q.Stages, q.Micros, mostCells)
	}
	return s.Plan(q.Stages, q.Micros)
}

// Write draws the timeline, in width columns or as many as it needs if that is 0, and
// writes the table of all schedules. style is that of [figure.Table.Write].
func (t *Timeline) Write(w io.Writer, style string, width int) error {
	if err := t.Cost.Draw(w, t.Plan, width); err != nil {
		return err
	}
	table := figure.Table{Header: []string{"schedule", "time", "waiting", "held"}, Right: figure.AllButFirst(4)}
	for _, c := range t.Costs {
		table.Rows = append(table.Rows, []string{c.Schedule, fmt.Sprintf("%.6g", c.Time), fmt.Sprintf("%.1f %%", 100*c.Waiting), fmt.Sprintf("%.3g", c.Held)})
	}
	return table.Write(w, style, width)
}

// waiting is the mean share of the time in which devices do nothing.
func waiting(c *pipeline.Cost) float64 {
	if c.Seconds == 0 {
		return 0
	}
	sum := 0.0
	for _, w := range c.Wait {
		sum += w / c.Seconds
	}
	return sum / float64(len(c.Wait))
}

// divided gives another plan the times of the same model: where it has k times as many
// stages, each is that part of one. Times that differ by stage cannot be parted, so their
// mean is taken.
func divided(t pipeline.Times, of, to *pipeline.Plan) pipeline.Times {
	part := float64(len(of.Stages)) / float64(len(to.Stages))
	for _, times := range []*[]float64{&t.Forward, &t.Inputs, &t.Weights} {
		if len(*times) > 1 && part == 1 {
			continue
		}
		sum := 0.0
		for _, v := range *times {
			sum += v
		}
		*times = []float64{sum / float64(len(*times)) * part}
	}
	return t
}
