// Package ask answers questions about runs without keeping a folder of them: what if a
// run had been made elsewhere (whatif), again in the same order (replay), with which
// plan of all-reduces (topology), and how fast it goes (measure).
package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/gradlab/gradlab/compress"
	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/wire"
)

// WhatIf is a recorded run, made again with other keys.
type WhatIf struct {
	Run      string       `json:"run"`
	Recorded float64      `json:"recorded_seconds"` // virtual; 0 if the run was on a real clock
	Was      WhatIfSide   `json:"was"`              // the run's own keys, again
	Is       []WhatIfSide `json:"is"`               // with each of the changes
}

// WhatIfSide is what one configuration comes to over as many updates as the run
// made. Where fewer were replayed, seconds and bytes are in proportion.
type WhatIfSide struct {
	Name       string                  `json:"name"` // the keys that differ from the run's
	Updates    int                     `json:"updates"`
	Replayed   int                     `json:"replayed"`
	Weightless bool                    `json:"weightless"` // else the sizes of frames depend on gradients
	Noted      bool                    `json:"noted"`      // which the run noted, else they were computed
	Seconds    float64                 `json:"virtual_seconds"`
	BytesUp    float64                 `json:"bytes_up"`
	BytesDown  float64                 `json:"bytes_down"`
	Network    *experiments.NetworkUse `json:"network"`
	// Interval is where Seconds lie on a real cluster; nil: nobody asked, or it cannot
	// be told, as sizes of frames depend on gradients of which the run kept no record, or
	// updates are not alike.
	Interval *Interval `json:"interval,omitempty"`

	drawn []float64 // Seconds of each draw
}

// mostReplayed is the number of updates that are replayed at most, of runs whose
// updates are all alike.
const mostReplayed = 200

// AnswerWhatIf replays the run in a folder on the virtual cluster, as it was and
// with keys changed, a list of values making one replay each, over as many
// updates as the run made. Frames carry nothing where their sizes are known
// without (key weightless), whatever the model, or noted by the run; what the run
// learned is not asked. The data set is opened only where gradients must be
// computed. Beside each time stands an interval (see Propagate), of so many draws; 0: none.
func AnswerWhatIf(ctx context.Context, folder string, changes []string, at config.Places, draws int) (*WhatIf, error) {
	if err := changeable(changes); err != nil {
		return nil, &config.Error{Err: err}
	}
	of, recipe, err := recorded(folder, at)
	if err != nil {
		return nil, err
	}
	own := of.own
	others, err := recipe.Runs(changes, false)
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	w := &WhatIf{Run: folder}
	made := 0 // updates; 0: as many as it has
	if was, err := experiments.ReadResult(folder); err == nil {
		w.Recorded, made = was.VirtualSeconds, was.Steps
	}
	if w.Was, err = of.as(ctx, own, made); err != nil {
		return nil, err
	}
	w.Was.Name = "as it was"
	if err := of.within(ctx, own, &w.Was, draws); err != nil {
		return nil, err
	}
	for _, r := range others {
		c := r.Config
		var changed []string
		for _, k := range config.Settings() {
			if c.Get(k.Name) != own.Get(k.Name) {
				changed = append(changed, k.Name+"="+c.Show(k.Name))
			}
		}
		name := strings.Join(changed, " ")
		if name == "" { // what it was asked with changes nothing
			if name = r.Name; name == "" {
				name = strings.Join(changes, " ")
			}
		}
		side, err := of.as(ctx, c, w.Was.Updates)
		if err != nil {
			return nil, fmt.Errorf("with %s: %w", name, err)
		}
		side.Name = name
		if err := of.within(ctx, c, &side, draws); err != nil {
			return nil, fmt.Errorf("with %s: %w", name, err)
		}
		w.Is = append(w.Is, side)
	}
	return w, nil
}

// recorded is the run in a folder as it can be replayed, and its keys as a recipe.
func recorded(folder string, at config.Places) (*shadowed, *config.Recipe, error) {
	text, err := regular.ReadFile(filepath.Join(folder, "config.yaml"), regular.Any)
	if err != nil {
		return nil, nil, err
	}
	recipe, err := config.ParseRecipe("whatif", "config.yaml", text)
	if err != nil {
		return nil, nil, err
	}
	runs, err := recipe.Runs(nil, false)
	if err != nil {
		return nil, nil, err
	}
	own := runs[0].Config
	if at.Rates, err = experiments.RecordedRates(folder); err != nil {
		return nil, nil, err
	}
	of := &shadowed{own: own, at: at, open: func() (sgd.Dataset, error) {
		r, err := own.Resolve()
		if err != nil {
			return sgd.Dataset{}, err
		}
		return r.Open(at, nil)
	}}
	if of.outline, err = experiments.RecordedData(folder); err != nil {
		return nil, nil, err
	}
	of.sizes, err = experiments.RecordedSizes(folder)
	return of, recipe, err
}

