package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Timing is how long a recipe's training takes by the virtual cluster: on that of its
// paper, and on others.
type Timing struct {
	Recipe string        `json:"recipe"`
	About  string        `json:"about"`
	Paper  *config.Paper `json:"paper,omitempty"`
	Rows   []TimingRow   `json:"rows"`
}

// TimingRow is one training on one cluster. Seconds are virtual: updates alone,
// without evaluation, start and reading that is not hidden.
type TimingRow struct {
	Run        string      `json:"run"`     // variant of the recipe, if it has any
	Where      string      `json:"where"`   // keys that differ from the paper's; "": none do
	Cluster    string      `json:"cluster"` // its name; where there is none, the device's
	Workers    int         `json:"workers"`
	Batch      int         `json:"global_batch"` // samples of an update, the first
	Updates    int         `json:"updates"`
	Step       float64     `json:"seconds_per_update"` // the mean
	Rate       float64     `json:"samples_per_second"`
	Minutes    float64     `json:"minutes"`
	Efficiency float64     `json:"efficiency"` // per cent of as many times Unit workers alone; 0: there are no more
	Unit       int         `json:"unit"`
	Kept       string      `json:"kept,omitempty"`      // how the global batch is kept with other workers
	Published  *config.Row `json:"published,omitempty"` // of the paper, where the row is on its cluster
	Interval   *Interval   `json:"interval,omitempty"`  // of Minutes, on a real cluster; nil: not asked for (see Intervals)

	first config.Config // of the first batch
	step  float64       // seconds of an update with it
}

// AnswerTiming measures a few updates of the recipe's form timing without weights, on
// the cluster that it names, and says how long all of them take there. With keys to
// change ("cluster=minsky", "workers=64") it measures them with these too: the global
// batch stays what it is. show, unless nil, sees how far it has come. The error of keys
// that cannot be is a *config.Error.
func AnswerTiming(ctx context.Context, recipe *config.Recipe, changes []string, at config.Places, show *progress.Display) (*Timing, error) {
	form, err := recipe.Form(config.FormTiming)
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	only, changed := split(changes)
	t := &Timing{Recipe: recipe.Name, About: recipe.About, Paper: recipe.Paper}
	sets := [][]string{only}
	if len(changed) > 0 {
		sets = append(sets, changes)
	}
	var all [][]config.Run
	for _, over := range sets { // what cannot be is told before anything is measured
		runs, err := form.Runs(over, false)
		if err != nil {
			return nil, &config.Error{Err: err}
		}
		all = append(all, runs)
	}
	for i, runs := range all {
		for _, run := range runs {
			row, err := timed(ctx, run, recipe.Paper, at, show)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", recipe.Name, run.Name, err)
			}
			if i == 0 {
				row.Published = recipe.Paper.Published(run.Name)
			} else {
				row.Where, row.Kept = strings.Join(changed, " "), run.Kept()
			}
			t.Rows = append(t.Rows, *row)
		}
	}
	return t, nil
}

// split tells the choice of variants from what is changed in them.
func split(changes []string) (only, changed []string) {
	for _, c := range changes {
		if key, _, _ := strings.Cut(c, "="); strings.TrimSpace(key) == "run" {
			only = append(only, c)
		} else {
			changed = append(changed, c)
		}
	}
	return only, changed
}

