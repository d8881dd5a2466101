package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/stats"
)

// most is how many rows a table shows at first, and a figure of bars at all, where there
// are more than folds lets pass.
const most = 10

func folds(n int) bool { return n > most+5 }

// order puts choices first, the best first: by the time to the target where there is one,
// then by the best score, then by time.
func (t *Task) order() {
	slices.SortStableFunc(t.Configs, func(a, b *Config) int {
		if a.Choice() != b.Choice() {
			if a.Choice() {
				return -1
			}
			return 1
		}
		soon := 0
		if t.Target.Asked() {
			soon = cmp.Compare(a.ToSeconds.Median, b.ToSeconds.Median)
		}
		return cmp.Or(soon, t.better(a, b), cmp.Compare(a.Seconds.Mean, b.Seconds.Mean))
	})
}

// shown are the configurations that figures with a row or a line for each of them show,
// and a note where there are others.
func (t *Task) shown() ([]*Config, []string) {
	if !folds(len(t.Configs)) {
		return t.Configs, nil
	}
	return t.Configs[:most], []string{fmt.Sprintf("Of %d configurations the first %d of the table.", len(t.Configs), most)}
}

// Effect is what configurations with one value of a key come to, over all values of the
// other keys.
type Effect struct {
	Key, Value string
	N          int     // configurations
	Mean, Best float64 // of best scores; of runs without weights seconds
	Reached    int     // configurations that reach the target in the median
	Share      float64 // where the mean lies between the least and the most of all effects
}

// Cell is a field of the map of two keys.
type Cell struct {
	Text  string
	Style template.CSS
}

// HeatMap is the mean over configurations by the values of two keys.
type HeatMap struct {
	Rows, Columns         string // keys
	RowNames, ColumnNames []string
	Cells                 [][]Cell
}

// measured is what effects are of.
func (t *Task) measured(c *Config) float64 {
	if t.Learned() {
		return c.Best.Mean
	}
	return c.Seconds.Mean
}

// Word is a mean of what effects are of, in words.
func (t *Task) Word(x float64) string {
	switch {
	case math.IsNaN(x):
		return ""
	case t.Learned():
		return t.score(x)
	}
	return progress.Seconds(x)
}

// Effects sums up more configurations than can be looked at one by one: of each key the
// means by its values, the key with the widest means first. They are means over what was
// run, and say nothing of what was not; nil where few were.
func (t *Task) Effects() (out []Effect) {
	if len(t.Configs) <= many || len(t.Varying) < 2 {
		return nil
	}
	type group struct {
		key     string
		spread  float64
		effects []Effect
	}
	var groups []group
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, key := range t.Varying {
		g := group{key: key}
		for _, value := range t.valuesOf(key) {
			e := Effect{Key: key, Value: value}
			var x []float64
			for _, c := range t.Configs {
				if c.Alone || c.show(key) != value {
					continue
				}
				x = append(x, t.measured(c))
				if m := c.ToSeconds.Median; t.Target.Asked() && !math.IsInf(m, 1) && !math.IsNaN(m) {
					e.Reached++
				}
			}
			s := stats.Summarize(x)
			if e.N, e.Mean, e.Best = s.N, s.Mean, s.Max; !t.Learned() || t.Target.Metric.LessIsBetter {
				e.Best = s.Min
			}
			if s.N > 0 {
				g.effects = append(g.effects, e)
			}
		}
		if len(g.effects) < 2 {
			continue
		}
		byMean := func(a, b Effect) int { return cmp.Compare(a.Mean, b.Mean) }
		low, high := slices.MinFunc(g.effects, byMean).Mean, slices.MaxFunc(g.effects, byMean).Mean
		g.spread, lo, hi = high-low, min(lo, low), max(hi, high)
		groups = append(groups, g)
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(b.spread, a.spread) })
	for _, g := range groups {
		for _, e := range g.effects {
			e.Share = share(e.Mean, lo, hi)
			out = append(out, e)
		}
	}
	return out
}

// Shade colours an effect by its share.
func (e Effect) Shade() template.CSS { return shade(e.Share) }

func shade(x float64) template.CSS { return template.CSS(fmt.Sprintf("--v:%.2f", x)) }

func share(x, lo, hi float64) float64 {
	if !(hi > lo) {
		return 0
	}
	return (x - lo) / (hi - lo)
}

// Map is of the two keys that make the largest differences; nil where effects are.
func (t *Task) Map() *HeatMap {
	var keys []string
	for _, e := range t.Effects() {
		if !slices.Contains(keys, e.Key) {
			keys = append(keys, e.Key)
		}
	}
	if len(keys) < 2 {
		return nil
	}
	m := &HeatMap{Rows: keys[0], Columns: keys[1], RowNames: t.valuesOf(keys[0]), ColumnNames: t.valuesOf(keys[1])}
	means := make([][]float64, len(m.RowNames))
	lo, hi := math.Inf(1), math.Inf(-1)
	for i, row := range m.RowNames {
		for _, column := range m.ColumnNames {
			var x []float64
			for _, c := range t.Configs {
				if !c.Alone && c.show(m.Rows) == row && c.show(m.Columns) == column {
					x = append(x, t.measured(c))
				}
			}
			mean := stats.Summarize(x).Mean
			if means[i] = append(means[i], mean); !math.IsNaN(mean) {
				lo, hi = min(lo, mean), max(hi, mean)
			}
		}
	}
	for _, row := range means {
		var cells []Cell
		for _, x := range row {
			c := Cell{Text: t.Word(x)}
			if c.Text != "" {
				c.Style = shade(share(x, lo, hi))
			}
			cells = append(cells, c)
		}
		m.Cells = append(m.Cells, cells)
	}
	return m
}

// valuesOf are a key's values, in the order of the table.
func (t *Task) valuesOf(key string) (out []string) {
	for _, c := range t.Configs {
		if v := c.show(key); !c.Alone && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

func (c *Config) show(key string) string { return c.Runs[0].Config.Show(key) }
