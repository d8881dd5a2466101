// Package lab is what notebooks need on top of packages experiments and report:
// runs by a line of text, and tables and figures shown in the notebook.
//
//	runs := lab.Must(lab.Run("quickstart", "codec=raw,qsgd(bits=4)", "epochs=6"))
//	lab.Do(lab.Answer(runs))
//	lab.Do(lab.Figures(runs, "curves"))
//
// Runs are kept below the folder runs: a cell that asks for a run that another
// cell has made gets that one, without making it again. Cells of a notebook are
// programs of their own, so this is how they share what took long.
package lab

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/coding"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/report"
	"github.com/gradlab/gradlab/experiments/reproduce"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/data"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Folder is where runs and studies are kept.
const Folder = "runs"

// Must returns v and ends the cell if there is an error.
func Must[T any](v T, err error) T {
	Do(err)
	return v
}

// Do ends the cell if there is an error.
func Do(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Run makes the runs of a recipe, an embedded one by name or a file, under
// overrides key=value; a list makes a run for each value.
func Run(recipe string, overrides ...string) ([]*store.Run, error) {
	r, err := config.LoadRecipe(recipe)
	if err != nil {
		return nil, err
	}
	return execute(r, overrides)
}

// RunText makes the runs of a recipe given as YAML.
func RunText(name, yaml string, overrides ...string) ([]*store.Run, error) {
	r, err := config.ParseRecipe(name, name+".yaml", []byte(yaml))
	if err != nil {
		return nil, err
	}
	return execute(r, overrides)
}

func execute(r *config.Recipe, overrides []string) ([]*store.Run, error) {
	runs, err := r.Runs(overrides, false)
	if err != nil {
		return nil, err
	}
	cache, err := data.DefaultCache()
	if err != nil {
		return nil, err
	}
	places := config.Places{Codecs: coding.NewMeter(filepath.Join(cache, "codec-rates"))}
	results, err := experiments.ExecuteAll(context.Background(), runs, experiments.Options{Recipe: r.Name, Out: Folder, Resume: true, Places: places})
	if err != nil {
		return nil, err
	}
	var out []*store.Run
	for _, res := range results {
		run, err := store.Open(res.Folder)
		if err != nil {
			return nil, err
		}
		out = append(out, run)
	}
	return out, nil
}

// task is the one comparison that runs allow.
func task(runs []*store.Run) (*report.Task, error) {
	r, err := report.New(runs, record.Goal{})
	if err != nil {
		return nil, err
	}
	if len(r.Tasks) != 1 {
		return nil, fmt.Errorf("these runs are %d tasks, which cannot be compared with each other", len(r.Tasks))
	}
	return r.Tasks[0], nil
}

// Answer shows what the runs say, in sentences.
func Answer(runs []*store.Run) error {
	t, err := task(runs)
	if err != nil {
		return err
	}
	return Markdown("* %s", strings.Join(t.Answer(), "\n* "))
}

// Figures shows sections of a report by name: pareto, curves, staleness,
// traffic, time, scaling.
func Figures(runs []*store.Run, names ...string) error {
	t, err := task(runs)
	if err != nil {
		return err
	}
	for _, name := range names {
		i := slices.IndexFunc(t.Sections, func(s report.Section) bool { return s.Name == name })
		if i < 0 {
			return fmt.Errorf("the report of these runs has no section %q", name)
		}
		if err := Show(t.Sections[i].Panels...); err != nil {
			return err
		}
	}
	return nil
}

// Fields shows fields of the runs, means over seeds, a line a configuration.
// gradlab runs fields lists them.
func Fields(runs []*store.Run, names ...string) error {
	header := []string{"configuration"}
	var fields []store.Field
	for _, n := range names {
		f, err := store.FieldNamed(n)
		if err != nil {
			return err
		}
		header, fields = append(header, n), append(fields, f)
	}
	var rows [][]string
	for _, g := range store.Groups(runs) {
		row := []string{g.Label}
		for _, f := range fields {
			s := ""
			if v := g.Values(f); len(v) > 0 {
				s = f.Format(stats.Summarize(v).Mean)
			}
			row = append(row, s)
		}
		rows = append(rows, row)
	}
	return Table(header, rows)
}

// Lines draws a field of the runs over a number, a line for each by: means over
// the runs that agree in both, in the order of the runs. Runs that do not know
// the field, or whose x is NaN, are left out.
func Lines(runs []*store.Run, title string, x, y figure.Axis, field string, over func(*store.Run) float64, by func(*store.Run) string) (figure.Figure, error) {
	f := figure.Figure{Title: title, X: x, Y: y}
	fd, err := store.FieldNamed(field)
	if err != nil {
		return f, err
	}
	type point struct {
		x  float64
		ys []float64
	}
	lines := map[string][]*point{}
	var names []string
	for _, r := range runs {
		v, ok := fd.Number(r)
		at := over(r)
		if !ok || math.IsNaN(at) {
			continue
		}
		name := by(r)
		if lines[name] == nil {
			names = append(names, name)
		}
		i := slices.IndexFunc(lines[name], func(p *point) bool { return p.x == at })
		if i < 0 {
			i = len(lines[name])
			lines[name] = append(lines[name], &point{x: at})
		}
		lines[name][i].ys = append(lines[name][i].ys, v)
	}
	for _, name := range names {
		s := figure.Series{Name: name, Marks: true}
		ps := lines[name]
		slices.SortFunc(ps, func(a, b *point) int { return int(math.Copysign(1, a.x-b.x)) })
		for _, p := range ps {
			s.X, s.Y = append(s.X, p.x), append(s.Y, stats.Summarize(p.ys).Mean)
		}
		f.Series = append(f.Series, s)
	}
	return f, nil
}

// Arg is a number among the options of spec text: Arg("constant(lr=0.05)", "lr")
// is 0.05. NaN if there is none.
func Arg(spec, option string) float64 {
	for _, part := range strings.FieldsFunc(spec, func(r rune) bool { return strings.ContainsRune("(),", r) }) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(part), option+"="); ok {
			if x, err := strconv.ParseFloat(v, 64); err == nil {
				return x
			}
		}
	}
	return math.NaN()
}

// Study runs studies in their smaller form and shows every point, those that do
// not hold too, and the figures.
func Study(names ...string) error {
	for _, name := range names {
		r, err := reproduce.Run(context.Background(), name, &reproduce.Lab{
			Quick: true, Out: filepath.Join(Folder, name), Runs: experiments.Options{Recipe: name, Out: Folder, Resume: true},
		})
		if err != nil {
			return err
		}
		if err := Markdown("**%s**: %s  \nsource: %s", r.Study, r.Title, r.Source); err != nil {
			return err
		}
		rows := [][]string{}
		for _, p := range r.Points {
			verdict := string(p.Kind)
			if p.Kind.Judged() {
				verdict += map[bool]string{true: ", holds", false: ", MISSED"}[p.OK]
			}
			rows = append(rows, []string{p.Name, fmt.Sprintf("%.4g %s", p.Published, p.Unit), fmt.Sprintf("%.4g %s", p.Ours, p.Unit), verdict})
		}
		if err := Table([]string{"point", "published", "ours", "verdict"}, rows); err != nil {
			return err
		}
		for _, f := range r.Figures {
			if strings.HasSuffix(f, ".svg") {
				if err := ShowFile(f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