// timed measures one run, and the unit that its efficiency is relative to.
func timed(ctx context.Context, run config.Run, paper *config.Paper, at config.Places, show *progress.Display) (*TimingRow, error) {
	c := run.Config
	row := &TimingRow{Run: run.Name, Cluster: machine(c), Workers: c.Workers, Batch: c.Workers * c.Batch, Unit: c.NetworkPerHost}
	if p := paper.Published(run.Name); p != nil && p.Unit > 0 {
		row.Unit = p.Unit
	}
	parts, err := stretches(c, at)
	if err != nil {
		return nil, err
	}
	step, samples, seconds := 0.0, 0.0, 0.0
	for i, s := range parts {
		each, err := secondsPerUpdate(ctx, s.of(c), at, show)
		if err != nil {
			return nil, err
		}
		row.Updates += s.updates
		samples += float64(s.updates * s.batch * c.Workers)
		seconds += float64(s.updates) * each
		if i == 0 {
			step = each
		}
	}
	c = parts[0].of(c)
	row.Step, row.Rate, row.Minutes = seconds/float64(row.Updates), samples/seconds, seconds/60
	row.first, row.step = c, step
	if row.Unit < c.Workers {
		c.Workers = row.Unit
		one, err := secondsPerUpdate(ctx, c, at, show)
		if err != nil {
			return nil, err
		}
		row.Efficiency = 100 * one / step // of the first batch
	}
	return row, nil
}

// Intervals adds to every row where its minutes lie by what is known of real transports
// and devices (see Propagate), of so many draws. They are made of the first batch, on
// 16 workers or two hosts where there are more; all else is taken to be in proportion.
func (t *Timing) Intervals(ctx context.Context, at config.Places, draws int) error {
	for i := range t.Rows {
		r := &t.Rows[i]
		c := Smaller(r.first)
		time := func(ctx context.Context, c config.Config) (float64, error) {
			return updateTakes(ctx, c, 1, 3, Watch{Places: at})
		}
		in, err := Propagate(ctx, c, draws, time)
		if err != nil {
			return err
		}
		whole := r.step
		if c.Workers < r.Workers {
			if whole, err = time(ctx, c); err != nil {
				return err
			}
		}
		r.Interval = in.Scaled(r.Minutes / whole)
	}
	return nil
}

// stretch is so many updates with one batch, of each worker, and one side of pictures;
// 0 is the profile's own.
type stretch struct{ batch, side, updates int }

// stretches are the batches and sides of a run, in the order in which they first come.
func stretches(c config.Config, at config.Places) (out []stretch, err error) {
	of, err := bare(c).Resolve()
	if err != nil {
		return nil, err
	}
	j, err := of.Build(at, nil)
	if err != nil {
		return nil, err
	}
	if !j.Grows() && !j.Resizes() {
		return []stretch{{batch: c.Batch, updates: j.Updates}}, nil
	}
	for n := range j.Updates {
		batch, side := int(j.Drawn(n+1)-j.Drawn(n))/c.Workers, j.Side(n*j.PerUpdate()/c.Workers)
		i := slices.IndexFunc(out, func(s stretch) bool { return s.batch == batch && s.side == side })
		if i < 0 {
			i, out = len(out), append(out, stretch{batch: batch, side: side})
		}
		out[i].updates++
	}
	return out, nil
}

// of is a configuration that makes the updates of a stretch alone.
func (s stretch) of(c config.Config) config.Config {
	c.Batch, c.SideSchedule = s.batch, "fixed"
	if s.side > 0 {
		c.SideSchedule = fmt.Sprintf("stages(sides=[%d],at=[])", s.side)
	}
	return c
}

// bare is a configuration without weights, and without what is said of these.
func bare(c config.Config) config.Config {
	c.Weightless, c.Net = true, "sim"
	c.EvalEvery, c.Target, c.Until, c.CheckpointEvery, c.Observe = 0, record.Goal{}, config.UntilEnd, 0, "none"
	c.Init, c.Dropout, c.Precision, c.LossScale, c.EMA = "none", -1, "float32", 0, "none"
	return c
}

// machine names what a run is made on: its cluster, else its device.
func machine(c config.Config) string {
	switch {
	case c.Cluster != "none":
		return c.Cluster
	case c.Device != "none":
		return "device " + c.Device
	}
	return fmt.Sprintf("devices of %.3g FLOPS", c.DeviceFLOPS)
}

