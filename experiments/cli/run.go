package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/ask"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/data"
)

// runOptions are the flags of gradlab run.
type runOptions struct {
	net, out                                                                     string
	draws                                                                        int
	said                                                                         func() (experiments.About, error)
	resume, older, shared, asJSON, quick, quiet, noPlot, trainAll, timing, proxy bool
	noBaseline, again                                                            bool
}

const sharedUsage = "let all users of the machine read the run folders, which else are their owner's alone"

const noBaselineUsage = "leave out the run of one worker alone that runs on the virtual cluster are measured against"

func (e *env) runCommand() *cobra.Command {
	o := &runOptions{}
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
result, named after the keys that this command changed. Ctrl-C stops it after a checkpoint; the same command with --resume goes
on.

Where several runs are compared on the virtual cluster, one worker alone is one of
them: the same batch and as many samples, nothing sent (--no-baseline).

Recipes with the name of a paper have two more forms. --proxy trains the same on a
small task, with real gradients of many virtual workers. --timing trains nothing: it
says how long the training takes on the paper's own cluster, beside what the paper
says, and with keys on yours:

  gradlab run goyal2017 data=imagenet workers=4
  gradlab run goyal2017 --proxy
  gradlab run goyal2017 --timing cluster=minsky workers=64`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("run needs a recipe; see gradlab list recipes")}
			}
			return flagsAsKeys(cmd, args[1:])
		},
		RunE: func(cmd *cobra.Command, args []string) error { return e.runRecipe(cmd.Context(), args, o) },
	}
	f := c.Flags()
	f.StringVar(&o.net, "net", "", "where ranks run: local, grpc, mpi or sim (the same as net=…)")
	f.StringVar(&o.out, "out", "runs", "base folder of run folders")
	f.BoolVar(&o.resume, "resume", false, "go on with stopped runs, keep finished ones")
	f.BoolVar(&o.older, "allow-older", false, "with --resume: where the last checkpoint is damaged, go on from the one before")
	f.BoolVar(&o.shared, "shared", false, sharedUsage)
	f.BoolVar(&o.asJSON, "json", false, "print one JSON object a run as the last lines")
	o.said = aboutFlags(f)
	f.BoolVar(&o.quick, "quick", false, "the recipe's smaller form")
	f.BoolVar(&o.proxy, "proxy", false, "the recipe's form on a small task")
	f.BoolVar(&o.timing, "timing", false, "train nothing: how long it takes on the paper's cluster, and with keys on yours")
	f.IntVar(&o.draws, "draws", ask.Draws, "with --timing: draws of uncertain parameters that the 90 % intervals rest on; 0: no intervals")
	f.BoolVar(&o.quiet, "quiet", false, "no progress, no table")
	f.BoolVar(&o.trainAll, "train-all", false, "train runs that differ in network.* and device.* alone one by one, though they learn the same")
	f.BoolVar(&o.noBaseline, "no-baseline", false, noBaselineUsage)
	f.BoolVar(&o.again, "again", false, "do not say that the same run is there already")
	f.BoolVar(&o.noPlot, "no-plot", false, "write no figures")
	return c
}

// check refuses flags that contradict each other.
func (o *runOptions) check() error {
	switch {
	case o.older && !o.resume:
		return errors.New("--allow-older says where --resume may go on from; give both")
	case o.timing && (o.proxy || o.quick || o.resume):
		return errors.New("--timing trains nothing, so it goes with none of --proxy, --quick and --resume")
	case o.draws < 0:
		return fmt.Errorf("--draws=%d: want the number of draws, or 0 for no intervals", o.draws)
	}
	return nil
}

// measured adds one worker alone to runs, which they are measured against.
func (o *runOptions) measured(runs []config.Run) []config.Run {
	if o.noBaseline {
		return runs
	}
	return config.WithAlone(runs)
}

// runRecipe trains what a recipe says, args[0], under the keys behind it.
func (e *env) runRecipe(ctx context.Context, args []string, o *runOptions) error {
	over := args[1:]
	if err := cmp.Or(o.check(), e.notAFolder(args[0])); err != nil {
		return usageError{err}
	}
	if o.net != "" {
		over = append(over, "net="+o.net)
	}
	if o.timing {
		return e.tellTiming(ctx, args[0], over, o)
	}
	form := ""
	if o.proxy {
		form = config.FormProxy
	}
	recipe, runs, err := e.loadNamed(args[0], form, over, o.quick)
	if err != nil {
		return err
	}
	runs = o.measured(runs)
	about, err := o.said()
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
		Recipe: recipe.Name, Out: o.out, Resume: o.resume, Again: o.again, AllowOlder: o.older, Shared: o.shared, TrainAll: o.trainAll, Places: places, Args: e.args, About: about,
		Stopping: e.stop.Load, Requeue: &e.requeue,
		Join: experiments.Itself(os.Getenv, e.places()),
	}
	if mpi, err := onMPI(runs); err != nil {
		return err
	} else if mpi {
		if leads, err := e.inMPI(ctx, runs[0], &opt, experiments.LaunchTimeout); err != nil || !leads {
			return err
		}
	}
	show := e.out
	if o.asJSON {
		show = e.err
	}
	if !o.quiet {
		opt.Display = progress.New(e.screen)
		defer opt.Display.Close()
	}
	if len(runs) > 1 { // a single one is checked before it begins
		if err := config.CheckAll(runs, places, experiments.Downloads(opt.Display)); err != nil {
			return err
		}
	}
	results, failed := experiments.ExecuteAll(ctx, runs, opt)
	if missing := (*data.MissingError)(nil); errors.As(failed, &missing) && slices.Contains(recipe.Forms(), config.FormProxy) {
		failed = fmt.Errorf("%w\n  - see the same on a small task first: gradlab run %s --proxy", failed, args[0])
	}
	if opt.Display != nil {
		opt.Display.Close()
	}
	if len(results) > 0 && !o.quiet {
		if err := tellResults(show, results, filepath.Join(o.out, recipe.Name), !o.noPlot); err != nil {
			return err
		}
	}
	if o.asJSON {
		if err := encodeAll(e.out, results); err != nil {
			return err
		}
	}
	return failed
}

// loadNamed is loadForm with runs that are named after the keys that changed the recipe.
func (e *env) loadNamed(name, form string, over []string, quick bool) (*config.Recipe, []config.Run, error) {
	recipe, runs, err := e.loadForm(name, form, over, quick)
	if err != nil || len(over) == 0 {
		return recipe, runs, err
	}
	own, err := recipe.Runs(nil, quick)
	if err != nil { // some recipes want keys
		own = nil
	}
	config.NameChanges(runs, own, over)
	return recipe, runs, nil
}

// encodeAll writes a line of JSON for each result.
func encodeAll(to io.Writer, results []*experiments.Result) error {
	enc := json.NewEncoder(to)
	for _, r := range results {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// tellTiming prints how long a recipe's training takes on clusters.
func (e *env) tellTiming(ctx context.Context, name string, over []string, o *runOptions) error {
	recipe, err := config.LoadRecipe(name)
	if err != nil {
		return usageError{err}
	}
	var show *progress.Display
	if !o.quiet {
		show = progress.New(e.screen)
		defer show.Close()
	}
	t, err := ask.AnswerTiming(ctx, recipe, over, e.places(), show)
	if err != nil {
		return err
	}
	if o.draws != 0 {
		if err := t.Intervals(ctx, e.places(), o.draws); err != nil {
			return err
		}
	}
	if show != nil {
		show.Close()
	}
	if o.asJSON {
		return json.NewEncoder(e.out).Encode(t)
	}
	return t.Write(e.out, "box")
}

// tellResults writes what runs came to as a table and, with plot, as figures into the
// folder of their recipe.
func tellResults(w io.Writer, results []*experiments.Result, folder string, plot bool) error {
	made, err := store.Made(results)
	if err != nil {
		return err
	}
	if err := store.Summary(w, "box", made); err != nil {
		return err
	}
	if plot {
		files, err := store.Plot(folder, filepath.Base(folder), made)
		for _, f := range files {
			fmt.Fprintln(w, "wrote", f)
		}
		if err != nil {
			return err
		}
	}
	tellFolders(w, made, folder)
	return nil
}

// fewFolders is how many folders of runs are printed each by itself.
const fewFolders = 16

// tellFolders prints where runs are: each by the name of its folder, or, of many, what lists
// them.
func tellFolders(w io.Writer, made []*store.Run, folder string) {
	switch n := len(made); {
	case n == 1:
		fmt.Fprintln(w, "run folder:", made[0].Folder)
	case n > fewFolders:
		fmt.Fprintf(w, "%d run folders in %s, each named after its run; gradlab runs list %[2]s has their ids\n", n, folder)
	default:
		fmt.Fprintf(w, "%d run folders in %s:\n", n, folder)
		for _, r := range made {
			name := r.Folder
			if in, err := filepath.Rel(folder, name); err == nil {
				name = in
			}
			fmt.Fprintln(w, "  "+name)
		}
	}
}
