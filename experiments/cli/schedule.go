package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/lrschedule"
	"github.com/gradlab/gradlab/sgd/profile"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/mean"
)

// schedulePlan is the run that schedules are asked about.
type schedulePlan struct {
	Batch   int     `json:"batch"`
	Samples int     `json:"samples"`
	Epochs  float64 `json:"epochs"`
	Updates int     `json:"updates"`
	Grow    string  `json:"batch_schedule,omitempty"` // "": the batch stays
	Resize  string  `json:"side_schedule,omitempty"`  // "": pictures keep the size of the data set

	said map[string]bool // keys that the command line gives

	job   *train.Job          // whose batches change, of one worker; nil: none do
	sides lrschedule.SideSpec // nil: the side stays
}

// scheduleCurve is a schedule's rate before every update.
type scheduleCurve struct {
	Spec  string    `json:"schedule"`
	Rates []float64 `json:"learning_rates"` // by update
}

func (e *env) scheduleCommand() *cobra.Command {
	var p schedulePlan
	var rows int
	var plot string
	var asJSON bool
	var noise byNoise
	c := &cobra.Command{
		Use:   "schedule [SPEC…] [key=value…]",
		Short: "Rates, batches and sides of schedules over a run: table or figure",
		Long: `Schedule says what learning rate a schedule (gradlab list schedules) gives over a
run: at evenly spaced updates, and where it is highest. Keys are those of a run:
batch, of all workers together, epochs, batch_schedule and side_schedule. Without
them it is 90 epochs of ImageNet with batch 256.

  gradlab schedule goyal akiba 'mlperf(lr=21.2,warmup=16)' batch=32768
  gradlab schedule 'onecycle(lr=0.4)' epochs=10 --samples 50000 --plot onecycle
  gradlab schedule 'step(lr=0.1,factor=0.2,at=[160])' 'batch_schedule=growth(at=[60,120])' \
      batch=128 epochs=200 --samples 50000 --plot smith

--plot NAME draws the schedules, a curve each, into NAME.svg and NAME.png; --json
has the rate of every update. With batch_schedule (gradlab list batch-schedules)
the batch changes during the run: the table and the figure have it beside the rates.
With side_schedule (gradlab list side-schedules) so does the side of pictures:

  gradlab schedule 'side_schedule=progressive(from=128,to=192)' epochs=88 --plot sides

--by-noise RUN makes that batch schedule from the gradient noise scale that a run
with observe=noise_scale measured, and says what to type to train with it: the batch
grows as the noise scale does. Without a SPEC, batch, epochs and --samples they
are the run's.

  gradlab run quickstart codec=raw mode=reduce batch=1 observe=noise_scale
  gradlab schedule --by-noise runs/quickstart/…`,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := p.take(args)
			if err != nil {
				return usageError{err}
			}
			if len(args) == 0 && noise.run == "" && p.Grow == "" && p.Resize == "" {
				return usageError{fmt.Errorf("schedule wants one or more schedules, such as 'cosine(lr=0.1)'; gradlab list schedules has their names (batches: batch_schedule=…, sides: side_schedule=…)")}
			}
			args, err = noise.take(e, cmd.Flags(), &p, args)
			if err != nil {
				return err
			}
			if p.Samples < 1 || !(p.Epochs > 0) || rows < 2 {
				return usageError{fmt.Errorf("--samples %d, epochs=%v, --rows %d: want at least 1, more than 0, and 2", p.Samples, p.Epochs, rows)}
			}
			updates := p.Epochs * float64(p.Samples) / float64(p.Batch)
			if updates < 1 || updates > 1e8 {
				return usageError{fmt.Errorf("%v epochs of %d samples with batch %d are %.3g updates; want 1 to 100 million", p.Epochs, p.Samples, p.Batch, updates)}
			}
			p.Updates = int(math.Round(updates))
			if err := errors.Join(p.grow(), p.resize()); err != nil {
				return usageError{err}
			}
			var curves []scheduleCurve
			for _, text := range args {
				curve, err := p.curve(text)
				if err != nil {
					return usageError{err}
				}
				curves = append(curves, curve)
			}
			if asJSON {
				enc := json.NewEncoder(e.out)
				enc.SetIndent("", "  ")
				return enc.Encode(struct {
					schedulePlan
					Batches   []uint64        `json:"batches,omitempty"` // by update
					Sides     []int           `json:"sides,omitempty"`   // by update
					Schedules []scheduleCurve `json:"schedules"`
				}{p, p.batches(), p.allSides(), curves})
			}
			if err := p.table(e, curves, rows); err != nil {
				return err
			}
			noise.say(e, p)
			if plot == "" {
				return nil
			}
			files, err := figure.Save(plot, p.figures(curves)...)
			if err == nil {
				fmt.Fprintf(e.out, "drawn: %s\n", strings.Join(files, ", "))
			}
			return err
		},
	}
	f := c.Flags()
	noise.flags(f)
	f.IntVar(&p.Samples, "samples", 1281167, "samples of the training set")
	f.IntVar(&rows, "rows", 16, "rows of the table")
	f.StringVar(&plot, "plot", "", "name of a figure to draw, without .svg and .png")
	f.BoolVar(&asJSON, "json", false, "one JSON document")
	return c
}