// secondsPerUpdate is the mean virtual time of an update: the more workers, the less
// updates differ, and the fewer are measured.
func secondsPerUpdate(ctx context.Context, c config.Config, at config.Places, show *progress.Display) (float64, error) {
	warm, steps := 1, 4
	switch {
	case c.Workers <= 8:
		warm, steps = 10, 200
	case c.Workers <= 64:
		warm, steps = 4, 40
	case c.Workers <= 512:
		warm, steps = 2, 12
	}
	watch := Watch{Places: at}
	if show != nil {
		r := show.Run(fmt.Sprintf("%s, %d workers", c.Timing, c.Workers), warm+steps, 0)
		defer r.Drop()
		watch.Steps = r.Steps
	}
	return updateTakes(ctx, c, warm, steps, watch)
}

// updateTakes is the mean virtual time of so many updates behind the first warm ones,
// in seconds.
func updateTakes(ctx context.Context, c config.Config, warm, steps int, watch Watch) (float64, error) {
	c = bare(c)
	c.Steps, c.Epochs, c.BatchSchedule = warm+steps, 0, "fixed"
	m, err := Measure(ctx, c, watch)
	if err != nil {
		return 0, err
	}
	rate := m.Rate(warm, c.Workers*c.Batch)
	if rate <= 0 || math.IsInf(rate, 0) {
		return 0, errors.New("its updates take no time on this cluster: name a device (device=, device.flops=)")
	}
	return float64(c.Workers*c.Batch) / rate, nil
}

// Write prints the answer for people.
func (t *Timing) Write(out io.Writer, style string) error {
	fmt.Fprintf(out, "%s: %s\n", t.Recipe, t.About)
	table := figure.Table{
		Header: []string{"where", "workers", "batch", "updates", "an update", "samples/s", "efficiency", "published", "minutes", "published", "difference", "90 %, minutes"},
		Right:  []bool{false, true, true, true, true, true, true, true, true, true, true, true},
	}
	percent := func(x float64) string {
		if x == 0 {
			return "–"
		}
		return fmt.Sprintf("%.1f %%", x)
	}
	var notes []string
	tell := func(note string) {
		if !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	for _, r := range t.Rows {
		if r.Interval != nil {
			tell(r.Interval.Note())
		}
		if r.Kept != "" {
			tell("yours: " + r.Kept)
		}
		where := "the paper's: " + r.Cluster
		if r.Where != "" {
			where = "yours: " + r.Where
		}
		if r.Run != "" {
			where += ", " + r.Run
		}
		efficiency, minutes, off := "–", "–", "–"
		if p := r.Published; p != nil {
			efficiency = percent(p.Efficiency)
			if p.Minutes > 0 {
				minutes, off = fmt.Sprintf("%.4g", p.Minutes), fmt.Sprintf("%+.1f %%", 100*(r.Minutes/p.Minutes-1))
			}
			note := fmt.Sprintf("published for %s: %s", p.Devices, p.Source)
			if p.Minutes == 0 {
				note = fmt.Sprintf("no time is published for %s: %s", p.Devices, p.Source)
			}
			if p.Unverified {
				note += " (not read at the source)"
			}
			if p.Fitted != "" {
				note += "; " + p.Fitted + ", so its agreement proves nothing"
			}
			tell(note)
		}
		table.Rows = append(table.Rows, []string{where, fmt.Sprint(r.Workers), fmt.Sprint(r.Batch), fmt.Sprint(r.Updates), progress.Seconds(r.Step),
			fmt.Sprintf("%.0f", r.Rate), percent(r.Efficiency), efficiency, fmt.Sprintf("%.4g", r.Minutes), minutes, off, r.Interval.String()})
	}
	if err := table.Write(out, style, 0); err != nil {
		return err
	}
	tell("minutes are those of updates alone: no start, no evaluation, and reading is hidden")
	for _, note := range notes {
		fmt.Fprintln(out, "note:", note)
	}
	return nil
}
