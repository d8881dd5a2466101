// Package report turns run folders into one page that opens with the answer:
// which configurations are on the Pareto front of accuracy, time and bytes, and
// behind it the curves, staleness, traffic, time, scaling and every run. The
// page is self-contained: no script, style, font or picture comes from elsewhere.
//
//	runs, err := store.Find("runs/quickstart")
//	r, err := report.New(runs)
//	err = r.HTML(file)
//	files, err := r.Figures("paper/figures")   // the same figures as SVG, PNG and PDF
package report

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/store"
)

// Report is a comparison of runs.
type Report struct {
	Title string
	Tasks []*Task
	Runs  []*store.Run // all of them, those without a result too
	Notes []string     // what could not be read, and caveats of runs
}

// New compares runs. Runs that are not done are listed and left out of the
// figures; beside others of their configuration, those that failed count on the way
// to the target, as never unless they had reached it. It fails if there are no runs at all.
func New(runs []*store.Run) (*Report, error) {
	if len(runs) == 0 {
		return nil, errors.New("no runs to report on")
	}
	r := &Report{Runs: runs}
	var recipes []string
	ended := map[string][]*store.Run{}
	var keys []string
	for _, run := range runs {
		if !slices.Contains(recipes, run.Recipe) {
			recipes = append(recipes, run.Recipe)
		}
		if !isDone(run) && run.State != store.Failed {
			continue
		}
		k := taskKey(run)
		if ended[k] == nil {
			keys = append(keys, k)
		}
		ended[k] = append(ended[k], run)
	}
	r.Title = strings.Join(recipes, ", ")
	for _, k := range keys {
		done := withResult(ended[k])
		if len(done) == 0 {
			continue
		}
		t, err := newTask(done)
		if err != nil {
			return nil, err
		}
		r.Tasks = append(r.Tasks, t)
	}
	for _, run := range runs {
		r.Notes = append(r.Notes, caveats(run)...)
	}
	slices.Sort(r.Notes)
	r.Notes = slices.Compact(r.Notes)
	return r, nil
}

// isDone is false for runs whose result, if they have one, is that of a part: one
// that was stopped, or goes on after a stop.
func isDone(r *store.Run) bool { return r.State == store.Done && r.Result != nil }

// withResult keeps the runs of configurations of which at least one run is done.
func withResult(runs []*store.Run) (out []*store.Run) {
	for _, g := range store.Groups(runs) {
		if slices.ContainsFunc(g.Runs, isDone) {
			out = append(out, g.Runs...)
		}
	}
	return out
}

// caveats are what a reader of a run's figures must know.
func caveats(run *store.Run) (out []string) {
	name := run.Name
	if name == "" {
		name = run.Recipe
	}
	switch run.State {
	case store.Failed:
		out = append(out, name+" failed: "+run.Error)
	case store.Stopped:
		out = append(out, name+" was stopped before its end and is not in the figures")
	case store.Lost:
		out = append(out, name+" was lost: nobody writes to its folder any more")
	case store.Running:
		out = append(out, name+" is still running and not in the figures")
	}
	if res := run.Result; res != nil {
		if res.Degraded {
			out = append(out, name+" is degraded: "+strings.Join(res.Lost, "; "))
		}
		if res.Unchecked {
			out = append(out, name+": error feedback over a codec that is no contraction (unchecked)")
		}
		if res.Note != "" {
			out = append(out, res.Note)
		}
	}
	return out
}

// Updated is when the youngest run told something for the last time.
func (r *Report) Updated() time.Time {
	return slices.MaxFunc(r.Runs, func(a, b *store.Run) int { return a.Updated.Compare(b.Updated) }).Updated
}

// Figures writes every figure of the report below dir as SVG, PNG and PDF, and
// returns the files' names.
func (r *Report) Figures(dir string) (files []string, err error) {
	for _, t := range r.Tasks {
		for _, s := range t.Sections {
			name := s.Name
			if len(r.Tasks) > 1 {
				name = t.Slug() + "-" + name
			}
			base := filepath.Join(dir, name)
			saved, err := figure.Save(base, s.Panels...)
			files = append(files, saved...)
			if err != nil {
				return files, err
			}
			pdf, err := figure.PDF(s.Panels...)
			if err != nil {
				return files, err
			}
			if err := os.WriteFile(base+".pdf", pdf, 0o644); err != nil {
				return files, err
			}
			files = append(files, base+".pdf")
		}
	}
	return files, nil
}
