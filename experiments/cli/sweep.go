package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/experiments/sweep"
	"github.com/gradlab/gradlab/sgd/train/record"
)

func (e *env) sweepCommand() *cobra.Command {
	var o sweepFlags
	c := &cobra.Command{
		Use:   "sweep RECIPE|FILE key=value,value,… …",
		Short: "Many runs of a recipe, over dimensions, with repeats",
		Long: `Sweep runs every combination of the values given, in parallel over the cores of
this machine, and sets the results beside each other:

  gradlab sweep quickstart 'codec=raw,topk(keep=0.01)' workers=1,2,4,8 --repeats 5
  gradlab sweep quickstart 'schedule=constant(lr=0.1),cosine(lr=0.05)' 'workers=double(1,16)'
  gradlab sweep quickstart workers=1,2,4 batch=64,32,16 --zip workers,batch
  gradlab sweep quickstart codec=raw,bf16 workers=1,8 --exclude 'codec=bf16 workers=1'

Values are split at commas outside brackets. Of these, range(1,4) and
range(0,1,0.25) count up to and with the end, double(1,16) doubles, lin(0,1,5)
takes equal steps, log(1e-4,1,5) equal ratios, choice(a,b) is a list; inside spec
text too, as in schedule=constant(lr=log(1e-3,1,4)).

A comparison at one learning rate compares how well it suits each. With --tune each
configuration gets the value that is best for it, by runs on training samples held
out and with other seeds, as many for each; then the best are compared:

  gradlab sweep quickstart 'codec=raw,sign' --tune 'schedule.lr=log(1e-3,1,5)' --budget 5 --repeats 3

Run it with --dry-run first: it lists the jobs with the time and bytes each is
expected to take. A sweep that was stopped or killed goes on when the same command
is given again; what has been run, by a sweep or by gradlab run, is not run again.
Jobs that differ in network.* or device.* alone learn the same where no policy or
mode looks at time: one of them is trained, and the others take over what it
learned (priced_from in their results) with times and bytes of their own.
Each job has a process of its own: one that fails leaves the others alone, is
told at the end, and makes the exit code 1. Runs on the virtual cluster come out
the same to the last bit however many go on at once; those on the wall clock (net
local or grpc) run after the others, one at a time.

On the virtual cluster one worker alone is among the jobs, one in each environment and
for each seed: the same batch and as many samples, nothing sent (--no-baseline).

Afterwards: gradlab runs compare ` + "`runs/RECIPE`" + `, gradlab runs list.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("sweep needs a recipe; see gradlab list recipes")}
			}
			return flagsAsKeys(cmd, args[1:])
		},
		RunE: func(cmd *cobra.Command, args []string) error { return e.sweep(cmd, args, o) },
	}
	f := c.Flags()
	o.said = aboutFlags(f)
	f.IntVar(&o.space.Repeats, "repeats", 0, "run everything with seeds 1 … n")
	f.StringArrayVar(&o.space.Zip, "zip", nil, "dimensions that advance together: workers,batch (may be repeated)")
	f.StringArrayVar(&o.space.Exclude, "exclude", nil, "leave out jobs that meet all of these: 'workers=8 codec~topk' (may be repeated)")
	f.BoolVar(&o.space.Quick, "quick", false, "the recipe's smaller form")
	f.BoolVar(&o.dryRun, "dry-run", false, "list the jobs with predicted time and bytes, run nothing")
	f.StringArrayVar(&o.tune, "tune", nil, "choose a value for each configuration, on validation data: schedule.lr=log(1e-3,1,5) (may be repeated)")
	f.IntVar(&o.tuning.Budget, "budget", 0, "tuning runs of each configuration (default: one for each combination of values)")
	f.StringVar(&o.tuneBy, "tune-by", "metric", "what the best value has: the best `metric`, as key metric says, or that of a name, such as loss, or the least time to the target")
	f.Float64Var(&o.tuning.Validation, "validation", 0.1, "share of the training set that tuning runs hold out and are judged on")
	f.BoolVar(&o.trainAll, "train-all", false, "train jobs that differ in network.* and device.* alone one by one, though they learn the same")
	f.IntVar(&o.atOnce, "jobs", 0, "jobs at a time; the cores are shared out among them (default: one a core)")
	f.StringVar(&o.shard, "shard", "", "only the i-th of n shares of the jobs: 1/4, for a sweep over several machines; auto/4: the i that Slurm's array or an indexed job gives")
	f.StringVar(&o.out, "out", "runs", "base folder of run folders")
	f.BoolVar(&o.shared, "shared", false, sharedUsage)
	f.BoolVar(&o.asJSON, "json", false, "print one JSON object a job, or with --dry-run a job's prediction")
	f.BoolVar(&o.noBaseline, "no-baseline", false, noBaselineUsage)
	f.BoolVar(&o.quiet, "quiet", false, "no progress, no table")
	return c
}

// sweepFlags are what the command line says of a sweep beside the recipe and its
// dimensions.
type sweepFlags struct {
	space              sweep.Space
	said               func() (experiments.About, error)
	out, shard, tuneBy string
	tune               []string
	tuning             sweep.Tuning
	atOnce             int
	dryRun, asJSON     bool
	quiet, trainAll    bool
	shared, noBaseline bool
}

// jobs are the jobs of this machine's share of the sweep.
func (o *sweepFlags) jobs(cmd *cobra.Command, recipe *config.Recipe, args []string) ([]sweep.Job, error) {
	for name, n := range map[string]int{"repeats": o.space.Repeats, "jobs": o.atOnce} {
		if n < 0 || n == 0 && cmd.Flags().Changed(name) {
			return nil, fmt.Errorf("--%s %d: want at least 1", name, n)
		}
	}
	o.space.Recipe, o.space.Args = recipe, args
	jobs, err := o.space.Jobs()
	if err != nil {
		return nil, err
	}
	if !o.noBaseline && len(o.tune) == 0 {
		jobs = sweep.WithAlone(jobs)
	}
	if o.tuning, err = tuningOf(cmd, o.tuning, o.tune, o.tuneBy, o.shard); err != nil || o.shard == "" {
		return jobs, err
	}
	i, n, err := shareOf(o.shard, os.Getenv)
	if err != nil {
		return nil, err
	}
	return sweep.Shard(jobs, i, n), nil
}

// shareOf reads --shard. auto/n is that of an array of jobs, in which a scheduler's
// variable says which one this process is.
func shareOf(text string, getenv func(string) string) (i, n int, err error) {
	of, auto := strings.CutPrefix(text, "auto/")
	if !auto {
		return sweep.ParseShard(text)
	}
	first, at := 0, getenv("JOB_COMPLETION_INDEX")
	if task := getenv("SLURM_ARRAY_TASK_ID"); task != "" {
		at = task
		if first, err = strconv.Atoi(getenv("SLURM_ARRAY_TASK_MIN")); err != nil {
			return 0, 0, fmt.Errorf("--shard %s: SLURM_ARRAY_TASK_MIN is %q, want the first task's number", text, getenv("SLURM_ARRAY_TASK_MIN"))
		}
	}
	k, err := strconv.Atoi(at)
	if err != nil {
		return 0, 0, fmt.Errorf("--shard %s: neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX says which share this is; write it, such as 1/%s", text, of)
	}
	return sweep.ParseShard(fmt.Sprintf("%d/%s", k-first+1, of))
}

// sweep makes the jobs of a sweep, or says what they would take.
func (e *env) sweep(cmd *cobra.Command, args []string, o sweepFlags) error {
	recipe, err := config.LoadRecipe(args[0])
	if err != nil {
		return usageError{err}
	}
	jobs, err := o.jobs(cmd, recipe, args[1:])
	if err != nil {
		return usageError{err}
	}
	about, err := o.said()
	if err != nil {
		return err
	}
	places := e.places()
	var display *progress.Display
	if !o.quiet {
		display = progress.New(e.screen)
		defer display.Close()
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	how := conductor{e, o.out, o.atOnce, o.trainAll, display, sweep.Processes{
		Command: func(ctx context.Context) *exec.Cmd {
			return exec.CommandContext(ctx, exe, "sweep-job", "--data-dir", places.Dir, "--cache-dir", places.Cache)
		},
		Order: sweep.Order{Recipe: recipe.Name, Out: o.out, Args: e.args, About: about, Shared: o.shared},
	}}
	if !o.dryRun {
		release, err := experiments.HoldFolder(filepath.Join(o.out, recipe.Name), o.shard != "")
		if err != nil {
			return fmt.Errorf("another sweep of %s goes on in %s, and would make the same jobs: wait for it, give another --out, or share the jobs out with --shard (%w)", recipe.Name, o.out, err)
		}
		defer release()
	}
	if len(o.tune) > 0 {
		return how.tuned(cmd.Context(), o.tuning, jobs, o.dryRun, o.asJSON, o.quiet)
	}
	todo, done, costs := how.plan(jobs, o.dryRun)
	if o.dryRun {
		return e.dryRun(jobs, todo, costs, done, o.asJSON, o.atOnce)
	}
	outcomes := how.run(cmd.Context(), jobs, todo, done, costs)
	display.Close()
	return e.sweepReport(jobs, done, outcomes, o.out, o.asJSON, o.quiet)
}

// sweepJobCommand is the process of one job; see sweep.Serve.
func (e *env) sweepJobCommand() *cobra.Command {
	return &cobra.Command{
		Use: "sweep-job", Hidden: true, Short: "One job of a sweep, read from the input",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return sweep.Serve(cmd.Context(), os.Stdin, e.raw, e.stop.Load, experiments.Options{Places: e.places(), Join: experiments.Itself(os.Getenv, e.places())})
		},
	}
}

// pastRuns are the runs below out, if it is there.
func pastRuns(out string) ([]*store.Run, error) {
	if _, err := os.Stat(out); err != nil {
		return nil, nil
	}
	return store.Find(out)
}

// stopped is closed at the first Ctrl-C.
func (e *env) stopped(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{})
	go func() {
		t := time.NewTicker(50 * time.Millisecond)
		defer t.Stop()
		for !e.stop.Load() {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
		}
		close(ch)
	}()
	return ch
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// dryRun lists what would be run.
func (e *env) dryRun(jobs, todo []sweep.Job, costs []sweep.Cost, done map[string]*store.Run, asJSON bool, atOnce int) error {
	cost := map[string]sweep.Cost{}
	for i, j := range todo {
		cost[j.ID] = costs[i]
	}
	if asJSON {
		enc := json.NewEncoder(e.out)
		for _, j := range jobs {
			c, missing := cost[j.ID]
			line := map[string]any{"run": j.Name, "id": j.ID, "done": !missing, "seconds": c.Seconds, "bytes": c.Bytes, "evidence": c.Evidence, "priced": c.Priced, "config": j.Config.Map()}
			if c.Err != nil {
				line["error"] = c.Err.Error()
			}
			if err := enc.Encode(line); err != nil {
				return err
			}
		}
		return nil
	}
	t := figure.Table{Header: []string{"job", "id", "run", "core time", "bytes", "from"}, Right: []bool{true, false, false, true, true, false}, Spare: []int{1}}
	total, bytes := 0.0, 0.0
	impossible, priced := 0, 0
	for i, j := range jobs {
		row := []string{fmt.Sprint(i + 1), j.ID[:6], j.Name, "", "", "done"}
		if c, ok := cost[j.ID]; ok && c.Err != nil {
			row[5] = "cannot run"
			impossible++
		} else if ok {
			row[3], row[4], row[5] = progress.Seconds(c.Seconds), progress.Bytes(uint64(c.Bytes)), "count"
			switch {
			case c.Priced:
				row[5] = "priced"
				priced++
			case c.Evidence:
				row[5] = "runs"
			}
			total, bytes = total+c.Seconds, bytes+c.Bytes
		}
		t.Rows = append(t.Rows, row)
	}
	if err := t.Write(e.out, "box", width(e.out)); err != nil {
		return err
	}
	cores := runtime.NumCPU()
	if atOnce > 0 {
		cores = min(cores, max(atOnce, 1))
	}
	fmt.Fprintf(e.out, "%d jobs, %d of them done; about %s on %d cores, %s over the networks\n",
		len(jobs), len(done), progress.Seconds(total/math.Max(1, float64(min(cores, max(1, len(todo)))))), cores, progress.Bytes(uint64(bytes)))
	if priced > 0 {
		fmt.Fprintf(e.out, "%d jobs are trained, %d are priced: they learn what one of these or an earlier run learns, and only their times and bytes are made (--train-all trains each)\n", len(todo)-priced-impossible, priced)
	}
	for _, j := range jobs {
		if c := cost[j.ID]; c.Err != nil {
			fmt.Fprintf(e.out, "cannot run %s: %s\n", j.Name, oneLine(c.Err))
		}
	}
	if impossible > 0 {
		fmt.Fprintln(e.out, "jobs that cannot run are left out and told at the end; --exclude takes them out of the sweep")
	}
	return nil
}

// sweepReport tells what came out.
func (e *env) sweepReport(jobs []sweep.Job, done map[string]*store.Run, outcomes []sweep.Outcome, out string, asJSON, quiet bool) error {
	stopped := 0
	for _, o := range outcomes {
		if errors.Is(o.Err, experiments.ErrStopped) {
			stopped++
		}
	}
	failed := sweep.Failed(outcomes)
	if asJSON {
		if err := e.writeOutcomes(jobs, done, outcomes); err != nil {
			return err
		}
	}
	show := e.out
	if asJSON {
		show = e.err
	}
	if !quiet {
		if err := compareJobs(show, jobs, out); err != nil {
			return err
		}
	}
	if quiet { // else each was told when it failed
		for _, o := range failed {
			fmt.Fprintf(e.err, "failed: %s: %v\n", o.Job.Name, o.Err)
		}
	}
	switch {
	case stopped > 0:
		return fmt.Errorf("%d of %d jobs are left; the same command goes on: %w", stopped, len(jobs), experiments.ErrStopped)
	case len(failed) > 0:
		var wrong []experiments.Failure
		var made []*experiments.Result
		for _, o := range failed {
			wrong = append(wrong, experiments.Failure{Run: o.Job.Run, Err: o.Err})
		}
		for _, o := range outcomes {
			if o.Err == nil && o.Result != nil {
				made = append(made, o.Result)
			}
		}
		for _, r := range done {
			if r.Result != nil {
				made = append(made, r.Result)
			}
		}
		if cure := experiments.Cure(wrong, made); cure != "" {
			return fmt.Errorf("%d of %d jobs failed\n%s", len(failed), len(jobs), cure)
		}
		return fmt.Errorf("%d of %d jobs failed; the same command runs these again", len(failed), len(jobs))
	}
	return nil
}

func (e *env) writeOutcomes(jobs []sweep.Job, done map[string]*store.Run, outcomes []sweep.Outcome) error {
	made := map[string]sweep.Outcome{}
	for _, o := range outcomes {
		made[o.Job.ID] = o
	}
	enc := json.NewEncoder(e.out)
	for _, j := range jobs {
		line := map[string]any{"run": j.Name, "id": j.ID}
		if r := done[j.ID]; r != nil {
			res, err := toward(r, j.Config)
			if err != nil {
				return err
			}
			line["result"] = res
		} else if o := made[j.ID]; o.Err != nil {
			line["error"] = o.Err.Error()
		} else {
			line["result"] = o.Result
		}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// toward is the result of a run that was made before, for the target of a configuration of
// now.
func toward(r *store.Run, now config.Config) (*experiments.Result, error) {
	target, err := now.Goal(r.Metrics)
	if err != nil {
		return nil, err
	}
	c, err := r.Curve()
	if err != nil {
		return nil, err
	}
	res := *r.Result
	res.Reach(target, c.Evals)
	return &res, nil
}

// compareJobs sets the runs of a sweep's jobs beside each other.
func compareJobs(w io.Writer, jobs []sweep.Job, out string) error {
	all, err := pastRuns(out)
	if err != nil {
		return err
	}
	byID := map[string][]*store.Run{}
	for _, r := range all {
		byID[r.ID] = append(byID[r.ID], r)
	}
	var runs []*store.Run
	for _, j := range jobs {
		runs = append(runs, byID[j.ID]...)
	}
	if !slices.ContainsFunc(runs, (*store.Run).IsDone) {
		return nil
	}
	f, err := store.FieldNamed(usualField(runs))
	if err != nil {
		return err
	}
	target := jobs[0].Config.Target
	for _, j := range jobs {
		if j.Config.Target != target || j.Config.Metric != jobs[0].Config.Metric {
			target = record.Goal{}
		}
	}
	if target.Asked() && target.Metric.Name == "" { // of the metric that these jobs are compared by
		if target, err = jobs[0].Config.Goal(store.MetricsOf(runs)); err != nil {
			return err
		}
	}
	comparisons, err := compareFacets(runs, f, "", target)
	if err != nil {
		return err
	}
	for _, c := range comparisons {
		if err := c.Write(w, "box", width(w)); err != nil {
			return err
		}
	}
	return nil
}
