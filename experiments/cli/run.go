package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/store"
)

func (e *env) runCommand() *cobra.Command {
	var net, out string
	var said func() (experiments.About, error)
	var resume, asJSON, quick, quiet, noPlot, trainAll bool
	c := &cobra.Command{
		Use:   "run RECIPE|FILE [key=value …]",
		Short: "Train what a recipe says",
		Long: `Run trains what a recipe says: an embedded one by name (gradlab list recipes), or
a YAML file by path. Keys on the command line replace the recipe's; a list makes
one run for each value:

  gradlab run quickstart codec=raw 'workers=2,4,8'
  gradlab run quickstart 'codec=raw,feedback(topk(keep=0.01))'

Spec text contains commas and brackets, so quote it for the shell. Every run
leaves a folder below --out with its configuration, metrics, checkpoints and
result. Ctrl-C stops it after a checkpoint; the same command with --resume goes
on.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("run needs a recipe; see gradlab list recipes")}
			}
			return flagsAsKeys(cmd, args[1:])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			over := args[1:]
			if net != "" {
				over = append(over, "net="+net)
			}
			recipe, runs, err := load(args[0], over, quick)
			if err != nil {
				return err
			}
			about, err := said()
			if err != nil {
				return err
			}
			places := e.places()
			if filepath.Base(args[0]) == "config.yaml" { // perhaps of a run, which is made again
				if places.Rates, err = experiments.RecordedRates(filepath.Dir(args[0])); err != nil {
					return err
				}
			}
			opt := experiments.Options{
				Recipe: recipe.Name, Out: out, Resume: resume, TrainAll: trainAll, Places: places, Args: e.args, About: about,
				Stopping: e.stop.Load,
				Join:     e.joiner(),
			}
			show := e.out
			if asJSON {
				show = e.err
			}
			if !quiet {
				opt.Display = progress.New(e.err)
				defer opt.Display.Close()
			}
			if len(runs) > 1 { // a single one is checked before it begins
				if err := config.CheckAll(runs, places, experiments.Downloads(opt.Display)); err != nil {
					return err
				}
			}
			results, failed := experiments.ExecuteAll(cmd.Context(), runs, opt)
			if opt.Display != nil {
				opt.Display.Close()
			}
			if len(results) > 0 && !quiet {
				if err := tellResults(show, results, filepath.Join(out, recipe.Name), !noPlot); err != nil {
					return err
				}
			}
			if asJSON {
				enc := json.NewEncoder(e.out)
				for _, r := range results {
					if err := enc.Encode(r); err != nil {
						return err
					}
				}
			}
			return failed
		},
	}
	f := c.Flags()
	f.StringVar(&net, "net", "", "where ranks run: local, grpc or sim (the same as net=…)")
	f.StringVar(&out, "out", "runs", "base folder of run folders")
	f.BoolVar(&resume, "resume", false, "go on with stopped runs, keep finished ones")
	f.BoolVar(&asJSON, "json", false, "print one JSON object a run as the last lines")
	said = aboutFlags(f)
	f.BoolVar(&quick, "quick", false, "the recipe's smaller form")
	f.BoolVar(&quiet, "quiet", false, "no progress, no table")
	f.BoolVar(&trainAll, "train-all", false, "train runs that differ in network.* and device.* alone one by one, though they learn the same")
	f.BoolVar(&noPlot, "no-plot", false, "write no figures")
	return c
}

// tellResults writes what runs came to as a table and, with plot, as figures into the
// folder of their recipe.
func tellResults(w io.Writer, results []*experiments.Result, folder string, plot bool) error {
	made, err := store.Made(results)
	if err != nil {
		return err
	}
	if err := store.Summary(w, "box", made); err != nil || !plot {
		return err
	}
	files, err := store.Plot(folder, filepath.Base(folder), made)
	for _, f := range files {
		fmt.Fprintln(w, "wrote", f)
	}
	return err
}
