package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Made are the runs that results are of, as their folders tell them. A result may
// look for another target than the run it is of.
func Made(results []*experiments.Result) ([]*Run, error) {
	var out []*Run
	for _, res := range results {
		r, err := Open(res.Folder)
		if err != nil {
			return nil, err
		}
		if r.Result = res; !r.Config.Target.OfBest {
			r.Config.Target.Value = res.Target
		}
		out = append(out, r)
	}
	return out, nil
}

// names are what a table or figure calls groups, and the head of that column: the
// variants of a recipe where these tell them apart, else the keys that do.
func names(groups []*Group) (head string, out []string) {
	head = "run"
	variants, seen := false, map[string]bool{}
	for _, g := range groups {
		name := config.WithoutSeed(g.Runs[0].Name)
		first, _, _ := strings.Cut(name, ",")
		variants = variants || first != "" && !strings.Contains(first, "=")
		out, seen[name] = append(out, name), true
	}
	if variants && len(seen) == len(groups) || len(groups) == 1 && out[0] != "" {
		return head, out
	}
	var all []*Run
	for i, g := range groups {
		out[i] = g.Label
		all = append(all, g.Runs...)
	}
	if v := Varying(all); len(v) == 1 {
		head = v[0]
	}
	return head, out
}

// Clock words what a run's seconds are of.
func (r *Run) Clock() string {
	if r.Virtual() {
		return "virtual time"
	}
	return "wall time"
}

// Summary writes what runs came to, a table for each facet and a row for each
// configuration: last accuracy, updates, bytes, compression against raw and bf16, time,
// best accuracy, and time and bytes to the target. Means are over the runs that are done. style is
// box, markdown or csv.
func Summary(w io.Writer, style string, runs []*Run) error {
	var notes []string
	for _, f := range Facets(runs) {
		if f.Label != "" {
			fmt.Fprintln(w, figure.Cell(style, f.Label))
		}
		groups := Groups(f.Runs)
		t, err := summary(groups)
		if err != nil {
			return err
		}
		if s, err := pays(groups); err != nil {
			return err
		} else if s != "" {
			fmt.Fprintln(w, figure.Cell(style, s))
		}
		if len(t.Rows) > 0 {
			if err := t.Write(w, style, 0); err != nil {
				return err
			}
		}
		for _, g := range groups {
			if len(Comparable(g.Runs)) > 1 {
				notes = append(notes, "± is half a 95 % interval (Student's t over seeds); gradlab runs compare has differences and tests")
			}
			for _, r := range g.Runs {
				notes = append(notes, r.caveats(g.Label)...)
			}
		}
	}
	slices.Sort(notes)
	for _, n := range slices.Compact(notes) {
		fmt.Fprintln(w, "note:", figure.Cell(style, n))
	}
	return nil
}

