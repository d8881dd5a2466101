package experiments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/montanaflynn/stats"

	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/sgd/train"
)

// ConfigError says that a configuration cannot run, though each of its keys is
// right by itself.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// ExecuteAll makes runs one after the other. A run that fails does not keep the
// others from being made; a stop or a configuration that cannot run does. It
// returns the results there are and the first error.
func ExecuteAll(ctx context.Context, runs []Run, opt Options) ([]*Result, error) {
	var out []*Result
	var first error
	for _, run := range runs {
		r, err := Execute(ctx, run, opt)
		if r != nil {
			out = append(out, r)
		}
		if err != nil && first == nil {
			first = err
		}
		var bad *ConfigError
		if errors.Is(err, ErrStopped) || errors.As(err, &bad) || ctx.Err() != nil {
			break
		}
	}
	return out, first
}

// group is a configuration and its repeats over seeds.
type group struct {
	name    string
	results []*Result
}

// groups joins results that differ in their seed alone.
func groups(rs []*Result) []*group {
	var out []*group
	for _, r := range rs {
		name := withoutSeed(r.Name)
		if name == "" {
			name = r.Recipe
		}
		var g *group
		for _, o := range out {
			if o.name == name {
				g = o
			}
		}
		if g == nil {
			g = &group{name: name}
			out = append(out, g)
		}
		g.results = append(g.results, r)
	}
	return out
}

// withoutSeed is a run's name without its seed: what its repeats share.
func withoutSeed(name string) string {
	parts := slices.DeleteFunc(splitName(name), func(p string) bool { return strings.HasPrefix(p, "seed=") })
	return strings.Join(parts, ",")
}

// splitName splits a run's name at commas outside brackets.
func splitName(s string) []string {
	var out []string
	depth, start := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, s[start:i])
				start = i + 1
			}
		}
	}
	return append(out, s[start:])
}

// label is a group's name without the key when all groups vary the same one.
func label(name, prefix string) string { return strings.TrimPrefix(name, prefix) }

func commonPrefix(gs []*group) string {
	prefix := ""
	for i, g := range gs {
		key, _, ok := strings.Cut(g.name, "=")
		if !ok || len(splitName(g.name)) > 1 || (i > 0 && key+"=" != prefix) {
			return ""
		}
		prefix = key + "="
	}
	return prefix
}

func (g *group) values(f func(*Result) float64) stats.Float64Data {
	var v stats.Float64Data
	for _, r := range g.results {
		v = append(v, f(r))
	}
	return v
}

func (g *group) mean(f func(*Result) float64) float64 { m, _ := g.values(f).Mean(); return m }

// pm words mean ± sample standard deviation.
func (g *group) pm(format string, f func(*Result) float64) string {
	v := g.values(f)
	m, _ := v.Mean()
	s := fmt.Sprintf(format, m)
	if len(v) > 1 {
		sd, _ := v.StandardDeviationSample()
		s += fmt.Sprintf(" ± "+format, sd)
	}
	return s
}

// virtual says whether the run's clock was that of a virtual cluster.
func (r *Result) virtual() bool { return r.VirtualSeconds > 0 }

func (r *Result) seconds() float64 {
	if r.virtual() {
		return r.VirtualSeconds
	}
	return r.WallSeconds
}

// clocks words what the times of results are of; mixed, if they are of both clocks.
func clocks(rs []*Result) (word string, mixed bool) {
	n := 0
	for _, r := range rs {
		if r.virtual() {
			n++
		}
	}
	switch n {
	case 0:
		return "wall time", false
	case len(rs):
		return "virtual time", false
	}
	return "time", true
}

// targets is the highest target of results, and whether it is that of all.
func targets(rs []*Result) (most float64, common bool) {
	common = true
	for _, r := range rs {
		most, common = max(most, r.Target), common && r.Target == rs[0].Target
	}
	return most, common
}

