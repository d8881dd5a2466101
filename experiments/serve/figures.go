package serve

import (
	"slices"

	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// panels are the curves of runs, as far as they have come.
func panels(es []entry) []figure.Figure {
	clock, virtual := "wall time", 0
	for _, e := range es {
		if e.run.Virtual() {
			virtual++
		}
	}
	switch virtual {
	case 0:
	case len(es):
		clock = "virtual time"
	default:
		clock = "time, wall or virtual"
	}
	var runs []*store.Run
	for _, e := range es {
		runs = append(runs, e.run)
	}
	goal := store.CommonTarget(runs)
	y, of := store.Axis("", goal.Metric), goal.Metric.Head()
	updates := figure.Axis{Label: "updates"}
	names := labels(es)
	draw := func(title string, x, y figure.Axis, points func(store.Curve, *store.Run) (xs, ys []float64)) figure.Figure {
		f := figure.Figure{Title: title, X: x, Y: y}
		for i, e := range es {
			s := figure.Series{Name: names[i]}
			s.X, s.Y = points(e.curve, e.run)
			f.Series = append(f.Series, s)
		}
		return f
	}
	evals := func(x func(*store.Run, record.Eval) float64) func(store.Curve, *store.Run) (xs, ys []float64) {
		return func(c store.Curve, r *store.Run) (xs, ys []float64) {
			for _, v := range c.Evals {
				if value, known := v.Values.Of(goal.Metric); known {
					xs, ys = append(xs, x(r, v)), append(ys, value)
				}
			}
			return xs, ys
		}
	}
	progress := func(y func(record.Progress) float64) func(store.Curve, *store.Run) (xs, ys []float64) {
		return func(c store.Curve, _ *store.Run) (xs, ys []float64) {
			for _, p := range c.Progress {
				xs, ys = append(xs, float64(p.Step)), append(ys, y(p))
			}
			return xs, ys
		}
	}
	out := []figure.Figure{
		draw(of+" over updates", updates, y, evals(func(_ *store.Run, v record.Eval) float64 { return float64(v.Step) })),
		draw(of+" over time", figure.Axis{Label: clock, Log: true, Unit: figure.Seconds}, y, evals(func(_ *store.Run, v record.Eval) float64 { return v.Seconds })),
		draw(of+" over bytes", figure.Axis{Label: "bytes over the network", Log: true, Unit: figure.Bytes}, y,
			evals(func(r *store.Run, v record.Eval) float64 { return float64(r.Crossed(v.BytesUp, v.BytesDown)) })),
		draw("training loss", updates, figure.Axis{Label: "training loss", Log: true}, progress(func(p record.Progress) float64 { return p.Loss })),
		draw("learning rate", updates, figure.Axis{Label: "learning rate"}, progress(func(p record.Progress) float64 { return p.LR })),
	}
	for _, e := range es {
		if slices.ContainsFunc(e.curve.Progress, func(p record.Progress) bool { return p.NoiseScale > 0 }) {
			out = append(out, draw("gradient noise scale", updates, figure.Axis{Label: "samples", Log: true}, progress(func(p record.Progress) float64 { return p.NoiseScale })))
			break
		}
	}
	for _, e := range es {
		for _, p := range e.curve.Progress {
			if p.StalenessMax > 0 {
				return append(out, draw("staleness", updates, figure.Axis{Label: "mean staleness since the last report"}, progress(func(p record.Progress) float64 { return p.StalenessMean })))
			}
		}
	}
	return out
}

// labels are the runs' names, with their recipes where these differ.
func labels(es []entry) []string {
	var out []string
	for _, e := range es {
		name := e.run.Name
		if e.run.Recipe != es[0].run.Recipe || name == "" {
			name = e.run.Recipe + " " + name
		}
		out = append(out, name)
	}
	seen := map[string]int{}
	for i, name := range out {
		if seen[name]++; seen[name] > 1 {
			out[i] = name + " " + es[i].key[:4]
		}
	}
	return out
}
