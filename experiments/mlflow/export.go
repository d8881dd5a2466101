package mlflow

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/store"
)

// tag names what tells a run apart: its configuration and when it began.
const tag = "gradlab.run"

// Outcome says what became of a run.
type Outcome string

// Outcomes of Export.
const (
	Exported Outcome = "exported"
	There    Outcome = "was there"
	Going    Outcome = "is not finished"
)

// Export copies a run to the experiment of a name: its configuration as
// parameters, its curves and result as metrics, machine and folder as tags. A run
// that the server has is left alone, and one of which it has a part, because an
// export was cut off, is made anew.
func (c *Client) Export(ctx context.Context, experiment string, run *store.Run) (Outcome, error) {
	status, over := map[string]string{store.Done: "FINISHED", store.Stopped: "KILLED", store.Failed: "FAILED", store.Lost: "KILLED"}[run.State]
	if !over {
		return Going, nil
	}
	id, err := c.experiment(ctx, experiment)
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("%s@%d", run.ID, run.Started.UnixMilli())
	there, err := c.withTag(ctx, id, tag, key)
	if err != nil {
		return "", err
	}
	for _, r := range there {
		if r.Status != "RUNNING" {
			return There, nil
		}
		if err := c.call(ctx, http.MethodPost, "runs/delete", map[string]any{"run_id": r.ID}, nil); err != nil {
			return "", err
		}
	}
	metrics, err := metricsOf(run)
	if err != nil {
		return "", err
	}
	var made struct {
		Run struct {
			Info info `json:"info"`
		} `json:"run"`
	}
	name := run.Name
	if name == "" {
		name = run.Recipe
	}
	err = c.call(ctx, http.MethodPost, "runs/create", map[string]any{
		"experiment_id": id, "run_name": name, "start_time": run.Started.UnixMilli(), "tags": tagsOf(run, key),
	}, &made)
	if err == nil {
		err = c.log(ctx, made.Run.Info.ID, paramsOf(run), metrics)
	}
	if err == nil {
		err = c.call(ctx, http.MethodPost, "runs/update", map[string]any{"run_id": made.Run.Info.ID, "status": status, "end_time": run.Updated.UnixMilli()}, nil)
	}
	if err != nil {
		return "", err
	}
	return Exported, nil
}

func tagsOf(run *store.Run, key string) []pair {
	tags := []pair{{tag, key}, {"gradlab.id", run.ID}, {"gradlab.recipe", run.Recipe}, {"gradlab.folder", run.Folder}}
	for _, k := range []string{"host", "cpu", "vcs.revision"} {
		if v, ok := run.Env[k].(string); ok {
			tags = append(tags, pair{"gradlab." + k, v})
		}
	}
	if run.Error != "" {
		tags = append(tags, pair{"gradlab.error", run.Error[:min(len(run.Error), 5000)]})
	}
	return tags
}

// paramsOf are all keys of the configuration: the server filters by them.
func paramsOf(run *store.Run) (out []pair) {
	for _, k := range config.Keys() {
		if v := run.Config.Get(k.Name); v != "" {
			out = append(out, pair{k.Name, v})
		}
	}
	return out
}

func metricsOf(run *store.Run) (out []metric, err error) {
	curve, err := run.Metrics()
	if err != nil {
		return nil, err
	}
	last := run.Step
	if run.Result != nil {
		last = run.Result.Steps
	}
	add := func(step int, key string, value float64) {
		if !math.IsNaN(value) && !math.IsInf(value, 0) {
			out = append(out, metric{key, value, instant(run, step, last).UnixMilli(), step})
		}
	}
	for _, p := range curve.Progress {
		if !run.Config.Weightless {
			add(p.Step, "train/loss", p.Loss)
		}
		add(p.Step, "train/lr", p.LR)
		add(p.Step, "staleness/mean", p.StalenessMean)
		add(p.Step, "cost/seconds", p.Seconds)
	}
	for _, e := range curve.Evals {
		add(e.Step, "test/accuracy", e.Accuracy)
		if e.Top5 > 0 {
			add(e.Step, "test/top5", e.Top5)
		}
		add(e.Step, "test/loss", e.Loss)
		for _, name := range slices.Sorted(maps.Keys(e.Metrics)) {
			add(e.Step, "test/"+name, e.Metrics[name])
		}
		add(e.Step, "cost/bytes", float64(run.Crossed(e.BytesUp, e.BytesDown)))
	}
	if r := run.Result; r != nil {
		add(r.Steps, "result/seconds", run.Seconds())
		add(r.Steps, "result/wall_seconds", r.WallSeconds)
		add(r.Steps, "result/bytes", float64(run.Crossed(r.BytesUp, r.BytesDown)))
		if !run.Config.Weightless {
			add(r.Steps, "result/accuracy", r.Accuracy)
			add(r.Steps, "result/loss", r.Loss)
		}
		if r.TargetReached {
			add(r.Steps, "result/target_seconds", r.TargetSeconds)
			add(r.Steps, "result/target_bytes", float64(r.TargetBytes))
		}
	}
	return out, nil
}

// instant is about when a run was at a step. Its own clock may be virtual, so the
// steps are spread over the time it took.
func instant(run *store.Run, step, last int) time.Time {
	took := run.Updated.Sub(run.Started)
	if last <= 0 || took <= 0 {
		return run.Started
	}
	return run.Started.Add(time.Duration(float64(took) * min(1, float64(step)/float64(last))))
}
