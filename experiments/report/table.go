package report

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/experiments/progress"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd"
)

// Table is a task's configurations, a row each. What all rows have in common stands above.
type Table struct {
	Heads []string
	Rows  []TableRow
	Alike []string // "seeds 3": columns with one value
}

// TableRow is a configuration in the table.
type TableRow struct {
	*Config
	Cells []TableCell
}

// TableCell is a text, and what a column is sorted by.
type TableCell struct{ Text, Sort string }

// column makes a cell of each configuration.
type column struct {
	head string
	of   func(*Config) TableCell
}

// Table is made of what is known of the configurations.
func (t *Task) Table() *Table {
	var columns []column
	add := func(head string, text func(*Config) string, number func(*Config) float64) {
		columns = append(columns, column{head, func(c *Config) TableCell { return TableCell{text(c), sortable(number(c))} }})
	}
	lies := func() {
		if t.Lying() {
			add("90 %", func(c *Config) string {
				if c.High == 0 {
					return ""
				}
				return orNever(c.Low) + " to " + orNever(c.High)
			}, func(c *Config) float64 { return c.High })
		}
	}
	add("seeds", (*Config).Seeds, func(c *Config) float64 { return float64(len(c.Trials)) })
	if t.Target.Asked() {
		to := " to " + t.Goal()
		add("time"+to, func(c *Config) string { return reached(c.ToSeconds, progress.Seconds) }, func(c *Config) float64 { return c.ToSeconds.Median })
		lies()
		add("bytes"+to, func(c *Config) string { return reached(c.ToBytes, bytesText) }, func(c *Config) float64 { return c.ToBytes.Median })
		add("updates"+to, func(c *Config) string {
			return reached(c.ToUpdates, func(x float64) string { return fmt.Sprintf("%.0f", x) })
		}, func(c *Config) float64 { return c.ToUpdates.Median })
		if t.texts() {
			add("tokens"+to, func(c *Config) string {
				return reached(c.ToTokens, func(x float64) string { return fmt.Sprintf("%.0f", x) })
			}, func(c *Config) float64 { return c.ToTokens.Median })
		}
	}
	if t.Measured() {
		add("speed-up", func(c *Config) string {
			if x := t.SpeedUp(c); !math.IsNaN(x) {
				return store.SpeedUp(x) + "×"
			}
			return ""
		}, t.SpeedUp)
	}
	if t.Learned() {
		add(t.Target.Metric.Best(), func(c *Config) string { return t.Share(c.Best) }, func(c *Config) float64 { return c.Best.Mean })
		unit := ""
		if t.Target.Metric.Unit == sgd.Share {
			unit = " (points)"
		}
		add("behind the best"+unit, t.behind, func(c *Config) float64 { return c.Behind.Mean })
		add("at update", func(c *Config) string { return fmt.Sprintf("%.0f", c.BestAt) }, func(c *Config) float64 { return c.BestAt })
		add("last "+t.Target.Metric.Head(), func(c *Config) string { return t.Share(c.Score) }, func(c *Config) float64 { return c.Score.Mean })
	}
	add(t.Clock(), func(c *Config) string { return inOneUnit(c.Seconds, progress.Seconds) }, func(c *Config) float64 { return c.Seconds.Mean })
	if !t.Target.Asked() {
		lies()
	}
	add("bytes", func(c *Config) string { return inOneUnit(c.Bytes, bytesText) }, func(c *Config) float64 { return c.Bytes.Mean })
	add("compression", func(c *Config) string { return times(c.Raw) }, func(c *Config) float64 { return c.Raw.Mean })
	add("to bf16", func(c *Config) string { return times(c.BF16) }, func(c *Config) float64 { return c.BF16.Mean })
	add("staleness", func(c *Config) string { return fmt.Sprintf("%.2f", c.Staleness.Mean) }, func(c *Config) float64 { return c.Staleness.Mean })

	out := &Table{}
	for _, c := range t.Configs {
		out.Rows = append(out.Rows, TableRow{Config: c})
	}
	for _, k := range columns {
		var cells []TableCell
		alike := len(t.Configs) > 1
		for _, c := range t.Configs {
			cells = append(cells, k.of(c))
			alike = alike && cells[0].Text == cells[len(cells)-1].Text
		}
		if alike {
			if cells[0].Text != "" {
				out.Alike = append(out.Alike, k.head+" "+cells[0].Text)
			}
			continue
		}
		out.Heads = append(out.Heads, k.head)
		for i := range cells {
			out.Rows[i].Cells = append(out.Rows[i].Cells, cells[i])
		}
	}
	return out
}

// SpeedUp is how many times as soon a configuration is at the target as one worker alone,
// or at its end where nothing is to be reached; NaN where that is not known.
func (t *Task) SpeedUp(c *Config) float64 {
	alone := baselineOf(t)
	if alone == nil || !finite(c.time(t)) || !finite(alone.time(t)) || c.time(t) == 0 {
		return math.NaN()
	}
	return alone.time(t) / c.time(t)
}

// behind words how far a configuration's best score is from the best of the others, and p.
func (t *Task) behind(c *Config) string {
	s := t.Points(c.Behind)
	switch p := chance(c.Behind.P); {
	case c.Behind.Same:
		s += ", the same runs"
	case s != "" && strings.HasPrefix(p, "<"):
		s += ", p " + p
	case s != "" && p != "" && c.Behind.P < 1:
		s += ", p = " + p
	}
	return s
}

// worded is a number with a unit.
var worded = regexp.MustCompile(`^([0-9]+(?:\.([0-9]+))?)(\s?[^0-9]+)$`)

// inOneUnit is a mean with half its 95 % interval in the unit and with the decimals of the
// mean, or the range of two values. What rounds to nothing is not there.
func inOneUnit(s stats.Summary, word func(float64) string) string {
	mean := word(s.Mean)
	m := worded.FindStringSubmatch(mean)
	if m == nil || s.N < 3 {
		return words(s, word)
	}
	shown, _ := strconv.ParseFloat(m[1], 64)
	if !(shown > 0) || !(s.Half > 0) {
		return mean
	}
	half := strconv.FormatFloat(s.Half*shown/s.Mean, 'f', len(m[2]), 64)
	if x, _ := strconv.ParseFloat(half, 64); x == 0 {
		return mean
	}
	return m[1] + " ± " + half + m[3]
}
