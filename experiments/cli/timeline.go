package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/comm/pipeline"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/internal/regular"
)

func (e *env) timelineCommand() *cobra.Command {
	var times pipeline.Times
	var csvFile string
	var asJSON bool
	c := &cobra.Command{
		Use:   "timeline SCHEDULE|FILE.csv [STAGES MICROS]",
		Short: "A pipeline's schedule: what each device does when, and how long it waits",
		Long: `Timeline proves a schedule of a pipeline (gradlab list pipelines), draws it, and says
how long it takes and what devices hold, beside all other schedules. STAGES is the
number of devices that hold a model's stages, MICROS that of a batch's
micro-batches.

  gradlab timeline 1f1b 4 8
  gradlab timeline 'interleaved(chunks=3)' 4 8 --move 0.2

F3 is micro-batch 3 on its way forward, B3 on its way back. I3 makes the gradient of
a stage's inputs alone, W3 that of its weights. Before the letter stands the stage
where a device has several and there is room. A device waits where there are dots.

--forward, --inputs and --weights say how long the passes of a stage take, in any
unit: one value for all stages, or one each. Of schedules with several stages on a
device these are of the smaller stages. What moves between devices takes --move, and
nobody waits for the sender.

In the table, time is from the first pass to the last, waiting the share of it in
which a device does nothing, and held the most that a device holds at once: of how
many micro-batches the activations in all its stages. No row counts the update.

A file ending in .csv is a plan as torch.distributed.pipelining writes and reads it;
--csv writes one.`,
		Args: func(_ *cobra.Command, args []string) error {
			if file := len(args) > 0 && isPlanFile(args[0]); len(args) == 3 && !file || len(args) == 1 && file {
				return nil
			}
			return usageError{fmt.Errorf("timeline wants a schedule, a number of stages and one of micro-batches, or a file ending in .csv, not %q", args)}
		},
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := planOf(args)
			if err != nil {
				return usageError{err}
			}
			cost, err := pipeline.Price(p, times)
			if err != nil {
				return usageError{err}
			}
			if csvFile != "" {
				if err := writePlan(csvFile, p); err != nil {
					return err
				}
			}
			if asJSON {
				return json.NewEncoder(e.out).Encode(struct {
					Schedule string         `json:"schedule"`
					Plan     *pipeline.Plan `json:"plan"`
					Cost     *pipeline.Cost `json:"cost"`
				}{args[0], p, cost})
			}
			return tellTimeline(e.out, args[0], p, cost, times)
		},
	}
	f := c.Flags()
	f.Float64SliceVar(&times.Forward, "forward", []float64{1}, "time of a forward pass")
	f.Float64SliceVar(&times.Inputs, "inputs", []float64{1}, "time of the gradient of a stage's inputs")
	f.Float64SliceVar(&times.Weights, "weights", []float64{1}, "time of the gradient of a stage's weights")
	f.Float64Var(&times.Move, "move", 0, "time from one device to the next")
	f.Float64Var(&times.Hidden, "hidden", 0, "share of a forward pass that hides behind the backward pass it overlaps")
	f.StringVar(&csvFile, "csv", "", "file for the plan, as torch.distributed.pipelining reads it")
	f.BoolVar(&asJSON, "json", false, "one JSON document: every cell with its start and end")
	return c
}

func isPlanFile(name string) bool { return strings.HasSuffix(name, ".csv") }

// mostCells bounds a plan that is made for a command.
const mostCells = 1 << 20

// planOf makes or reads the plan that arguments name.
func planOf(args []string) (*pipeline.Plan, error) {
	if isPlanFile(args[0]) {
		b, err := regular.ReadFile(args[0], regular.Text)
		if err != nil {
			return nil, err
		}
		p, err := pipeline.ReadCSV(strings.NewReader(string(b)))
		if err == nil {
			err = pipeline.Verify(p)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", args[0], err)
		}
		return p, err
	}
	s, err := pipeline.Schedules.Parse(args[0])
	if err != nil {
		return nil, err
	}
	var n [2]int
	for i, what := range []string{"stages", "micro-batches"} {
		if n[i], err = strconv.Atoi(args[1+i]); err != nil || n[i] < 1 || n[i] > mostCells {
			return nil, fmt.Errorf("%s: want a number from 1 to %d, not %q", what, mostCells, args[1+i])
		}
	}
	if n[0]*n[1] > mostCells {
		return nil, fmt.Errorf("%d stages of %d micro-batches: want a product up to %d", n[0], n[1], mostCells)
	}
	return s.Plan(n[0], n[1])
}

func writePlan(path string, p *pipeline.Plan) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := p.WriteCSV(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// tellTimeline draws a plan, and sets it beside all schedules for as many devices and
// micro-batches.
func tellTimeline(w io.Writer, name string, p *pipeline.Plan, cost *pipeline.Cost, times pipeline.Times) error {
	if err := cost.Draw(w, p, width(w)); err != nil {
		return err
	}
	t := figure.Table{Header: []string{"schedule", "time", "waiting", "held"}, Right: figure.AllButFirst(4)}
	row := func(name string, p *pipeline.Plan, cost *pipeline.Cost) {
		held := float64(slices.Max(cost.Held)*len(p.Devices)) / float64(len(p.Stages))
		t.Rows = append(t.Rows, []string{name, fmt.Sprintf("%.6g", cost.Seconds), fmt.Sprintf("%.1f %%", 100*share(cost)), fmt.Sprintf("%.3g", held)})
	}
	row(name, p, cost)
	for _, other := range pipeline.Schedules.Names() {
		s, _ := pipeline.Schedules.Proto(other)
		if spec := pipeline.Schedules.Spec(s); spec != name && other != name {
			if plan, err := s.Plan(len(p.Devices), p.Micros); err == nil {
				if cost, err := pipeline.Price(plan, split(times, p, plan)); err == nil {
					row(spec, plan, cost)
				}
			}
		}
	}
	return t.Write(w, "box", width(w))
}

// share is the mean share of the time in which devices wait.
func share(c *pipeline.Cost) float64 {
	if c.Seconds == 0 {
		return 0
	}
	sum := 0.0
	for _, w := range c.Wait {
		sum += w / c.Seconds
	}
	return sum / float64(len(c.Wait))
}

// split gives another plan the times of the same model: where it has k times as many stages,
// each is that part of one. Times that differ by stage have no such parts, so their mean is
// taken.
func split(t pipeline.Times, of, to *pipeline.Plan) pipeline.Times {
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
