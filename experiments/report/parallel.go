package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gradlab/gradlab/experiments/progress"
)

// Parallel shows all configurations at once, in parallel coordinates: an axis for each of
// the keys that make the largest differences, then for time, bytes and the score. A
// configuration is a line through its values.
type Parallel struct {
	Width, Height float64
	Top, Bottom   float64 // ends of the axes
	Axes          []ParallelAxis
	Lines         []ParallelLine // the best one last, over the others
}

// ParallelAxis is one axis, at X.
type ParallelAxis struct {
	Name  string
	X     float64
	Ticks []ParallelTick
}

// ParallelTick is a value on an axis, at Y.
type ParallelTick struct {
	Text string
	Y    float64
}

// ParallelLine is a configuration.
type ParallelLine struct {
	Label, Points string
	Front         bool
	Style         template.CSS // how good it is
}

const (
	parallelKeys   = 6 // axes of keys, at most
	parallelTop    = 34.0
	parallelHigh   = 300.0 // between the ends of an axis
	parallelApart  = 170.0 // between axes
	parallelSide   = 70.0
	parallelSpread = 0.6 // of the way to the next value, over which lines at one value lie
)

// ParallelCoordinates is of what [Task.Effects] sums up; nil where that is nothing.
func (t *Task) ParallelCoordinates() *Parallel {
	var keys []string
	for _, e := range t.Effects() {
		if !slices.Contains(keys, e.Key) && len(keys) < parallelKeys {
			keys = append(keys, e.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	var configs []*Config
	for _, c := range t.Configs {
		if !c.Alone {
			configs = append(configs, c)
		}
	}
	good := goodness(t, configs)
	slices.SortStableFunc(configs, func(a, b *Config) int { return cmp.Compare(good[a], good[b]) })
	p := &Parallel{Height: parallelTop + parallelHigh + 20, Top: parallelTop, Bottom: parallelTop + parallelHigh}
	heights := map[*Config][]float64{}
	add := func(name string, at func(*Config) float64, ticks []ParallelTick) {
		for i := range ticks {
			ticks[i].Y = parallelTop + (1-ticks[i].Y)*parallelHigh
		}
		p.Axes = append(p.Axes, ParallelAxis{name, parallelSide + float64(len(p.Axes))*parallelApart, ticks})
		for _, c := range configs {
			heights[c] = append(heights[c], parallelTop+(1-at(c))*parallelHigh)
		}
	}
	for _, key := range keys {
		values := inOrder(t.valuesOf(key))
		var ticks []ParallelTick
		gap := 1 / float64(len(values))
		for i, v := range values {
			ticks = append(ticks, ParallelTick{v, (float64(i) + 0.5) * gap})
		}
		add(key, func(c *Config) float64 {
			i := slices.Index(values, c.show(key))
			return (float64(i) + 0.5 + parallelSpread*(good[c]-0.5)) * gap
		}, ticks)
	}
	measured := func(name string, of func(*Config) float64, word func(float64) string, log bool) {
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, c := range configs {
			lo, hi = min(lo, of(c)), max(hi, of(c))
		}
		log = log && lo > 0
		place := func(x float64) float64 {
			if log {
				return share(math.Log(x), math.Log(lo), math.Log(hi))
			}
			return share(x, lo, hi)
		}
		ticks := []ParallelTick{{word(lo), 0}}
		if hi > lo {
			ticks = append(ticks, ParallelTick{word(hi), 1})
		}
		add(name, func(c *Config) float64 { return place(of(c)) }, ticks)
	}
	measured(t.Clock(), func(c *Config) float64 { return c.Seconds.Mean }, progress.Seconds, true)
	if isCrossing(t) {
		measured("bytes", func(c *Config) float64 { return c.Bytes.Mean }, bytesText, true)
	}
	if t.Learned() {
		measured(t.Target.Metric.Best(), func(c *Config) float64 { return c.Best.Mean }, t.score, false)
	}
	p.Width = 2*parallelSide + float64(len(p.Axes)-1)*parallelApart
	for _, c := range configs {
		var points []string
		for i, y := range heights[c] {
			points = append(points, fmt.Sprintf("%.1f,%.1f", p.Axes[i].X, y))
		}
		p.Lines = append(p.Lines, ParallelLine{c.Label, strings.Join(points, " "), c.Front, shade(good[c])})
	}
	return p
}

// goodness is where what effects are of lies between the worst and the best, 0 to 1.
func goodness(t *Task, configs []*Config) map[*Config]float64 {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, c := range configs {
		lo, hi = min(lo, t.measured(c)), max(hi, t.measured(c))
	}
	out := map[*Config]float64{}
	for _, c := range configs {
		if out[c] = share(t.measured(c), lo, hi); !t.Learned() || t.Target.Metric.LessIsBetter {
			out[c] = 1 - out[c]
		}
	}
	return out
}

// inOrder sorts values that are all numbers, and leaves others as they are.
func inOrder(values []string) []string {
	number := func(s string) (float64, bool) {
		x, err := strconv.ParseFloat(s, 64)
		return x, err == nil
	}
	if slices.ContainsFunc(values, func(s string) bool { _, ok := number(s); return !ok }) {
		return values
	}
	slices.SortFunc(values, func(a, b string) int {
		x, _ := number(a)
		y, _ := number(b)
		return cmp.Compare(x, y)
	})
	return values
}
