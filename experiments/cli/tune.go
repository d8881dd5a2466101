package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/experiments/sweep"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// conductor plans and runs the jobs of a sweep.
type conductor struct {
	e        *env
	out      string
	atOnce   int
	trainAll bool
	display  *progress.Display
	runner   sweep.Processes
}

// plan says which jobs are left and what they cost.
func (c conductor) plan(jobs []sweep.Job, dryRun bool) (todo []sweep.Job, done map[string]*store.Run, costs []sweep.Cost) {
	past, err := pastRuns(c.out)
	if err != nil {
		c.display.Logf("note: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	todo, done = sweep.Missing(jobs, past)
	costs = sweep.Predict(todo, past, c.e.places(), experiments.Downloads(c.display))
	if !c.trainAll {
		if n := sweep.Share(todo, costs, past); n > 0 && !dryRun {
			c.display.Logf("%d of %d jobs learn what others learn, on other networks or devices: they are priced, not trained (--train-all trains each)", n, len(todo))
		}
	}
	return todo, done, costs
}

// run runs what is left.
func (c conductor) run(ctx context.Context, jobs, todo []sweep.Job, done map[string]*store.Run, costs []sweep.Cost) []sweep.Outcome {
	if n := len(done); n > 0 {
		c.display.Logf("%d of %d jobs are there already (gradlab runs rm removes runs)", n, len(jobs))
	}
	for i, cost := range costs {
		if cost.Err != nil {
			c.display.Logf("job %s cannot run: %s", todo[i].Name, oneLine(cost.Err))
		}
	}
	return sweep.Plan{
		Jobs: todo, Costs: costs, Cores: runtime.NumCPU(), AtOnce: c.atOnce, Display: c.display, Stop: c.e.stopped(ctx), Runner: c.runner,
	}.Execute(ctx)
}

// tuningOf reads the flags of tuning.
func tuningOf(cmd *cobra.Command, t sweep.Tuning, texts []string, by, shard string) (sweep.Tuning, error) {
	if len(texts) == 0 {
		for _, name := range []string{"budget", "tune-by", "validation"} {
			if cmd.Flags().Changed(name) {
				return t, fmt.Errorf("--%s says how to tune, and nothing is tuned; give --tune schedule.lr=log(1e-3,1,5) or the like", name)
			}
		}
		return t, nil
	}
	if shard != "" {
		return t, errors.New("--shard and --tune: the best values are known once all tuning runs are there, on one machine; leave one of them out")
	}
	switch by {
	case "time":
		t.ByTime = true
	case "metric":
	default:
		t.By = by
	}
	var err error
	t.Over, err = sweep.ParseTuning(texts)
	return t, err
}

// tunedBy finds the metric that values are chosen by among those of the model.
func tunedBy(at config.Places, t *sweep.Tuning, run config.Run) error {
	if t.ByTime {
		return nil
	}
	of, err := run.Resolve()
	if err != nil {
		return err
	}
	ds, err := of.Open(at, nil)
	if err != nil {
		return err
	}
	model, err := of.ModelFor(ds.Train)
	if err != nil {
		return err
	}
	metrics := model.Metrics()
	if t.By == "" {
		goal, err := run.Config.Goal(metrics)
		t.By = goal.Metric.Name
		return err
	}
	if _, ok := sgd.FindMetric(metrics, t.By); !ok {
		return fmt.Errorf("--tune-by: %w; metric stands for the one that key metric names, time for the time to the target", record.NoMetric(t.By, metrics))
	}
	return nil
}

// tuned runs the trials of every configuration, and then the jobs with the best
// values of each.
func (c conductor) tuned(ctx context.Context, t sweep.Tuning, jobs []sweep.Job, dryRun, asJSON, quiet bool) error {
	if err := tunedBy(c.e.places(), &t, jobs[0].Run); err != nil {
		return usageError{err}
	}
	plan, err := t.Plan(jobs)
	if err != nil {
		return usageError{err}
	}
	trials := sweep.Trials(plan)
	todo, done, costs := c.plan(trials, dryRun)
	if dryRun {
		if err := c.e.dryRun(trials, todo, costs, done, asJSON, c.atOnce); err != nil || asJSON {
			return err
		}
		fmt.Fprintf(c.e.out, "%s\nthen %d jobs with the best values of each configuration, on the whole training set and the test set\n", t.Budgeted(plan), len(jobs))
		return nil
	}
	tuner := c
	tuner.runner.Order.Recipe += "-tuning" // so that nobody takes them for results
	outcomes := tuner.run(ctx, trials, todo, done, costs)
	results := map[string]*experiments.Result{}
	for _, j := range trials {
		if r := done[j.ID]; r != nil {
			if results[j.ID], err = toward(r, j.Config); err != nil {
				return err
			}
		}
	}
	for _, o := range outcomes {
		if errors.Is(o.Err, experiments.ErrStopped) {
			c.display.Close()
			return fmt.Errorf("stopped while tuning; the same command goes on: %w", experiments.ErrStopped)
		}
		if o.Err == nil {
			results[o.Job.ID] = o.Result
		} else {
			c.display.Logf("tuning run %s failed, so that its value is not chosen: %s", o.Job.Name, oneLine(o.Err))
		}
	}
	best, unsettled := t.Choose(plan, results)
	if len(best) == 0 {
		c.display.Close()
		return unsettled
	}
	todo, done, costs = c.plan(best, false)
	outcomes = c.run(ctx, best, todo, done, costs)
	c.display.Close()
	err = c.e.sweepReport(best, done, outcomes, c.out, asJSON, quiet)
	show := c.e.out
	if asJSON {
		show = c.e.err
		if told := writeTuning(c.e.out, t, plan); err == nil {
			err = told
		}
	}
	if !quiet {
		if told := tuningTable(show, t, plan); err == nil {
			err = told
		}
	}
	return errors.Join(err, unsettled)
}

// tuningTable tells what was tried for each configuration and what was best.
func tuningTable(w io.Writer, t sweep.Tuning, plan []*sweep.Tuned) error {
	table := figure.Table{Header: []string{"configuration", "chosen", "tried"}, Right: []bool{false, false, false}}
	var edges []string
	for _, c := range plan {
		name := c.Name
		if name == "" {
			name = "the recipe"
		}
		chosen := "none"
		var tried []string
		for i, trial := range c.Trials {
			score := "failed"
			switch {
			case trial.OK && t.ByTime:
				score = progress.Seconds(trial.Score)
			case trial.OK:
				score = progress.Value(trial.Metric, trial.Score)
			case t.ByTime:
				score = "not reached"
			}
			tried = append(tried, strings.Join(trial.Values, " ")+": "+score)
			if i == c.Best {
				chosen = t.Words(trial)
			}
		}
		table.Rows = append(table.Rows, []string{name, chosen, strings.Join(tried, ", ")})
		for _, e := range t.Edges(c) {
			edges = append(edges, fmt.Sprintf("warning: %s: %s; better ones may lie beyond, so try a wider range", name, e))
		}
	}
	if err := table.Write(w, "box", 0); err != nil {
		return err
	}
	fmt.Fprintln(w, t.Budgeted(plan))
	for _, e := range edges {
		fmt.Fprintln(w, e)
	}
	return nil
}

// writeTuning writes a JSON object for each configuration that was tuned.
func writeTuning(w io.Writer, t sweep.Tuning, plan []*sweep.Tuned) error {
	enc := json.NewEncoder(w)
	for _, c := range plan {
		var tried []map[string]any
		for _, trial := range c.Trials {
			one := map[string]any{"values": t.Words(trial), "ended": trial.OK}
			if trial.OK {
				one["score"] = trial.Score
			}
			tried = append(tried, one)
		}
		line := map[string]any{"tuned": c.Name, "how": t.Budgeted(plan), "tried": tried, "edges": t.Edges(c)}
		if c.Best >= 0 {
			line["chosen"] = t.Words(c.Trials[c.Best])
		}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	return nil
}
