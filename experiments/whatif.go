package experiments

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/comm/sim"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/profile"
	"github.com/gradlab/gradlab/sgd/train"
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
	Name       string      `json:"name"` // the keys that differ from the run's
	Updates    int         `json:"updates"`
	Replayed   int         `json:"replayed"`
	Weightless bool        `json:"weightless"` // else gradients were computed, for frames depend on them
	Seconds    float64     `json:"virtual_seconds"`
	BytesUp    float64     `json:"bytes_up"`
	BytesDown  float64     `json:"bytes_down"`
	Network    *NetworkUse `json:"network"`
}

// mostReplayed is the number of updates that are replayed at most.
const mostReplayed = 200

// AskWhatIf replays the run in a folder on the virtual cluster, as it was and
// with keys changed, a list of values making one replay each. Frames carry
// nothing where their sizes are known without (key weightless), whatever the
// model; what the run learned is not asked.
func AskWhatIf(ctx context.Context, folder string, changes []string, at Places) (*WhatIf, error) {
	text, err := os.ReadFile(filepath.Join(folder, "config.yaml"))
	if err != nil {
		return nil, err
	}
	recipe, err := ParseRecipe("whatif", "config.yaml", text)
	if err != nil {
		return nil, err
	}
	runs, err := recipe.Runs(nil, false)
	if err != nil {
		return nil, err
	}
	others, err := recipe.Runs(changes, false)
	if err != nil {
		return nil, &ConfigError{err}
	}
	w := &WhatIf{Run: folder}
	var was Result
	if readJSON(filepath.Join(folder, "result.json"), &was) == nil {
		w.Recorded = was.VirtualSeconds
	}
	own := runs[0].Config
	ds, err := own.open(at, nil)
	if err != nil {
		return nil, err
	}
	if w.Was, err = own.shadow(ctx, ds, 0); err != nil {
		return nil, err
	}
	w.Was.Name = "as it was"
	for _, r := range others {
		c := r.Config
		if c.Data != own.Data || c.TrainLimit != own.TrainLimit || c.Weightless != own.Weightless {
			return nil, &ConfigError{fmt.Errorf("what if the run had been on other data is a question for gradlab run")}
		}
		var changed []string
		for _, k := range Keys() {
			if v := c.Get(k.Name); v != own.Get(k.Name) {
				changed = append(changed, k.Name+"="+v)
			}
		}
		name := strings.Join(changed, " ")
		side, err := c.shadow(ctx, ds, w.Was.Updates)
		if err != nil {
			return nil, fmt.Errorf("with %s: %w", name, err)
		}
		side.Name = name
		w.Is = append(w.Is, side)
	}
	return w, nil
}

// shadow makes the run of a configuration for its times and bytes alone, over so
// many updates, or as many as it has.
func (c Config) shadow(ctx context.Context, ds sgd.Dataset, updates int) (side WhatIfSide, err error) {
	c.Net, c.EvalEvery, c.CheckpointEvery, c.Trace, c.OrderLog = "sim", 0, 0, false, false
	job, err := c.assemble(ds)
	if err != nil {
		return side, err
	}
	if updates == 0 {
		updates = job.Updates
	}
	side.Updates, side.Replayed = updates, min(updates, mostReplayed)
	job.Updates = side.Replayed
	full := *job
	job.Weightless, job.Model = true, shell(job.Model, ds.Train.Shape())
	job.Prepare()
	side.Weightless = job.Check() == nil
	if !side.Weightless {
		job = &full
		job.Prepare()
	}
	obs := &train.Observer{Job: job, Sink: deaf{}}
	programs, err := job.Programs(obs)
	if err != nil {
		return side, err
	}
	servers := job.World() - job.Workers
	net := c.net(servers, 0).(*sim.Net)
	if err := net.Run(ctx, programs); err != nil {
		return side, err
	}
	part := float64(updates) / float64(side.Replayed)
	side.Seconds = part * obs.Final.Seconds
	var r Result
	r.gather(obs, counters{})
	side.BytesUp, side.BytesDown = part*float64(r.BytesUp), part*float64(r.BytesDown)
	_, side.Network = useOf(net.Links(), 1+slices.Max(c.place(servers)), job.World(), net.Now())
	return side, nil
}

// shell is a model's layout and operations without its arithmetic.
func shell(m sgd.Model, input sgd.Shape) sgd.Model {
	p := &profile.Profile{Name: "shell", Input: input, Layout: m.Layout()}
	for _, flops := range m.SpanFLOPs() {
		p.MACs = append(p.MACs, flops/2)
	}
	return p.Model()
}

// Write prints the answer for people.
func (w *WhatIf) Write(out io.Writer, style string) error {
	var rows [][]string
	for _, s := range append([]WhatIfSide{w.Was}, w.Is...) {
		how := "weightless"
		if !s.Weightless {
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
			progress.Bytes(uint64(s.BytesUp)), progress.Bytes(uint64(s.BytesDown)), busiest, how})
	}
	header := []string{"", "virtual time", "as fast", "an update", "up", "down", "busiest link", "replay"}
	if err := figure.Table(out, style, header, rows, []bool{false, true, true, true, true, true}); err != nil {
		return err
	}
	if w.Recorded > 0 {
		fmt.Fprintf(out, "the run recorded %s; its replay is off by %+.2f %%\n", progress.Seconds(w.Recorded), 100*(w.Was.Seconds/w.Recorded-1))
	}
	return nil
}