// Lies is where the virtual time of the run in a folder lies on a real cluster, in
// seconds, of so many draws (see Propagate), and the time of each draw. Runs of one
// environment are drawn on the same clusters, draw by draw. The interval is nil of runs on
// a real clock, and where it cannot be told without computing gradients.
func Lies(ctx context.Context, folder string, at config.Places, draws int) (*Interval, []float64, error) {
	was, err := experiments.ReadResult(folder)
	if err != nil {
		return nil, nil, err
	}
	of, _, err := recorded(folder, at)
	if err != nil || !of.own.OnNet().Traces || was.VirtualSeconds == 0 || was.Steps == 0 {
		return nil, nil, err
	}
	of.idle = true
	side, err := of.as(ctx, of.own, was.Steps)
	if errors.Is(err, errComputed) {
		return nil, nil, nil
	}
	if err == nil {
		err = of.within(ctx, of.own, &side, draws)
	}
	return side.Interval, side.drawn, err
}

// errComputed refuses a replay that computes gradients.
var errComputed = errors.New("the sizes of its frames depend on gradients")

// fixed says of keys that a replay takes no notice of why that is.
var fixed = map[string]string{
	"steps": asMany, "epochs": asMany, "until": asMany,
	"net": virtually, "links": virtually, "emulate": virtually, "threads": virtually, "winograd": virtually,
	"eval_every": unrecorded, "target": unrecorded, "metric": unrecorded, "test_limit": unrecorded,
	"checkpoint_every": unrecorded, "observe": unrecorded,
	"init": "a replay begins as the run did", "data": sameData, "train_limit": sameData, "augment": sameData,
	"weightless": "a replay computes gradients where the sizes of frames depend on them, and nowhere else",
}

const (
	asMany     = "a replay makes as many updates as the run made"
	virtually  = "a replay is always on the virtual cluster, whose clock does not ask how this machine computes"
	unrecorded = "a replay evaluates nothing and keeps no record"
	sameData   = "what if the run had been on other data is a question for gradlab run"
)

