// Package store reads run folders: finds them, filters them by any key, groups
// repeats over seeds, and writes tables and exports. It writes no folders.
//
//	runs, err := store.Find("runs")                     // every run at or below a folder
//	topk, err := store.ParseCondition("codec~topk", now)
//	accuracy, err := store.FieldNamed("accuracy")
//	for _, g := range store.Groups(store.Filter(runs, topk)) {
//		fmt.Println(g.Label, g.Values(accuracy))          // seed by seed
//	}
//
// A run that is still going on can be read at any time: Open again for its
// state, Follow for what it told since.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// States of a run. Lost is a run that status.json calls running though no process seems to
// write to its folder; experiments.Busy makes sure of that.
const (
	Running = "running"
	Done    = "done"
	Stopped = "stopped"
	Failed  = "failed"
	Lost    = "lost"
)

// Run is what a run's folder says, its curves and rank reports left out: those
// are read by Curve and Ranks.
type Run struct {
	Folder  string
	Schema  int
	Recipe  string
	Name    string // variant and axis values
	ID      string // hash of the configuration, as [config.Config.Hash] gives it today
	State   string
	Step    int // of the last report
	Error   string
	Started time.Time
	Updated time.Time // of status.json, or of metrics.jsonl if that is younger
	Config  config.Config
	Foreign map[string]string   // keys of the configuration that are unknown here
	Env     map[string]any      // what it ran on
	Result  *experiments.Result // nil until there is one
	About   experiments.About   // name, tags and note
	Metrics []sgd.Metric        // of its model, the first by which runs are compared; none: it has no weights
}

// Open reads one run's folder.
func Open(path string) (*Run, error) {
	r := &Run{Folder: path, Foreign: map[string]string{}}
	var s experiments.Status
	if err := readJSON(filepath.Join(path, "status.json"), &s); err != nil {
		return nil, fmt.Errorf("%s is no run folder: %w", path, err)
	}
	if err := s.Check(path); err != nil {
		return nil, err
	}
	r.Schema, r.Recipe, r.Name, r.State = s.Schema, s.Recipe, s.Run, s.State
	r.Step, r.Error, r.Started, r.Updated = s.Step, s.Error, s.Started, s.Updated
	if err := r.readConfig(); err != nil {
		return nil, err
	}
	_ = readJSON(filepath.Join(path, "env.json"), &r.Env)
	r.About, _ = experiments.ReadAbout(path)
	if r.Started.IsZero() {
		if text, ok := r.Env["time"].(string); ok {
			r.Started, _ = time.Parse(time.RFC3339, text)
		}
	}
	var res experiments.Result
	switch err := readJSON(filepath.Join(path, "result.json"), &res); {
	case err == nil:
		r.Result = &res
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if r.Metrics = s.Metrics; r.Metrics == nil && r.Result != nil {
		r.Metrics = r.Result.Metrics
	}
	if r.State == Running {
		if info, err := os.Stat(filepath.Join(path, "metrics.jsonl")); err == nil && info.ModTime().After(r.Updated) {
			r.Updated = info.ModTime().UTC()
		}
		if !experiments.SeemsBusy(path) {
			r.State = Lost
		}
	}
	return r, nil
}

// readConfig reads config.yaml and names the configuration by its hash.
func (r *Run) readConfig() error {
	path := filepath.Join(r.Folder, "config.yaml")
	b, err := regular.ReadFile(path, regular.Any)
	if err != nil {
		return err
	}
	c, foreign, err := config.ParseConfig(b)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r.Config, r.Foreign, r.ID = c, foreign, c.Hash()
	return nil
}

// Find reads every run folder at or below the paths, in the order they were
// started. Folders that cannot be read do not hide the others: their errors
// come joined beside the runs there are. Links are not followed.
func Find(paths ...string) ([]*Run, error) {
	return walk(func(string) *Run { return nil }, Open, paths)
}

// walk reads folders by open, but for those that known gives, which are not walked.
func walk(known func(dir string) *Run, open func(dir string) (*Run, error), paths []string) ([]*Run, error) {
	var out []*Run
	var errs []error
	seen := map[string]bool{}
	for _, base := range paths {
		err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && !seen[path] {
				if r := known(path); r != nil {
					seen[path], out = true, append(out, r)
					return filepath.SkipDir
				}
			}
			if d.IsDir() || d.Name() != "status.json" {
				return nil
			}
			dir := filepath.Dir(path)
			if seen[dir] {
				return nil
			}
			seen[dir] = true
			r, err := open(dir)
			if err != nil {
				errs = append(errs, err)
				return nil
			}
			out = append(out, r)
			return nil
		})
		if err != nil {
			errs = append(errs, err)
		}
	}
	slices.SortStableFunc(out, func(a, b *Run) int {
		if c := a.Started.Compare(b.Started); c != 0 {
			return c
		}
		return strings.Compare(a.Folder, b.Folder)
	})
	return out, errors.Join(errs...)
}

