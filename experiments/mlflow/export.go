package mlflow

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
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

// ExportAll is Export for several runs, experiment "" for that of their recipe. Repeats of
// a configuration get a parent run with the means of their results, under which the
// server shows them; of runs that were there before, too.
func (c *Client) ExportAll(ctx context.Context, experiment string, runs []*store.Run) (map[Outcome]int, error) {
	counts := map[Outcome]int{}
	ids := map[*store.Run]string{}
	for _, r := range runs {
		id, outcome, err := c.export(ctx, nameOr(experiment, r), r)
		if err != nil {
			return counts, fmt.Errorf("%s: %w", r.Folder, err)
		}
		counts[outcome]++
		ids[r] = id
	}
	for _, g := range store.Groups(runs) {
		var children []*store.Run
		for _, r := range g.Runs {
			if ids[r] != "" && r.State == store.Done && r.Recipe == g.Runs[0].Recipe {
				children = append(children, r)
			}
		}
		if len(children) < 2 {
			continue
		}
		if err := c.parent(ctx, nameOr(experiment, children[0]), g.ID, children, ids); err != nil {
			return counts, fmt.Errorf("%s, repeats: %w", g.Label, err)
		}
	}
	return counts, nil
}

func nameOr(experiment string, r *store.Run) string {
	if experiment != "" {
		return experiment
	}
	return r.Recipe
}

// groupTag names what tells a parent apart: the configuration that its runs repeat.
const groupTag = "gradlab.group"

// parent makes the parent of repeats, or finds it, and hangs them below it.
func (c *Client) parent(ctx context.Context, experiment, group string, children []*store.Run, ids map[*store.Run]string) error {
	id, err := c.experiment(ctx, experiment)
	if err != nil {
		return err
	}
	key := fmt.Sprintf("%x", sha256.Sum256([]byte(group)))
	there, err := c.withTag(ctx, id, groupTag, key)
	if err != nil {
		return err
	}
	first := children[0]
	end := first.Updated
	for _, r := range children {
		if r.Updated.After(end) {
			end = r.Updated
		}
	}
	var at info
	for _, r := range there {
		if r.Status != "RUNNING" {
			at = r
		} else if err := c.call(ctx, http.MethodPost, "runs/delete", map[string]any{"run_id": r.ID}, nil); err != nil {
			return err
		}
	}
	var params []pair // which a server keeps as they were first
	if at.ID == "" {
		name := config.WithoutSeed(first.Name)
		if name == "" {
			name = first.Recipe
		}
		var made made
		err = c.call(ctx, http.MethodPost, "runs/create", map[string]any{
			"experiment_id": id, "run_name": name, "start_time": first.Started.UnixMilli(),
			"tags": append(systemTags(first), pair{groupTag, key}, pair{"gradlab.recipe", first.Recipe}),
		}, &made)
		if err != nil {
			return err
		}
		if at = made.Run.Info; at.ID == "" {
			_, err := c.known("", "runs/create", "a run_id")
			return err
		}
		for _, p := range paramsOf(first) {
			if p.Key != "seed" {
				params = append(params, p)
			}
		}
	}
	if err := c.log(ctx, at.ID, params, meansOf(children, end)); err != nil {
		return err
	}
	for _, r := range children {
		if err := c.call(ctx, http.MethodPost, "runs/set-tag", map[string]any{"run_id": ids[r], "key": "mlflow.parentRunId", "value": at.ID}, nil); err != nil {
			return err
		}
	}
	return c.call(ctx, http.MethodPost, "runs/update", map[string]any{"run_id": at.ID, "status": "FINISHED", "end_time": end.UnixMilli()}, nil)
}