// changeable refuses changes that a replay would take no notice of.
func changeable(changes []string) error {
	var errs []error
	for _, change := range changes {
		key, _, _ := strings.Cut(change, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		if why := fixed[key]; why != "" {
			errs = append(errs, fmt.Errorf("key %q: %s; whatif changes what times and bytes depend on: network.*, device.*, cluster, timing, workers, servers, batch, model, codec, mode, policy, topology, graph, overlap and the like", key, why))
		}
	}
	return errors.Join(errs...)
}

// unsteady says whether later updates of a run take another time, or other
// bytes, than its first, so that these say nothing about all of them.
func unsteady(c config.Config, j *train.Job) bool {
	return !j.Mode.Traits(j).Steady || j.Grows() || j.Resizes() || j.Policy.Traits(j.Workers).ByLoss || c.Faults != "none" || compress.WarmsUp(j.Codec) || compress.WarmsUp(j.DownCodec)
}

// shadowed is a recorded run of which replays are made.
type shadowed struct {
	own     config.Config
	outline sgd.Dataset                 // what is known of the data
	open    func() (sgd.Dataset, error) // the data themselves
	at      config.Places
	sizes   *wire.Sizes // nil: the run noted none
	idle    bool        // replay nothing that computes gradients: errComputed
}

// as replays a configuration for its times and bytes alone, over so many updates,
// or as many as it has.
func (s *shadowed) as(ctx context.Context, c config.Config, updates int) (side WhatIfSide, err error) {
	noted := s.sizes != nil && c.Timeless() && c.Trajectory() == s.own.Trajectory()
	if c.EvalEvery, c.Until, c.CheckpointEvery, c.Observe = 0, config.UntilEnd, 0, "none"; !c.OnNet().Traces {
		c.Net = "sim"
	}
	r, err := c.Resolve()
	if err != nil {
		return side, err
	}
	job, _, err := r.Assemble(s.outline, s.at)
	if err != nil {
		return side, err
	}
	if updates == 0 {
		updates = job.Updates
	}
	side.Updates, side.Replayed = updates, updates
	if !unsteady(c, job) {
		side.Replayed = min(updates, mostReplayed)
	}
	job.Updates = side.Replayed
	job.Weightless = true
	job.Prepare()
	if side.Weightless = job.Check() == nil; !side.Weightless && noted {
		job.Sizes = s.sizes
		job.Prepare()
		side.Noted = job.Check() == nil
	}
	switch {
	case side.Weightless, side.Noted:
	case s.idle:
		return side, errComputed
	default:
		ds, err := s.open()
		if err != nil {
			return side, fmt.Errorf("the sizes of its frames depend on gradients, which the run has no record of, and to compute them: %w", err)
		}
		if job, _, err = r.Assemble(ds, s.at); err != nil {
			return side, err
		}
		job.Updates = side.Replayed
	}
	obs := &train.Observer{Job: job, Sink: deaf{}}
	programs, err := job.Programs(obs)
	if err != nil {
		return side, err
	}
	net, err := r.VirtualNet(job.World()-job.Workers, 0)
	if err != nil {
		return side, err
	}
	if err := net.Run(ctx, programs); err != nil {
		return side, err
	}
	part := float64(updates) / float64(side.Replayed)
	side.Seconds = part * obs.Final.Seconds
	res := experiments.ResultOf(obs)
	side.BytesUp, side.BytesDown = part*float64(res.BytesUp), part*float64(res.BytesDown)
	_, side.Network = experiments.Use(r, job, net)
	return side, nil
}

// fewReplayed is the number of updates that are replayed of each draw.
const fewReplayed = 8

// within adds to an answer where its seconds lie on a real cluster.
func (s *shadowed) within(ctx context.Context, c config.Config, side *WhatIfSide, draws int) error {
	if draws == 0 || !side.Weightless && !side.Noted || side.Replayed == side.Updates && side.Updates > mostReplayed {
		return nil
	}
	few := min(side.Updates, fewReplayed)
	all := float64(side.Updates) / float64(few)
	if side.Noted { // later updates send other sizes than these
		first, err := s.as(ctx, c, few)
		if err != nil {
			return err
		}
		all = side.Seconds / first.Seconds
	}
	out, spread, err := draw(ctx, []config.Config{c}, draws, func(ctx context.Context, c config.Config) (float64, error) {
		few, err := s.as(ctx, c, few)
		return all * few.Seconds, err
	})
	if err == nil {
		side.Interval, side.drawn = interval(out[0], spread), out[0]
	}
	return err
}

// note says what stands behind numbers of more updates than were replayed.
func (w *WhatIf) note() string {
	short, computed := false, false
	for _, s := range append([]WhatIfSide{w.Was}, w.Is...) {
		if s.Replayed < s.Updates {
			short, computed = true, computed || !s.Weightless
		}
	}
	switch {
	case computed:
		return "times and bytes of all updates are those of the first in proportion, though gradients, and with them the sizes of frames, may change later"
	case short:
		return "times and bytes of all updates are those of the first in proportion"
	}
	return ""
}

// Write prints the answer for people.
func (w *WhatIf) Write(out io.Writer, style string) error {
	var rows [][]string
	for _, s := range append([]WhatIfSide{w.Was}, w.Is...) {
		how := "weightless"
		switch {
		case s.Noted:
			how = "sizes as noted"
		case !s.Weightless:
			how = "computed"
		}
		if s.Replayed < s.Updates {
			how += fmt.Sprintf(", %d of %d updates", s.Replayed, s.Updates)
		}
		busiest := "–"
		if n := s.Network; n != nil && len(n.Busiest) > 0 {
			busiest = fmt.Sprintf("%s %.0f %%", n.Busiest[0].Link, 100*n.Busiest[0].Used)
		}
		rows = append(rows, []string{s.Name, progress.Seconds(s.Seconds), fmt.Sprintf("%.2f×", w.Was.Seconds/s.Seconds), short(s.Seconds / float64(s.Updates)),
			progress.Bytes(uint64(s.BytesUp)), progress.Bytes(uint64(s.BytesDown)), busiest, how, s.Interval.String()})
	}
	t := figure.Table{Header: []string{"", "virtual time", "as fast", "an update", "up", "down", "busiest link", "replay", "90 %, seconds"}, Rows: rows, Right: []bool{false, true, true, true, true, true, false, false, true}}
	if err := t.Write(out, style, 0); err != nil {
		return err
	}
	if note := w.note(); note != "" {
		fmt.Fprintln(out, "note:", note)
	}
	if w.Was.Interval != nil {
		fmt.Fprintln(out, "note:", w.Was.Interval.Note())
	}
	if w.Recorded > 0 {
		fmt.Fprintf(out, "the run recorded %s; its replay is off by %+.2f %%\n", progress.Seconds(w.Recorded), 100*(w.Was.Seconds/w.Recorded-1))
	}
	return nil
}