// take takes up the keys among arguments, and returns the schedules.
func (p *schedulePlan) take(args []string) (specs []string, err error) {
	c := config.Default()
	c.Batch, c.Epochs, p.said = 256, 90, map[string]bool{}
	for _, a := range args {
		key, text, ok := strings.Cut(a, "=")
		if key = strings.ToLower(strings.TrimSpace(key)); !ok || strings.ContainsAny(key, "( ") {
			specs = append(specs, a)
			continue
		}
		if p.said[key] = true; key == "schedule" {
			more, err := config.Values(text)
			if err != nil {
				return nil, fmt.Errorf("key %q: %w", key, err)
			}
			specs = append(specs, more...)
			continue
		}
		if !slices.Contains([]string{"batch", "epochs", "batch_schedule", "side_schedule"}, key) {
			return nil, fmt.Errorf("%s: key %q does not say what schedules are asked about; there are schedule, batch, epochs, batch_schedule and side_schedule", a, key)
		}
		if err := c.Set(key, text); err != nil {
			return nil, err
		}
	}
	p.Batch, p.Epochs = c.Batch, c.Epochs
	if p.said["batch_schedule"] {
		p.Grow = c.BatchSchedule
	}
	if p.said["side_schedule"] {
		p.Resize = c.SideSchedule
	}
	return specs, nil
}

// at is the progress before update n.
func (p schedulePlan) at(n int) lrschedule.Progress {
	return lrschedule.Progress{
		Step: n, Total: p.Updates, Samples: p.drawn(n),
		Epoch: p.epoch(n),
	}
}

// grow takes up the batch schedule, if there is one.
func (p *schedulePlan) grow() error {
	if p.Grow == "" {
		return nil
	}
	s, err := lrschedule.Batches.Parse(p.Grow)
	if err != nil {
		return err
	}
	p.Grow = lrschedule.Batches.Spec(s)
	p.job = &train.Job{Mode: mean.Reduce{}, Workers: 1, Batch: p.Batch, Batches: s, Data: new(profile.Profile).Samples(p.Samples)}
	if p.Updates, err = p.job.UpdatesIn(p.Epochs); err != nil {
		return err
	}
	p.job.Updates = p.Updates
	return p.job.PlanBatches()
}

// resize takes up the schedule of sides, if there is one.
func (p *schedulePlan) resize() error {
	if p.Resize == "" {
		return nil
	}
	s, err := lrschedule.Sides.Parse(p.Resize)
	if err != nil {
		return err
	}
	if lrschedule.IsFixedSide(s) {
		return fmt.Errorf("side_schedule=%s: pictures keep the size of the data set, which no schedule knows; leave the key out", p.Resize)
	}
	p.Resize, p.sides = lrschedule.Sides.Spec(s), s
	return nil
}

// side is that of the pictures of update n, in pixels.
func (p schedulePlan) side(n int) int { return p.sides.Side(p.at(n)) }

// allSides are the sides of all updates; nil: they are all alike.
func (p schedulePlan) allSides() (all []int) {
	for n := 0; p.sides != nil && n < p.Updates; n++ {
		all = append(all, p.side(n))
	}
	return all
}

// drawn is how many samples the first n updates take.
func (p schedulePlan) drawn(n int) uint64 {
	if p.job != nil {
		return p.job.Drawn(n)
	}
	return uint64(n) * uint64(p.Batch)
}

// batches are the samples of every update; nil: they are all alike.
func (p schedulePlan) batches() (all []uint64) {
	for n := 0; p.job != nil && n < p.Updates; n++ {
		all = append(all, p.batch(n))
	}
	return all
}

// batch is the samples of update n.
func (p schedulePlan) batch(n int) uint64 { return p.drawn(n+1) - p.drawn(n) }