// Curve is what a run told while it went on.
type Curve struct {
	Progress []record.Progress // training loss, learning rate, staleness, bytes at the lead rank
	Evals    []record.Eval     // test accuracy and loss, bytes of all workers
}

// Curve reads the run's curves from metrics.jsonl. A run that has not told
// anything yet has empty ones.
func (r *Run) Curve() (Curve, error) {
	c, _, err := r.Follow(0)
	return c, err
}

// Follow reads what metrics.jsonl holds behind byte offset, and returns where
// to go on: a torn last line is left for the next time. An offset beyond the
// end, as after a resume that cut the file, reads from the start again.
func (r *Run) Follow(offset int64) (c Curve, next int64, err error) {
	b, err := regular.ReadFile(filepath.Join(r.Folder, "metrics.jsonl"), regular.Any)
	if errors.Is(err, fs.ErrNotExist) {
		return c, 0, nil
	}
	if err != nil {
		return c, offset, err
	}
	if offset > int64(len(b)) {
		offset = 0
	}
	b = b[offset:]
	whole := len(b)
	for whole > 0 && b[whole-1] != '\n' {
		whole--
	}
	for _, m := range experiments.ParseMetrics(b[:whole]) {
		if m.Progress != nil {
			c.Progress = append(c.Progress, *m.Progress)
		}
		if m.Eval != nil {
			c.Evals = append(c.Evals, *m.Eval)
		}
	}
	return c, offset + int64(whole), nil
}

// Ranks reads what every rank told at its end: traffic by kind, ledger,
// staleness by shard, seconds of computing and waiting. None before the end.
func (r *Run) Ranks() ([]record.RankReport, error) {
	var out []record.RankReport
	err := readJSON(filepath.Join(r.Folder, "ranks.json"), &out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return out, err
}

// Servers reports whether gradients go to servers, so that bytes up and bytes
// down both cross the network.
func (r *Run) Servers() bool {
	if r.Result != nil {
		return r.Result.Servers
	}
	m, err := train.Modes.Parse(r.Config.Mode)
	return err == nil && (&train.Job{Mode: m}).Served()
}

// Crossed is the number of bytes that crossed the network, of those sent by
// and to workers.
func (r *Run) Crossed(up, down uint64) uint64 {
	return (&experiments.Result{Servers: r.Servers()}).Crossed(up, down)
}

// Virtual reports whether the run's clock is that of a virtual cluster.
func (r *Run) Virtual() bool { return r.Config.OnNet().Virtual }

// Seconds is the run's time on its net's clock; 0 without a result.
func (r *Run) Seconds() float64 {
	switch {
	case r.Result == nil:
		return 0
	case r.Virtual():
		return r.Result.VirtualSeconds
	}
	return r.Result.WallSeconds
}

func readJSON(path string, v any) error {
	b, err := regular.ReadFile(path, regular.Any)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