// meansOf are the means of runs' results, at the step that is their number.
func meansOf(runs []*store.Run, at time.Time) (out []metric) {
	sums, known := map[string]float64{}, map[string]int{}
	for _, r := range runs {
		for _, m := range resultOf(r) {
			sums[m.Key] += m.Value
			known[m.Key]++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		if known[key] == len(runs) { // a mean over those that reached a target would mislead
			out = append(out, metric{key, sums[key] / float64(len(runs)), at.UnixMilli(), len(runs)})
		}
	}
	return append(out, metric{"result/runs", float64(len(runs)), at.UnixMilli(), len(runs)})
}

// Export copies a run to the experiment of a name: its configuration as
// parameters, its curves and result as metrics, the files of its folder as artifacts,
// machine, program and folder as tags. A run that the server has is left alone, and one
// of which it has a part, because an export was cut off, is made anew.
func (c *Client) Export(ctx context.Context, experiment string, run *store.Run) (Outcome, error) {
	_, outcome, err := c.export(ctx, experiment, run)
	return outcome, err
}

// made is the answer to runs/create.
type made struct {
	Run struct {
		Info info `json:"info"`
	} `json:"run"`
}

// export is Export, with the run's id on the server.
func (c *Client) export(ctx context.Context, experiment string, run *store.Run) (string, Outcome, error) {
	status, over := map[string]string{store.Done: "FINISHED", store.Stopped: "KILLED", store.Failed: "FAILED", store.Lost: "KILLED"}[run.State]
	if !over {
		return "", Going, nil
	}
	id, err := c.experiment(ctx, experiment)
	if err != nil {
		return "", "", err
	}
	key := fmt.Sprintf("%s@%d", run.ID, run.Started.UnixMilli())
	there, err := c.withTag(ctx, id, tag, key)
	if err != nil {
		return "", "", err
	}
	for _, r := range there {
		if r.Status != "RUNNING" {
			return r.ID, There, nil
		}
		if err := c.call(ctx, http.MethodPost, "runs/delete", map[string]any{"run_id": r.ID}, nil); err != nil {
			return "", "", err
		}
	}
	metrics, err := metricsOf(run)
	if err != nil {
		return "", "", err
	}
	name := run.About.Name
	if name == "" {
		name = run.Name
	}
	if name == "" {
		name = run.Recipe
	}
	var made made
	err = c.call(ctx, http.MethodPost, "runs/create", map[string]any{
		"experiment_id": id, "run_name": name, "start_time": run.Started.UnixMilli(), "tags": tagsOf(run, key),
	}, &made)
	at := made.Run.Info
	if err == nil {
		_, err = c.known(at.ID, "runs/create", "a run_id")
	}
	if err == nil {
		err = c.log(ctx, at.ID, paramsOf(run), metrics)
	}
	if err == nil {
		err = c.upload(ctx, at, run.Folder)
	}
	if err == nil {
		err = c.call(ctx, http.MethodPost, "runs/update", map[string]any{"run_id": at.ID, "status": status, "end_time": run.Updated.UnixMilli()}, nil)
	}
	if err != nil {
		return "", "", err
	}
	return at.ID, Exported, nil
}

func tagsOf(run *store.Run, key string) []pair {
	tags := append(systemTags(run), pair{tag, key}, pair{"gradlab.id", run.ID}, pair{"gradlab.recipe", run.Recipe}, pair{"gradlab.folder", run.Folder})
	for _, k := range []string{"host", "cpu", "vcs.revision"} {
		if v, ok := run.Env[k].(string); ok {
			tags = append(tags, pair{"gradlab." + k, v})
		}
	}
	if len(run.About.Tags) > 0 {
		tags = append(tags, pair{"gradlab.tags", strings.Join(run.About.Tags, ",")})
	}
	if run.Error != "" {
		tags = append(tags, pair{"gradlab.error", run.Error[:min(len(run.Error), longest)]})
	}
	return tags
}

// longest is the most that a tag takes.
const longest = 5000

// systemTags are those that the server's own pages show: who, by what command, of which
// revision, and the note.
func systemTags(run *store.Run) (tags []pair) {
	add := func(key, value string) {
		if value != "" {
			tags = append(tags, pair{"mlflow." + key, value[:min(len(value), longest)]})
		}
	}
	if u, err := user.Current(); err == nil {
		add("user", u.Username)
	}
	command := []string{"gradlab"}
	if args, ok := run.Env["args"].([]any); ok {
		for _, a := range args {
			command = append(command, fmt.Sprint(a))
		}
	}
	add("source.name", strings.Join(command, " "))
	add("source.type", "LOCAL")
	if v, ok := run.Env["vcs.revision"].(string); ok {
		add("source.git.commit", v)
	}
	add("note.content", run.About.Note)
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
	curve, err := run.Curve()
	if err != nil {
		return nil, err
	}
	add := func(step int, seconds float64, key string, value float64) {
		if finite(value) {
			out = append(out, metric{key, value, instant(run, seconds), step})
		}
	}
	for _, p := range curve.Progress {
		if !run.Config.Weightless {
			add(p.Step, p.Seconds, "train/loss", p.Loss)
		}
		add(p.Step, p.Seconds, "train/lr", p.LR)
		add(p.Step, p.Seconds, "staleness/mean", p.StalenessMean)
		add(p.Step, p.Seconds, "cost/seconds", p.Seconds)
	}
	for _, e := range curve.Evals {
		for _, name := range slices.Sorted(maps.Keys(e.Values)) {
			add(e.Step, e.Seconds, "test/"+name, e.Values[name])
		}
		add(e.Step, e.Seconds, "cost/bytes", float64(run.Crossed(e.BytesUp, e.BytesDown)))
	}
	return append(out, resultOf(run)...), nil
}

// resultOf is what a run came to.
func resultOf(run *store.Run) (out []metric) {
	r := run.Result
	if r == nil {
		return nil
	}
	add := func(key string, value float64) {
		if finite(value) {
			out = append(out, metric{key, value, instant(run, run.Seconds()), r.Steps})
		}
	}
	add("result/seconds", run.Seconds())
	add("result/wall_seconds", r.WallSeconds)
	add("result/bytes", float64(run.Crossed(r.BytesUp, r.BytesDown)))
	if !run.Config.Weightless {
		for _, name := range slices.Sorted(maps.Keys(r.Values)) {
			add("result/"+name, r.Values[name])
		}
	}
	if r.TargetReached {
		add("result/target_seconds", r.TargetSeconds)
		add("result/target_bytes", float64(r.TargetBytes))
		if r.TargetTokens > 0 {
			add("result/target_tokens", float64(r.TargetTokens))
		}
	}
	return out
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) && !record.Diverged(x) }

// instant is when a run was so many seconds old by the net's clock, in milliseconds:
// relative time on the server is virtual where the run's is.
func instant(run *store.Run, seconds float64) int64 {
	return run.Started.Add(time.Duration(seconds * float64(time.Second))).UnixMilli()
}