// WriteTable compares results: accuracy, bytes, compression (bytes per gradient
// computed) against the first row, time, and time and bytes to the target.
// Repeats over seeds are one row, mean ± standard deviation; a median of the
// seeds that reached the target is marked when some did not. Times of different
// clocks say which they are of. style is box, markdown or csv.
func WriteTable(w io.Writer, style string, rs []*Result) error {
	gs := groups(rs)
	if len(gs) == 0 {
		return nil
	}
	prefix := commonPrefix(gs)
	first := strings.TrimSuffix(prefix, "=")
	if first == "" {
		first = "run"
	}
	total := func(r *Result) float64 { return float64(r.Crossed(r.BytesUp, r.BytesDown)) }
	// Updates differ in how many gradients they take, so compression compares
	// bytes per gradient computed.
	perGradient := func(r *Result) float64 {
		var batch float64
		if _, err := fmt.Sscan(fmt.Sprint(r.Config["batch"]), &batch); err != nil || r.Samples == 0 {
			return 0
		}
		return total(r) * batch / float64(r.Samples)
	}
	clock, mixed := clocks(rs)
	header := []string{first, "accuracy", "steps", "bytes", "compression", clock}
	right := []bool{false, true, true, true, true, true}
	target, common := targets(rs)
	aim := "target" // each its own
	if common {
		aim = fmt.Sprintf("%.4g", target)
	}
	learns := slices.ContainsFunc(rs, func(r *Result) bool { return !r.Weightless() })
	if !learns { // there is speed in place of what is learned
		header[1], target = "samples/s", 0
	}
	if target > 0 {
		header = append(header, "time to "+aim, "bytes to "+aim)
		right = append(right, true, true)
	}
	stale := false
	for _, r := range rs {
		stale = stale || r.StalenessMax > 0
	}
	if stale {
		header, right = append(header, "staleness mean / max"), append(right, true)
	}
	base := gs[0].mean(perGradient)
	var rows [][]string
	var notes []string
	for _, g := range gs {
		seconds := progress.Seconds
		if mixed {
			of, _ := clocks(g.results)
			seconds = func(s float64) string { return progress.Seconds(s) + " " + strings.TrimSuffix(of, " time") }
		}
		if len(g.results) > 1 {
			notes = append(notes, "± is the standard deviation over seeds; gradlab runs compare has intervals and tests")
		}
		row := []string{
			label(g.name, prefix), g.pm("%.4f", func(r *Result) float64 { return r.Accuracy }),
			fmt.Sprintf("%.0f", g.mean(func(r *Result) float64 { return float64(r.Steps) })),
			progress.Bytes(uint64(g.mean(total))), "",
			seconds(g.mean((*Result).seconds)),
		}
		if !learns {
			row[1] = g.pm("%.4g", func(r *Result) float64 { return float64(r.Samples) / r.VirtualSeconds })
		}
		if b := g.mean(perGradient); b > 0 && base > 0 {
			row[4] = fmt.Sprintf("%.1f×", base/b)
		}
		if target > 0 {
			row = append(row, g.toTarget(func(r *Result) float64 { return r.TargetSeconds }, seconds),
				g.toTarget(func(r *Result) float64 { return float64(r.TargetBytes) }, func(b float64) string { return progress.Bytes(uint64(b)) }))
		}
		if stale {
			worst, _ := g.values(func(r *Result) float64 { return float64(r.StalenessMax) }).Max()
			row = append(row, fmt.Sprintf("%.1f / %.0f", g.mean(func(r *Result) float64 { return r.StalenessMean }), worst))
		}
		rows = append(rows, row)
		for _, r := range g.results {
			if r.Degraded {
				notes = append(notes, fmt.Sprintf("%s is degraded: %s", r.Name, strings.Join(r.Lost, "; ")))
			}
			if r.Unchecked {
				notes = append(notes, fmt.Sprintf("%s: error feedback over a codec that is no contraction (unchecked)", r.Name))
			}
			if r.Status == "stopped" {
				notes = append(notes, fmt.Sprintf("%s was stopped at step %d", r.Name, r.Steps))
			}
			if r.Note != "" {
				notes = append(notes, r.Note)
			}
		}
	}
	if err := figure.Table(w, style, header, rows, right); err != nil {
		return err
	}
	sort.Strings(notes)
	for i, n := range notes {
		if i == 0 || notes[i-1] != n {
			fmt.Fprintln(w, "note:", n)
		}
	}
	return nil
}

// toTarget words the median over the seeds that reached the target.
func (g *group) toTarget(f func(*Result) float64, word func(float64) string) string {
	var v stats.Float64Data
	for _, r := range g.results {
		if r.TargetReached {
			v = append(v, f(r))
		}
	}
	if len(v) == 0 {
		return "not reached"
	}
	m, _ := v.Median()
	if len(v) < len(g.results) {
		return fmt.Sprintf("%s (%d of %d)", word(m), len(v), len(g.results))
	}
	return word(m)
}

// Plot draws accuracy over time and over bytes for all results, one curve per
// group (the first seed where there are several; the band spans all of them),
// and returns the files written.
func Plot(out string, recipe *Recipe, rs []*Result) ([]string, error) {
	gs := groups(rs)
	prefix := commonPrefix(gs)
	clock, mixed := clocks(rs)
	if mixed {
		clock = "time, wall or virtual"
	}
	when, bytes := figure.Axis{Label: clock, Log: true, Unit: figure.Seconds}, figure.Axis{Label: "bytes over the network", Log: true, Unit: figure.Bytes}
	acc := figure.Axis{Label: "test accuracy", Unit: figure.Percent}
	a := figure.Figure{Title: recipe.Name + ": accuracy over time", X: when, Y: acc}
	b := figure.Figure{Title: recipe.Name + ": accuracy over bytes", X: bytes, Y: acc}
	points := 0
	for _, g := range gs {
		points = max(points, len(g.results[0].Evals))
		t := curve(g, label(g.name, prefix), func(e train.Eval) float64 { return e.Seconds })
		by := curve(g, label(g.name, prefix), func(e train.Eval) float64 { return float64(g.results[0].Crossed(e.BytesUp, e.BytesDown)) })
		a.Series, b.Series = append(a.Series, t), append(b.Series, by)
	}
	if points < 2 {
		return nil, nil // nothing to see in single points
	}
	if target, common := targets(rs); common {
		a.Target, b.Target = target, target
	}
	return figure.Save(filepath.Join(outOr(out), recipe.Name, recipe.Name), a, b)
}

// curve is the mean accuracy of a group's seeds at each evaluation.
func curve(g *group, name string, x func(train.Eval) float64) figure.Series {
	s := figure.Series{Name: name}
	for i := range g.results[0].Evals {
		var xs, ys stats.Float64Data
		for _, r := range g.results {
			if i < len(r.Evals) {
				xs, ys = append(xs, x(r.Evals[i])), append(ys, r.Evals[i].Accuracy)
			}
		}
		mx, _ := xs.Mean()
		my, _ := ys.Mean()
		s.X, s.Y = append(s.X, mx), append(s.Y, my)
		if len(g.results) > 1 {
			lo, _ := ys.Min()
			hi, _ := ys.Max()
			s.Lo, s.Hi = append(s.Lo, lo), append(s.Hi, hi)
		}
	}
	return s
}
