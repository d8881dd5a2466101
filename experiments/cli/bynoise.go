package cli

import (
	"errors"
	"fmt"
	"math"

	"github.com/spf13/pflag"

	"github.com/gradlab/gradlab/lrschedule"
)

// byNoise makes a batch schedule of what a run measured.
type byNoise struct {
	run  string // folder or id; "": none
	rule lrschedule.ByNoise

	least, most float64 // noise scale that was measured
}

func (n *byNoise) flags(f *pflag.FlagSet) {
	f.StringVar(&n.run, "by-noise", "", "run whose noise scale the batch grows with: its folder, or its id")
	f.Float64Var(&n.rule.Share, "share", 1, "of the noise scale that a batch may be, with --by-noise")
	f.Float64Var(&n.rule.Factor, "factor", 2, "what the batch is multiplied by when it grows, with --by-noise")
	f.Float64Var(&n.rule.Max, "max", 0, "how many times the first batch it becomes at most, with --by-noise; 0: no bound")
}

// take reads the run: its batches become p's, and what keys, flags and specs do not say is
// as it was there. It returns the schedules to show.
func (n *byNoise) take(e *env, f *pflag.FlagSet, p *schedulePlan, specs []string) ([]string, error) {
	if n.run == "" {
		for _, name := range []string{"share", "factor", "max"} {
			if f.Changed(name) {
				return nil, usageError{fmt.Errorf("--%s goes with --by-noise RUN; with batch_schedule the spec has options of its own", name)}
			}
		}
		return specs, nil
	}
	if p.Grow != "" {
		return nil, usageError{errors.New("--by-noise makes a batch schedule, and batch_schedule is one; give one of them")}
	}
	run, err := e.one("runs", n.run)
	if err != nil {
		return nil, err
	}
	curve, err := run.Curve()
	if err != nil {
		return nil, err
	}
	if len(curve.Progress) == 0 || curve.Progress[len(curve.Progress)-1].Epoch == 0 {
		return nil, fmt.Errorf("%s has told no progress yet; a noise scale is measured while a run with observe=noise_scale trains", run.Folder)
	}
	last := curve.Progress[len(curve.Progress)-1]
	if !p.said["batch"] {
		p.Batch = run.Config.Workers * run.Config.Batch
	}
	if !f.Changed("samples") {
		p.Samples = int(math.Round(float64(last.Samples) / last.Epoch))
	}
	if !p.said["epochs"] {
		p.Epochs = last.Epoch
	}
	if len(specs) == 0 {
		specs = []string{run.Config.Schedule}
	}
	var measured []lrschedule.NoiseAt
	n.least = math.Inf(1)
	for _, x := range curve.Progress {
		measured = append(measured, lrschedule.NoiseAt{Epoch: math.Round(x.Epoch*1e4) / 1e4, Scale: x.NoiseScale})
	}
	for _, x := range measured {
		if x.Scale > 0 {
			n.least, n.most = min(n.least, x.Scale), max(n.most, x.Scale)
		}
	}
	n.rule.Batch = p.Batch
	stages, err := n.rule.Stages(measured)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", run.Folder, err)}
	}
	p.Grow = lrschedule.Batches.Spec(stages)
	return specs, nil
}

// say tells what was measured, and what to type to train with the schedule.
func (n *byNoise) say(e *env, p schedulePlan) {
	if n.run == "" {
		return
	}
	fmt.Fprintf(e.out, "noise scale measured: %.4g to %.4g samples\n", n.least, n.most)
	if last := p.batch(p.Updates - 1); last == p.batch(0) {
		fmt.Fprintf(e.out, "it did not last at %.4g (batch %d × factor %g / share %g), so the batch stays\n", float64(last)*n.rule.Factor/n.rule.Share, last, n.rule.Factor, n.rule.Share)
		return
	}
	fmt.Fprintf(e.out, "to train with it: '%s'\n", "batch_schedule="+p.Grow)
}