func (p schedulePlan) epoch(n int) float64 { return float64(p.drawn(n)) / float64(p.Samples) }

func (p schedulePlan) curve(text string) (scheduleCurve, error) {
	spec, err := lrschedule.Specs.Parse(text)
	if err != nil {
		return scheduleCurve{}, err
	}
	c := scheduleCurve{Spec: lrschedule.Specs.Spec(spec), Rates: make([]float64, p.Updates)}
	f, err := spec.New(lrschedule.Run{
		Batch: p.Batch, StepsPerEpoch: float64(p.Samples) / float64(p.Batch), Epochs: p.Epochs, Steps: p.Updates,
	})
	if err != nil {
		return c, fmt.Errorf("%s: %w", c.Spec, err)
	}
	for n := range c.Rates {
		c.Rates[n] = f(p.at(n))
	}
	return c, nil
}

// highest is the first update with the highest rate.
func (c scheduleCurve) highest() int {
	best := 0
	for n, lr := range c.Rates {
		if lr > c.Rates[best] {
			best = n
		}
	}
	return best
}

func (p schedulePlan) table(e *env, curves []scheduleCurve, rows int) error {
	fmt.Fprintf(e.out, "%d updates: %g epochs of %d samples with batch %d\n", p.Updates, p.Epochs, p.Samples, p.Batch)
	rate := func(x float64) string { return strconv.FormatFloat(x, 'g', 5, 64) }
	head, right := []string{"epoch", "update"}, []bool{true, true}
	if p.job != nil {
		head, right = append(head, "batch"), append(right, true)
	}
	if p.sides != nil {
		head, right = append(head, "side"), append(right, true)
	}
	for _, c := range curves {
		head, right = append(head, c.Spec), append(right, true)
	}
	var cells [][]string
	last := -1
	for i := range rows {
		n := int(math.Round(float64(i) * float64(p.Updates-1) / float64(rows-1)))
		if n == last {
			continue
		}
		last = n
		row := []string{strconv.FormatFloat(p.epoch(n), 'f', 2, 64), strconv.Itoa(n)}
		if p.job != nil {
			row = append(row, strconv.FormatUint(p.batch(n), 10))
		}
		if p.sides != nil {
			row = append(row, strconv.Itoa(p.side(n)))
		}
		for _, c := range curves {
			row = append(row, rate(c.Rates[n]))
		}
		cells = append(cells, row)
	}
	if err := (figure.Table{Header: head, Rows: cells, Right: right, Lead: 2}).Write(e.out, "box", width(e.out)); err != nil {
		return err
	}
	for _, c := range curves {
		n := c.highest()
		fmt.Fprintf(e.out, "%s: highest %s, first before update %d (epoch %.2f)\n", c.Spec, rate(c.Rates[n]), n, p.epoch(n))
	}
	return nil
}

// figures are the rates and, if they change, the batch and the side.
func (p schedulePlan) figures(curves []scheduleCurve) (panels []figure.Figure) {
	add := func(title, unit string, curves ...scheduleCurve) {
		f := p.figure(curves)
		f.Title, f.Y.Label = title, unit
		panels = append(panels, f)
	}
	if len(curves) > 0 {
		add(fmt.Sprintf("learning rate, batch %d", p.Batch), "learning rate", curves...)
	}
	if p.job != nil {
		add(fmt.Sprintf("batch, %d at first", p.Batch), "samples an update", byUpdate(p.Grow, p.batches()))
	}
	if p.sides != nil {
		add("side of training pictures", "pixels", byUpdate(p.Resize, p.allSides()))
	}
	return panels
}

// byUpdate is a curve of what every update has.
func byUpdate[N int | uint64](spec string, values []N) scheduleCurve {
	c := scheduleCurve{Spec: spec, Rates: make([]float64, len(values))}
	for n, v := range values {
		c.Rates[n] = float64(v)
	}
	return c
}

// figure has at most some two thousand points a curve.
func (p schedulePlan) figure(curves []scheduleCurve) figure.Figure {
	fig := figure.Figure{X: figure.Axis{Label: "epoch"}}
	stride := 1 + p.Updates/2000
	for _, c := range curves {
		s := figure.Series{Name: c.Spec}
		for n := 0; n < p.Updates; n++ {
			if n%stride == 0 || n == p.Updates-1 {
				s.X, s.Y = append(s.X, p.epoch(n)), append(s.Y, c.Rates[n])
			}
		}
		fig.Series = append(fig.Series, s)
	}
	return fig
}
