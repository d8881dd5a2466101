package report

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gradlab/gradlab/experiments/store"
)

// Of many configurations the best come first, the rest is folded, figures name none but
// the front, and the means by key are those of the configurations.
func TestManyConfigurations(t *testing.T) {
	t.Parallel()
	var runs []*store.Run
	gain := map[string]float64{"raw": 0, "bf16": 0.01, "sign": -0.2}
	for codec, g := range gain {
		for workers := 1; workers <= 8; workers++ {
			r := trial(codec, 1, store.Done, 0.9+g-0.001*float64(workers))
			r.Config.Workers = workers
			runs = append(runs, r)
		}
	}
	r := mustNew(t, runs)
	task := r.Tasks[0]
	if len(task.Configs) != 24 {
		t.Fatalf("%d configurations", len(task.Configs))
	}
	for i, c := range task.Configs[1:] {
		if a := task.Configs[i]; a.Choice() == c.Choice() && a.ToSeconds.Median == c.ToSeconds.Median && a.Score.Mean < c.Score.Mean {
			t.Errorf("%s, at %v, stands before %s, at %v", a.Label, a.Score.Mean, c.Label, c.Score.Mean)
		}
	}
	page := html(t, r)
	if n := strings.Count(strings.ReplaceAll(page, scriptText, ""), "rest\""); n != 2*(24-most) { // configurations, and runs
		t.Errorf("%d rows are folded", n)
	}
	for _, s := range task.Sections {
		for _, f := range s.Panels {
			if len(f.Rows) > most {
				t.Errorf("%s has %d rows", f.Title, len(f.Rows))
			}
			if s.Name == "pareto" {
				for _, x := range f.Series {
					if x.Faded && strings.HasPrefix(x.Tag, "raw") {
						t.Errorf("%s names %s, which is not on the front", f.Title, x.Tag)
					}
				}
			}
		}
	}
	effects := task.Effects()
	if len(effects) != 11 || effects[0].Key != "codec" {
		t.Fatalf("%d effects, the first of %s", len(effects), effects[0].Key)
	}
	for _, e := range effects {
		if e.Key != "codec" {
			continue
		}
		if want := 0.9 + gain[e.Value] - 0.0045; e.N != 8 || math.Abs(e.Mean-want) > 1e-9 || math.Abs(e.Best-want-0.0035) > 1e-9 {
			t.Errorf("%+v, want a mean of %v", e, want)
		}
	}
	if m := task.Map(); m.Rows != "codec" || m.Columns != "workers" || len(m.Cells) != 3 || len(m.Cells[0]) != 8 || m.Cells[0][0].Text == "" {
		t.Errorf("%+v", m)
	}
	p := task.ParallelCoordinates()
	names, high := "", map[string]float64{}
	for _, a := range p.Axes {
		names += a.Name + " "
		for i, tick := range a.Ticks {
			if high[tick.Text] = tick.Y; i > 0 && tick.Y >= a.Ticks[i-1].Y {
				t.Errorf("%s: %s stands below %s", a.Name, tick.Text, a.Ticks[i-1].Text)
			}
		}
	}
	if names != "codec workers virtual time bytes best accuracy " || len(p.Lines) != 24 || len(p.Axes[1].Ticks) != 8 || p.Axes[1].Ticks[0].Text != "1" {
		t.Errorf("axes %s of %d lines, %+v", names, len(p.Lines), p.Axes[1])
	}
	best := p.Lines[len(p.Lines)-1] // the best of codec bf16: it ends at the top of the last axis
	if !strings.HasSuffix(best.Points, fmt.Sprintf("%.1f,%.1f", p.Axes[4].X, p.Top)) || !strings.Contains(page, best.Points) || best.Style != "--v:1.00" {
		t.Errorf("%+v", best)
	}
	if few := mustNew(t, sample).Tasks[0]; few.Effects() != nil || few.Map() != nil {
		t.Error(fmt.Sprint(len(few.Configs), " configurations are summed up by key"))
	}
}
