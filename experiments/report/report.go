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
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Report is a comparison of runs.
type Report struct {
	Title string // what is computed, or the names of recipes where nothing was; a caller may set another
	Tasks []*Task
	// Views are over swept keys that tasks differ in, and Winners who is soonest by two keys.
	Views   []*View
	Winners []*Winners
	Runs    []*store.Run // all of them, those without a result too
	Notes   []string     // what could not be read, and caveats of runs
}

// New compares runs. Only runs of one environment (network, devices, net) compete:
// each has a task of its own. Runs that are not done are listed and left out of the
// figures; beside others of their configuration, those that failed count on the way
// to the target, as never unless they had reached it. target is what is
// to be reached first, whatever the runs looked for; none: that of a task's runs, if
// they agree. It fails if there are no runs at all.
func New(runs []*store.Run, target record.Goal) (*Report, error) {
	if len(runs) == 0 {
		return nil, errors.New("no runs to report on")
	}
	r := &Report{Runs: runs}
	var of, recipes []string
	ended := map[string][]*store.Run{}
	var keys []string
	for _, run := range runs {
		if !slices.Contains(recipes, run.Recipe) {
			recipes = append(recipes, run.Recipe)
		}
		if len(store.Comparable([]*store.Run{run})) == 0 {
			continue
		}
		k := taskKey(run)
		if ended[k] == nil {
			keys = append(keys, k)
		}
		ended[k] = append(ended[k], run)
	}
	for _, k := range keys {
		for _, f := range store.Facets(withResult(ended[k])) {
			t, err := newTask(f, target)
			if err != nil {
				return nil, err
			}
			r.Tasks = append(r.Tasks, t)
			if !slices.Contains(of, t.What()) {
				of = append(of, t.What())
			}
		}
	}
	if r.Title = list(of); len(of) == 0 {
		r.Title = list(recipes)
	}
	for _, run := range runs {
		r.Notes = append(r.Notes, caveats(run)...)
	}
	slices.Sort(r.Notes)
	r.Notes = slices.Compact(r.Notes)
	r.sweep()
	return r, nil
}

// Draws are the times of a run on real clusters as they may be, draw by draw; From names
// what was drawn.
type Draws struct {
	Seconds []float64
	From    string
}

// Lie asks of the first run of every configuration on the virtual cluster for its times on
// real ones; nil where they are not known. Draw by draw these are of the same cluster for
// all configurations of a task, and seeds are taken to be alike. Where all configurations
// that compete are known, times of the task are then those of the draws: figures, table and
// answers have the median and its interval. most limits how many configurations there may be
// for any to be asked about: each takes time.
func (r *Report) Lie(most int, where func(*store.Run) (*Draws, error)) error {
	n := 0
	for _, t := range r.Tasks {
		n += len(t.Configs)
	}
	if n > most {
		return nil
	}
	for _, t := range r.Tasks {
		if !t.Virtual {
			continue
		}
		drawn := map[*Config]*Draws{}
		for _, c := range t.Configs {
			d, err := where(c.Trials[0].Run)
			if err != nil {
				return err
			}
			if d != nil && len(d.Seconds) > 0 {
				drawn[c] = d
			}
		}
		onClusters(t, drawn)
	}
	r.sweep()
	return nil
}

// withResult keeps the runs of configurations of which at least one run is done.
func withResult(runs []*store.Run) (out []*store.Run) {
	for _, g := range store.Groups(runs) {
		if slices.ContainsFunc(g.Runs, (*store.Run).IsDone) {
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
// returns the files' names. Those of one task among several have its facet in theirs.
func (r *Report) Figures(dir string) (files []string, err error) {
	write := func(name string, panels []figure.Figure) error {
		base := filepath.Join(dir, name)
		saved, err := figure.Save(base, panels...)
		if files = append(files, saved...); err != nil {
			return err
		}
		pdf, err := figure.PDF(panels...)
		if err != nil {
			return err
		}
		if err := os.WriteFile(base+".pdf", pdf, 0o644); err != nil {
			return err
		}
		files = append(files, base+".pdf")
		return nil
	}
	for i, v := range r.Views {
		if err := write(r.Slug(i), v.Panels); err != nil {
			return files, err
		}
	}
	for _, t := range r.Tasks {
		for _, s := range t.Sections {
			name := s.Name
			if len(r.Tasks) > 1 {
				name = r.short(t) + "-" + name
			}
			if err := write(name, s.Panels); err != nil {
				return files, err
			}
		}
	}
	return files, nil
}

// Slug names the i-th view in files and on the page; several of one axis are numbered.
func (r *Report) Slug(i int) string {
	v, n, at := r.Views[i], 0, 0
	for k, o := range r.Views {
		if o.Name == v.Name {
			if n++; k == i {
				at = n
			}
		}
	}
	if n == 1 {
		return v.Name
	}
	return fmt.Sprintf("%s-%d", v.Name, at)
}

// short names a task among the others in file names: by its facet where that tells it from
// all of them.
func (r *Report) short(t *Task) string {
	count := map[string]int{}
	for _, o := range r.Tasks {
		count[o.place()]++
	}
	if name := t.place(); name != "" && count[name] == 1 {
		return name
	}
	return t.Slug()
}
