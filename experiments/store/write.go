package store

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Write writes the comparison as a table, scaling laws below it, and what a
// reader has to know about the figures. style is box or markdown.
func (c *Comparison) Write(w io.Writer, style string, width int) error {
	if c.Facet != "" {
		fmt.Fprintln(w, figure.Cell(style, c.Facet))
	}
	if err := c.table().Write(w, style, width); err != nil {
		return err
	}
	for _, n := range c.notes() {
		fmt.Fprintln(w, figure.Cell(style, n))
	}
	if len(c.Scaling) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	if err := scalingTable(c.Scaling).Write(w, style, width); err != nil {
		return err
	}
	for _, s := range c.Scaling {
		for _, l := range laws(s) {
			fmt.Fprintln(w, figure.Cell(style, l))
		}
	}
	return nil
}

// most keys that get a column each; more become one column of labels.
const columns = 4

func (c *Comparison) labelled() bool { return len(c.Varying) > columns || len(c.Varying) == 0 }

func (c *Comparison) table() figure.Table {
	var t figure.Table
	add := func(header string, right bool) { t.Header, t.Right = append(t.Header, header), append(t.Right, right) }
	labels := c.labelled()
	if labels {
		add("runs", false)
	} else {
		for _, k := range c.Varying {
			f, _ := FieldNamed(k)
			add(k, f.Kind.Numeric())
		}
	}
	t.Lead = len(t.Header)
	add("n", true)
	tests, several := false, false
	for i, g := range c.Groups {
		several = several || i > 0
		tests = tests || known(g.P) || g.Same
	}
	add(heading(c.Field), true)
	if several {
		add("difference", true)
	}
	if tests {
		add("p", true)
	}
	texts := slices.ContainsFunc(c.Groups, func(g *Compared) bool { return g.To.Texts })
	fact := func(name string) { // the field compared is there already
		if name != c.Name {
			add(name, true)
		}
	}
	fact("bytes")
	fact("seconds")
	if c.Target.Asked() {
		add("updates to "+to(c.Target), true)
		add("time to "+to(c.Target), true)
		add("bytes to "+to(c.Target), true)
		if texts {
			add("tokens to "+to(c.Target), true)
		}
	}
	for _, g := range c.Groups {
		var row []string
		if labels {
			row = append(row, g.Label)
		} else if g.Label == Alone {
			row = append([]string{Alone}, make([]string, len(c.Varying)-1)...)
		} else {
			for _, k := range c.Varying {
				f, _ := FieldNamed(k)
				row = append(row, f.Show(g.Runs[0]))
			}
		}
		n := fmt.Sprint(g.N)
		if g.N < g.Of {
			n += fmt.Sprintf(" of %d", g.Of)
		}
		row = append(row, n, plusMinus(c.Field, g.Mean, g.Half))
		if several {
			d := ""
			if known(g.Diff) {
				d = signed(c.Field, g.Diff, g.DHalf)
			}
			row = append(row, d)
		}
		if tests {
			p := pvalue(g.P)
			if g.Same {
				p = "=  "
			}
			row = append(row, p)
		}
		if c.Name != "bytes" {
			row = append(row, show(g.Bytes, inBytes))
		}
		if c.Name != "seconds" {
			row = append(row, show(g.Seconds, progress.Seconds))
		}
		if c.Target.Asked() {
			row = append(row, reach(g.To.Updates, func(x float64) string { return fmt.Sprintf("%.0f", x) }))
			row = append(row, g.To.cells(texts)...)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// heading is a field's column: what is taken at the end of a run says so.
func heading(f Field) string {
	if _, ok := sgd.MetricOf(f.Name); ok {
		return "last " + f.Name
	}
	return f.Name
}

func known(m Maybe) bool { return !math.IsNaN(float64(m)) && !math.IsInf(float64(m), 0) }

func show(m Maybe, word func(float64) string) string {
	if !known(m) {
		return "-"
	}
	return word(float64(m))
}

// cells are the time and bytes of a table, and where there are texts the tokens.
func (w Way) cells(texts bool) []string {
	out := []string{reach(w.Seconds, progress.Seconds), reach(w.Bytes, inBytes)}
	if texts {
		out = append(out, reach(w.Tokens, func(x float64) string { return fmt.Sprintf("%.0f", x) }))
	}
	return out
}

func inBytes(x float64) string { return progress.Bytes(uint64(max(0, x))) }

func plusMinus(f Field, mean, half Maybe) string {
	if !known(half) {
		return show(mean, f.Format)
	}
	return f.Format(float64(mean)) + " ± " + f.Format(float64(half))
}

func signed(f Field, mean, half Maybe) string {
	x := float64(mean)
	s := "+" + f.Format(math.Abs(x))
	if x < 0 {
		s = "−" + s[1:]
	}
	if known(half) {
		s += " ± " + f.Format(float64(half))
	}
	return s
}

func pvalue(p Maybe) string {
	switch {
	case !known(p):
		return ""
	case p < 0.001:
		return "<0.001 *"
	case p < 0.05:
		return fmt.Sprintf("%.3f *", p)
	}
	return fmt.Sprintf("%.2f  ", p)
}

// reach words a median over repeats and, where they differ, the range.
func reach(r stats.Reach, word func(float64) string) string {
	switch {
	case r.Reached == 0:
		return "never"
	case r.Reached < r.N && math.IsInf(r.Median, 1):
		return fmt.Sprintf("%s for %d of %d", word(r.Min), r.Reached, r.N)
	case r.Reached < r.N:
		return fmt.Sprintf("%s (%s … never)", word(r.Median), word(r.Min))
	case word(r.Min) != word(r.Max):
		return fmt.Sprintf("%s (%s … %s)", word(r.Median), word(r.Min), word(r.Max))
	}
	return word(r.Median)
}

// notes say how the figures came about, as far as they are there.
func (c *Comparison) notes() []string {
	var out []string
	add := func(s string) {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	for i, g := range c.Groups {
		if g.Same {
			add("=: these runs are those of the first row to the last bit, so there is nothing to test.")
		}
		if known(g.Half) {
			add("± is half a 95 % interval (Student's t over seeds).")
		}
		if i > 0 && known(g.P) {
			how := "by Welch's test"
			if g.Paired > 0 {
				how = "seed by seed"
			}
			add(fmt.Sprintf("Differences are against the first row, %s; p is corrected for the number of different rows (Holm), * is below 0.05.", how))
		}
		if c.Target.Asked() && g.To.Seconds.N > 1 {
			add("Times, bytes and updates to the target are medians over seeds with their range; a seed that never got there counts as never.")
		}
	}
	if c.labelled() && len(c.Usual) > 0 {
		add("Where a row does not say: " + strings.Join(c.Usual, " "))
	}
	single := len(c.Groups) > 1
	for _, g := range c.Groups {
		single = single && g.N < 2
	}
	if single {
		add("One seed each: nothing can be said about chance. Repeat with --repeats 5.")
	}
	for _, g := range c.Groups {
		for _, r := range g.Runs {
			for _, n := range r.caveats(g.Label) {
				add(n)
			}
		}
	}
	for _, r := range c.left {
		for _, n := range r.caveats("") {
			add(n)
		}
	}
	return out
}

// caveats are what a reader of the figures that a run is in has to know; label is
// its group's.
func (r *Run) caveats(label string) (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	name := r.Name
	if name == "" {
		name = r.Recipe
	}
	if res := r.Result; res != nil && r.State == Done {
		if res.Degraded {
			add("%s is degraded: %s", name, strings.Join(res.Lost, "; "))
		}
		if res.Unchecked {
			add("%s: error feedback over a codec that is no contraction (unchecked)", label)
		}
		if res.Note != "" {
			add("%s", res.Note)
		}
		for _, m := range res.Metrics {
			if x, ok := res.Values[m.Name]; ok && record.Diverged(x) && (m.IsUsual() || m == r.Goal().Metric) {
				add("%s has diverged: its %s is not finite, and in no mean", withSeed(name, r), m.Head())
			}
		}
		if r.Virtual() {
			lie := "; gradlab report says where they lie"
			if def := config.Default(); r.Config.Transport == def.Transport && r.Config.Cluster == def.Cluster { // nothing of them is drawn
				lie = ""
			}
			add("Virtual times are %s%s.", r.Config.Stack(), lie)
		}
		if n := res.CodecTime; n != "" {
			add("In virtual time %s.", n)
		}
		if res.PricedFrom != "" {
			add("runs that learn the same were trained once; the others took that over, with times and bytes of their own (--train-all trains each)")
		}
	}
	switch why, _, _ := strings.Cut(r.Error, "\n"); {
	case r.State == Failed && r.Result == nil:
		add("%s failed at step %d and is in no mean: %s", name, r.Step, why)
	case r.State != Done:
		add("%s is %s at step %d and in no mean", name, r.State, r.Step)
	}
	return out
}

// withSeed adds a run's seed to its name, unless it is there.
func withSeed(name string, r *Run) string {
	if seed := fmt.Sprint("seed=", r.Config.Seed); !strings.Contains(name, seed) {
		name += ", " + seed
	}
	return name
}

func scalingTable(all []Scaling) figure.Table {
	t := figure.Table{Header: []string{"scaling", "workers", "samples/s", "speed-up", "efficiency"}, Right: []bool{false, true, true, true, true}}
	for _, s := range all {
		for i, p := range s.Points {
			label := s.Label
			if i > 0 {
				label = ""
			}
			t.Rows = append(t.Rows, []string{label, fmt.Sprint(p.N), fmt.Sprintf("%.4g", p.Throughput),
				fmt.Sprintf("%.2f×", p.Throughput/s.Points[0].Throughput), fmt.Sprintf("%.0f %%", 100*s.Efficiency[i])})
		}
	}
	return t
}

// laws words the fits, if there are any.
func laws(s Scaling) []string {
	var out []string
	name := s.Label
	if name != "" {
		name += ": "
	}
	if l := s.Amdahl; l != nil && l.Sigma <= 1 {
		out = append(out, fmt.Sprintf("%sAmdahl's law with a serial share of %.1f %% fits to %.1f %% (root mean square)", name, 100*l.Sigma, 100*l.RMS))
	}
	if l := s.USL; l != nil && l.Kappa > 0 {
		n, x := l.Limit()
		out = append(out, fmt.Sprintf("%sthe universal scalability law (σ = %.3f, κ = %.2g) to %.1f %%; throughput would be largest at %.0f workers, %.4g samples/s", name, l.Sigma, l.Kappa, 100*l.RMS, n, x))
	}
	return out
}