// summary is the table of a facet's groups.
func summary(groups []*Group) (t figure.Table, err error) {
	head, labels := names(groups)
	var all []*Run
	for _, g := range groups {
		all = append(all, g.Runs...)
	}
	learns := slices.ContainsFunc(all, func(r *Run) bool { return !r.Config.Weightless })
	target := CommonTarget(all)
	first, word := target.Metric.Column(), target.Metric.Head()
	if !learns { // there is speed in place of what is learned
		first, target.Value = "rate", 0
	}
	t.Header = []string{head, "last " + word, "updates", "bytes", "compression", "to bf16", all[0].Clock()}
	var columns []Field
	var best Field
	for _, name := range []string{first, "updates", "bytes", "compression", "compression_bf16", "seconds", "staleness_mean", "staleness_max"} {
		f, err := FieldNamed(name)
		if err != nil {
			return t, err
		}
		columns = append(columns, f)
	}
	if !learns {
		t.Header[1] = "samples/s"
	} else if best, err = FieldNamed(target.Metric.BestColumn()); err != nil {
		return t, err
	} else {
		t.Header = append(t.Header, target.Metric.Best())
	}
	texts := slices.ContainsFunc(all, func(r *Run) bool { return r.Tokens(1) > 0 })
	if target.Asked() {
		t.Header = append(t.Header, "time to "+to(target), "bytes to "+to(target))
		if texts {
			t.Header = append(t.Header, "tokens to "+to(target))
		}
	}
	stale := slices.ContainsFunc(all, func(r *Run) bool { return r.Result != nil && r.Result.StalenessMax > 0 })
	if stale {
		t.Header = append(t.Header, "staleness mean / max")
	}
	var others []Field
	for i, f := range MetricFields(all) {
		m := MetricsOf(all)[i]
		if m != target.Metric && !m.IsUsual() && slices.ContainsFunc(all, func(r *Run) bool { return f.Value(r) != nil }) {
			others, t.Header = append(others, f), append(t.Header, m.Head())
		}
	}
	for range t.Header {
		t.Right = append(t.Right, len(t.Right) > 0)
	}
	for i, g := range groups {
		if len(Comparable(g.Runs)) == 0 { // the notes say why
			continue
		}
		row := []string{labels[i], plusMinus(columns[0], Maybe(g.Summary(columns[0]).Mean), Maybe(g.Summary(columns[0]).Half))}
		for _, f := range columns[1:6] {
			row = append(row, show(Maybe(g.Summary(f).Mean), f.Format))
		}
		if learns {
			row = append(row, show(Maybe(g.Summary(best).Mean), best.Format))
		}
		if target.Asked() {
			way, err := g.Reach(target)
			if err != nil {
				return t, err
			}
			row = append(row, way.cells(texts)...)
		}
		if stale {
			row = append(row, fmt.Sprintf("%.1f / %.0f", g.Summary(columns[6]).Mean, g.Summary(columns[7]).Max))
			if g.Summary(columns[6]).N == 0 {
				row[len(row)-1] = "-"
			}
		}
		for _, f := range others {
			row = append(row, plusMinus(f, Maybe(g.Summary(f).Mean), Maybe(g.Summary(f).Half)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

// pays says whether several workers reach the target sooner than one worker alone, in the
// medians of their runs; "" where that is not known.
func pays(groups []*Group) (string, error) {
	var all []*Run
	for _, g := range groups {
		all = append(all, g.Runs...)
	}
	target := CommonTarget(all)
	if !target.Asked() {
		return "", nil
	}
	alone, best, label := math.Inf(1), math.Inf(1), ""
	there := false
	for _, g := range groups {
		if len(Comparable(g.Runs)) == 0 {
			continue
		}
		way, err := g.Reach(target)
		if err != nil {
			return "", err
		}
		switch at := way.Seconds.Median; {
		case g.Label == Alone:
			alone, there = at, true
		case at < best:
			best, label = at, g.Label
		}
	}
	if !there || math.IsInf(best, 1) {
		return "", nil
	}
	where, up := "", alone/best
	if c := all[0].Config; all[0].Virtual() {
		where = " at network.bandwidth=" + c.Show("network.bandwidth")
	}
	verdict := "Distribution pays"
	switch {
	case up < 1/hardly:
		verdict = "Distribution does not pay"
	case up < hardly:
		verdict = "Distribution hardly pays"
	}
	if math.IsInf(alone, 1) {
		return fmt.Sprintf("%s%s: %s reaches %s in %s, one worker alone never.", verdict, where, label, to(target), progress.Seconds(best)), nil
	}
	more := ""
	if up < hardly && all[0].Virtual() {
		var err error
		if more, err = wouldPay(groups, target, alone); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s%s: %s reaches %s in %s, one worker alone in %s, a speed-up of %s.", verdict, where, label, to(target), progress.Seconds(best), progress.Seconds(alone), SpeedUp(up)) + more, nil
}

// SpeedUp words how many times as soon something is.
func SpeedUp(x float64) string {
	if x < 0.1 {
		return fmt.Sprintf("%.2g", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// to words a target in the head of a column.
func to(goal record.Goal) string {
	if goal.Metric == sgd.Accuracy {
		return fmt.Sprintf("%.4g", goal.Value)
	}
	return fmt.Sprintf("%s %.4g", goal.Metric.Head(), goal.Value)
}

// Plot draws the metric by which runs are compared over time and over bytes, two panels for
// each facet and a curve for each configuration: the mean of its runs that are done, with a band
// over all of them. The files are named below folder by title and by the
// configurations in them, so that other runs leave them alone. There are none where
// nothing was evaluated twice.
func Plot(folder, title string, runs []*Run) ([]string, error) {
	var panels []figure.Figure
	points := 0
	for _, f := range Facets(runs) {
		where := title
		if f.Label != "" {
			where += ", " + f.Label
		}
		goal := CommonTarget(f.Runs)
		acc, of := Axis("", goal.Metric), goal.Metric.Head()
		a := figure.Figure{Title: where + ": " + of + " over time", X: figure.Axis{Label: f.Runs[0].Clock(), Log: true, Unit: figure.Seconds}, Y: acc, Target: goal.Value}
		b := figure.Figure{Title: where + ": " + of + " over bytes", X: figure.Axis{Label: "bytes over the network", Log: true, Unit: figure.Bytes}, Y: acc, Target: a.Target}
		groups := Groups(f.Runs)
		_, labels := names(groups)
		for i, g := range groups {
			over := func(x func(*Run, record.Eval) float64) (figure.Series, error) {
				s, err := g.Curve(x, goal)
				s.Name = labels[i]
				points = max(points, len(s.X))
				return s, err
			}
			t, err := over(func(_ *Run, e record.Eval) float64 { return e.Seconds })
			if err != nil {
				return nil, err
			}
			by, err := over(func(r *Run, e record.Eval) float64 { return float64(r.Crossed(e.BytesUp, e.BytesDown)) })
			if err != nil {
				return nil, err
			}
			a.Series, b.Series = append(a.Series, t), append(b.Series, by)
		}
		if goal.Asked() && goal.Metric.Unit == sgd.Share && !goal.Metric.LessIsBetter {
			a.Y.Min, a.Y.Max = began(a.Series, goal.Value)
			b.Y.Min, b.Y.Max = began(b.Series, goal.Value)
		}
		panels = append(panels, a, b)
	}
	if points < 2 {
		return nil, nil // nothing to see in single points
	}
	return figure.Save(filepath.Join(folder, title+"-"+nameOf(runs)), panels...)
}

// Axis is that of a metric's values; which says "best ", or nothing.
func Axis(which string, m sgd.Metric) figure.Axis {
	a := figure.Axis{Label: which + "test " + m.Head()}
	switch m.Unit {
	case "":
	case sgd.Share:
		a.Unit = figure.Percent
	default:
		a.Label += " (" + m.Unit + ")"
	}
	return a
}

// began is the range of scores of curves on the way to a target from where most of them
// begin: one that begins far below would leave the others little room. 0 and 0: the
// target is not above that.
func began(curves []figure.Series, target float64) (from, to float64) {
	var first []float64
	to = target
	for _, s := range curves {
		for i, y := range s.Y {
			if i == 0 {
				first = append(first, y)
			}
			if to = max(to, y); s.Hi != nil {
				to = max(to, s.Hi[i])
			}
		}
	}
	if from = stats.Median(first); !(from < target) {
		return 0, 0
	}
	room := 0.04 * (to - from)
	return max(0, from-room), min(1, to+room)
}

// nameOf is the same for the same configurations, in any order: the keys that tell them
// apart, or of a single run the keys that its command changed, and a hash.
func nameOf(runs []*Run) string {
	keys := Varying(runs)
	if len(runs) == 1 && runs[0].Name != "" {
		keys = []string{runs[0].Name}
	}
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune("=.,-_+", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, strings.Join(keys, ","))
	if len(name) > 80 {
		name = name[:80]
	}
	if name != "" {
		name += "-"
	}
	return name + hashOf(runs)
}

func hashOf(runs []*Run) string {
	var ids []string
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(ids), " ")))
	return hex.EncodeToString(sum[:3])
}

// Curve is the mean of what a goal is of at each evaluation of the group's runs that are done,
// over what x says of the evaluation: seconds, bytes. Of several runs there is a band
// from the least to the most.
func (g *Group) Curve(x func(*Run, record.Eval) float64, goal record.Goal) (s figure.Series, err error) {
	var curves [][]record.Eval
	var of []*Run
	for _, r := range g.Runs {
		if !r.IsDone() {
			continue
		}
		c, err := r.Curve()
		if err != nil {
			return s, err
		}
		curves, of = append(curves, c.Evals), append(of, r)
	}
	for i, more := 0, true; more; i++ {
		var xs, ys []float64
		more = false
		for k, evals := range curves {
			if i < len(evals) {
				more = true
				if y, known := evals[i].Values.Of(goal.Metric); known {
					xs, ys = append(xs, x(of[k], evals[i])), append(ys, y)
				}
			}
		}
		if len(xs) == 0 { // none is finite
			continue
		}
		y := stats.Summarize(ys)
		s.X, s.Y = append(s.X, stats.Summarize(xs).Mean), append(s.Y, y.Mean)
		if len(curves) > 1 {
			s.Lo, s.Hi = append(s.Lo, y.Min), append(s.Hi, y.Max)
		}
	}
	return s, nil
}
