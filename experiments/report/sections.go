package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/comm"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/experiments/store"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// many is the number of configurations from which on curves of the dominated
// ones are grey.
const many = 10

func paretoOf(t *Task) Section {
	best, accuracy := t.Target.Metric.Best(), store.Axis("best ", t.Target.Metric)
	time, volume := t.Clock(), "bytes over the network"
	text := "Each mark is a configuration, the mean over its seeds; bars are 95 % intervals of the mean (Student's t; for two seeds their range). "
	if isReached(t) {
		time, volume = time+" to "+t.Goal(), "bytes to "+t.Goal()
		text = "Each mark is a configuration: the median of its seeds on the way to the target, and the mean of their best evaluations, with its 95 % interval (Student's t; for two seeds their range). "
	}
	seconds := figure.Axis{Label: time, Log: true, Unit: figure.Seconds}
	bytes := figure.Axis{Label: volume, Log: true, Unit: figure.Bytes}
	s := Section{Name: "pareto", Title: strings.ToUpper(t.Asked()[:1]) + t.Asked()[1:],
		Text: text + "Pale ones are dominated: another is better in one of these by more than can be explained, and not worse in the others. At chance level they are pale too. A pale line is one worker alone, which sends nothing."}
	sa := figure.Figure{Title: best + " and time", X: seconds, Y: accuracy}
	ba := figure.Figure{Title: best + " and bytes", X: bytes, Y: accuracy}
	bs := figure.Figure{Title: "time and bytes", X: bytes, Y: seconds}
	drawn := slices.Clone(t.Configs)
	if len(drawn) > many { // those of the front over the others
		slices.SortStableFunc(drawn, func(a, b *Config) int {
			if a.Front == b.Front {
				return 0
			} else if b.Front {
				return -1
			}
			return 1
		})
	}
	var never []string
	for _, c := range drawn {
		if c.Alone {
			continue
		}
		mark := func(x, y, lo, hi float64) figure.Series {
			m := figure.Series{Name: c.Label, Tag: c.Label, Marks: true, Faded: !c.Front, X: []float64{x}, Y: []float64{y}}
			if len(t.Configs) > many && !c.Front {
				m.Name, m.Tag = "", ""
			}
			if lo < hi {
				m.Lo, m.Hi = []float64{lo}, []float64{hi}
			}
			return m
		}
		lo, hi := within(t, c.Best)
		sec, b := c.Seconds.Mean, c.Bytes.Mean
		slo, shi := band(c.Seconds, 0, math.Inf(1))
		if isReached(t) {
			if sec, b = c.ToSeconds.Median, c.ToBytes.Median; !finite(sec) {
				never = append(never, c.Label)
				continue
			}
			if slo, shi = c.ToSeconds.Min, c.ToSeconds.Max; c.High > 0 {
				slo, shi = c.Low, c.High
			}
			if !finite(shi) {
				slo, shi = sec, sec
			}
		}
		sa.Series = append(sa.Series, mark(sec, c.Best.Mean, lo, hi))
		ba.Series = append(ba.Series, mark(b, c.Best.Mean, lo, hi))
		bs.Series = append(bs.Series, mark(b, sec, slo, shi))
	}
	for _, c := range t.Configs {
		if c.Alone {
			sa.Series = append(sa.Series, across(sa, c.Label, c.Best.Mean))
			ba.Series = append(ba.Series, across(ba, c.Label, c.Best.Mean))
			if at := c.time(t); finite(at) {
				bs.Series = append(bs.Series, across(bs, c.Label, at))
			}
		}
	}
	if len(never) > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("Not in these figures, as most of their runs do not reach %s: %s", t.Goal(), list(never)))
	}
	if t.Learned() {
		s.Panels = append(s.Panels, sa)
	}
	if isCrossing(t) {
		if t.Learned() {
			s.Panels = append(s.Panels, ba)
		}
		s.Panels = append(s.Panels, bs)
	}
	return s
}

// isReached reports whether a choice reaches the target in most of its runs.
func isReached(t *Task) bool {
	return t.Target.Asked() && slices.ContainsFunc(t.choices(), func(c *Config) bool { return finite(c.ToSeconds.Median) })
}

// time is a configuration's time to the target, where some choice gets there, or that of
// its whole run.
func (c *Config) time(t *Task) float64 {
	if isReached(t) {
		return c.ToSeconds.Median
	}
	return c.Seconds.Mean
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// across is a line through a figure's points at one height: what they are measured
// against.
func across(f figure.Figure, label string, y float64) figure.Series {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, s := range f.Series {
		for _, x := range s.X {
			lo, hi = min(lo, x), max(hi, x)
		}
	}
	if label != store.Alone {
		label += ", " + store.Alone
	}
	return figure.Series{Name: label, X: []float64{lo, hi}, Y: []float64{y, y}, Faded: true}
}

// isCrossing is true if anything crossed a network.
func isCrossing(t *Task) bool {
	for _, c := range t.Configs {
		if c.Bytes.Max > 0 {
			return true
		}
	}
	return false
}

// band is the 95 % interval of a mean, the range of two values, kept within
// what there can be.
func band(s stats.Summary, least, most float64) (lo, hi float64) {
	switch {
	case s.N < 2:
		return s.Mean, s.Mean
	case s.N == 2:
		return s.Min, s.Max
	}
	return max(least, s.Mean-s.Half), min(most, s.Mean+s.Half)
}

// within is the band of a score, kept within what the metric can be.
func within(t *Task, s stats.Summary) (lo, hi float64) {
	least := math.Inf(-1)
	if s.Min >= 0 {
		least = 0
	}
	return band(s, least, t.Target.Metric.Most())
}

func curvesOf(t *Task) Section {
	if !t.Learned() {
		return Section{}
	}
	s := Section{Name: "curves", Title: "Learning curves",
		Text: "Means over seeds at each evaluation; bands are 95 % intervals of the mean, for two seeds the range. Training loss is averaged over some steps, and over seeds by its logarithm."}
	accuracy, of := store.Axis("", t.Target.Metric), t.Target.Metric.Head()
	by := averaging{same, same, math.Inf(-1), t.Target.Metric.Most()}
	if by.most == 1 {
		by.least = 0
	}
	evals := func(title string, x figure.Axis, at func(*Trial, record.Eval) float64) {
		f := figure.Figure{Title: title, X: x, Y: accuracy, Target: t.Target.Value}
		for _, c := range t.Configs {
			f.Series = append(f.Series, c.curve(len(t.Configs), func(tr *Trial) (xs, ys []float64) {
				for _, e := range tr.Curve.Evals {
					xs, ys = append(xs, at(tr, e)), append(ys, t.Target.Of(e))
				}
				return xs, ys
			}, by))
		}
		s.Panels = append(s.Panels, f)
	}
	evals(of+" over updates", figure.Axis{Label: "updates", Log: true}, func(_ *Trial, e record.Eval) float64 { return float64(e.Step) })
	evals(of+" over time", figure.Axis{Label: t.Clock(), Log: true, Unit: figure.Seconds}, func(t *Trial, e record.Eval) float64 { return t.stretched() * e.Seconds })
	if t.texts() {
		evals(of+" over tokens", figure.Axis{Label: "tokens", Log: true}, func(t *Trial, e record.Eval) float64 { return float64(t.Tokens(e.Samples)) })
	}
	if isCrossing(t) {
		evals(of+" over bytes", figure.Axis{Label: "bytes over the network", Log: true, Unit: figure.Bytes}, (*Trial).Crossing)
	}
	f := figure.Figure{Title: "training loss over updates", X: figure.Axis{Label: "updates", Log: true}, Y: figure.Axis{Label: "training loss", Log: true}}
	for _, c := range t.Configs {
		f.Series = append(f.Series, c.curve(len(t.Configs), func(tr *Trial) (xs, ys []float64) { return thinned(tr.Curve.Progress) }, logarithmic))
	}
	s.Panels = append(s.Panels, f)
	if isNoisy(t) {
		f := figure.Figure{Title: "gradient noise scale over updates", X: figure.Axis{Label: "updates", Log: true}, Y: figure.Axis{Label: "samples", Log: true}}
		for _, c := range t.Configs {
			f.Series = append(f.Series, c.curve(len(t.Configs), func(tr *Trial) (xs, ys []float64) {
				for _, p := range tr.Curve.Progress {
					if p.NoiseScale > 0 {
						xs, ys = append(xs, float64(p.Step)), append(ys, p.NoiseScale)
					}
				}
				return xs, ys
			}, logarithmic))
		}
		s.Panels = append(s.Panels, f)
	}
	return s
}

// isNoisy says whether a run measured its noise scale.
func isNoisy(t *Task) bool {
	for _, c := range t.Configs {
		for _, tr := range c.Trials {
			if slices.ContainsFunc(tr.Curve.Progress, func(p record.Progress) bool { return p.NoiseScale > 0 }) {
				return true
			}
		}
	}
	return false
}

// thinned is the training loss, averaged over pieces so that some sixty points
// are left: single steps are noise.
func thinned(ps []record.Progress) (xs, ys []float64) {
	every := max(1, (len(ps)+59)/60)
	for at := 0; at < len(ps); at += every {
		piece := ps[at:min(at+every, len(ps))]
		sum := 0.0
		for _, p := range piece {
			if sum += p.Loss; record.Diverged(p.Loss) {
				sum = math.NaN()
			}
		}
		xs, ys = append(xs, float64(piece[len(piece)-1].Step)), append(ys, sum/float64(len(piece)))
	}
	return xs, ys
}

// Means of shares are taken as they are, those of what is drawn on a
// logarithmic axis over logarithms.
type averaging struct {
	to, from    func(float64) float64
	least, most float64
}

var (
	same        = func(x float64) float64 { return x }
	logarithmic = averaging{math.Log, math.Exp, math.Inf(-1), math.Inf(1)}
)

// curve averages what points gives of each seed, point by point, as far as
// there are at least two seeds, or one if there is but one.
func (c *Config) curve(configs int, points func(*Trial) (xs, ys []float64), by averaging) figure.Series {
	s := figure.Series{Name: c.Label}
	if configs > many && !c.Front {
		s.Name, s.Faded = "", true
	}
	var xs, ys [][]float64
	for _, t := range c.Trials {
		x, y := points(t)
		xs, ys = append(xs, x), append(ys, y)
	}
	for i := 0; ; i++ {
		var x, y []float64
		for k := range xs {
			if i < len(xs[k]) {
				at := ys[k][i]
				if record.Diverged(at) { // a gap
					at = math.NaN()
				}
				x, y = append(x, xs[k][i]), append(y, by.to(at))
			}
		}
		if len(y) < min(2, len(c.Trials)) {
			return s
		}
		sum := stats.Summarize(y)
		s.X, s.Y = append(s.X, stats.Summarize(x).Mean), append(s.Y, by.from(sum.Mean))
		if len(c.Trials) > 1 {
			lo, hi := band(sum, by.least, by.most)
			s.Lo, s.Hi = append(s.Lo, by.from(lo)), append(s.Hi, by.from(hi))
		}
	}
}

func stalenessOf(t *Task) Section {
	s := Section{Name: "staleness", Title: "Staleness",
		Text: "How many updates the parameters had gone on by when a gradient computed on older ones was applied: the share of all gradients, all shards and seeds together."}
	f := figure.Figure{Title: "staleness of gradients", X: figure.Axis{Label: "staleness (updates)"}, Y: figure.Axis{Label: "share of gradients", Unit: figure.Percent}, Beside: true}
	stale := false
	shown, note := t.shown()
	s.Notes = note
	for _, c := range shown {
		line := figure.Series{Name: c.Label}
		var counts []uint64
		total := uint64(0)
		for _, tr := range c.Trials {
			for d, n := range tr.Result.Staleness {
				for len(counts) <= d {
					counts = append(counts, 0)
				}
				counts[d] += n
				total += n
			}
		}
		if len(counts) > 1 {
			stale = true
			for d, n := range counts {
				line.X, line.Y = append(line.X, float64(d)), append(line.Y, float64(n)/float64(total))
			}
			s.Notes = append(s.Notes, fmt.Sprintf("%s: mean %.2f, largest %d", c.Label, c.Staleness.Mean, len(counts)-1))
		}
		f.Series = append(f.Series, line)
	}
	if stale {
		s.Panels = []figure.Figure{f}
	}
	return s
}

// barsOf makes a panel of stacked bars, a row for each configuration: pieces are
// means over seeds, and those that are nowhere stay out.
func barsOf(t *Task, title string, x figure.Axis, names []string, pieces func(*Trial) []float64) (figure.Figure, bool) {
	f := figure.Figure{Title: title, X: x}
	values := make([][]float64, len(names))
	shown, _ := t.shown()
	for _, c := range shown {
		f.Rows = append(f.Rows, c.Label)
		sums := make([]float64, len(names))
		for _, tr := range c.Trials {
			for i, v := range pieces(tr) {
				sums[i] += v / float64(len(c.Trials))
			}
		}
		for i, v := range sums {
			values[i] = append(values[i], v)
		}
	}
	for i, name := range names {
		for _, v := range values[i] {
			if v > 0 {
				f.Series = append(f.Series, figure.Series{Name: name, X: values[i]})
				break
			}
		}
	}
	return f, len(f.Series) > 0
}

func trafficOf(t *Task) Section {
	s := Section{Name: "traffic", Title: "Traffic", Choice: true,
		Text: "Bytes of a whole run, the mean over seeds. Encoded bytes are counted, not estimated; headers, HTTP/2, heartbeats and reports are known where there are sockets."}
	unit := figure.Axis{Label: "bytes", Unit: figure.Bytes}
	kind, ok := barsOf(t, "by kind", unit, []string{"gradients", "parameters", "reports and snapshots", "headers and control"}, func(tr *Trial) []float64 {
		r := tr.Result
		down := float64(r.BytesDown)
		if !r.Servers {
			down = 0
		}
		return []float64{float64(r.BytesUp), down, float64(r.ReportBytes), float64(r.OverheadBytes)}
	})
	if !ok {
		return Section{}
	}
	carrier, _ := barsOf(t, "by what carried it", unit, []string{"virtual network", "within the process", "sockets", "shared memory"}, func(tr *Trial) []float64 {
		r := tr.Result
		crossed := float64(r.Crossed(r.BytesUp, r.BytesDown))
		switch on := tr.Run.Config.OnNet(); {
		case on.Virtual:
			return []float64{crossed, 0, 0, 0}
		case on.Ranks == config.RanksHere:
			return []float64{0, crossed, 0, 0}
		}
		return []float64{0, 0, float64(r.WireBytes - r.SharedBytes), float64(r.SharedBytes)}
	})
	busiest, _ := barsOf(t, "of the busiest rank", unit, []string{"sends", "receives"}, func(tr *Trial) []float64 {
		var sent, received uint64
		for _, r := range tr.Ranks {
			var s, v uint64
			for k := range r.Traffic.SentBytes {
				s, v = s+r.Traffic.SentBytes[k], v+r.Traffic.RecvBytes[k]
			}
			if s+v > sent+received {
				sent, received = s, v
			}
		}
		return []float64{float64(sent), float64(received)}
	})
	link, linked := barsOf(t, "by link", unit, linkNames, func(tr *Trial) []float64 { return byLink(tr.Ranks) })
	pair, _ := barsOf(t, "of the busiest link, both ways", unit, []string{"gradients", "parameters"}, func(tr *Trial) []float64 {
		b := busiestLink(tr.Ranks)
		return []float64{float64(b.kinds[comm.Gradient]), float64(b.kinds[comm.Parameters])}
	})
	s.Panels = []figure.Figure{kind, carrier, busiest}
	if linked {
		s.Panels = append(s.Panels, link, pair)
	}
	_, s.Notes = t.shown()
	s.Notes = append(s.Notes, linkNotes(t)...)
	return s
}

func timeOf(t *Task) Section {
	s := Section{Name: "time", Title: "Where the time goes",
		Text: "Of a worker's step, the mean over workers and seeds: computing the gradient; encoding and decoding; on the wire, blocked while bytes moved; waiting, blocked for somebody who had not sent yet; and the rest, such as adding up and applying. What goes on beside something else counts where the worker stood still. The virtual network knows wire and waiting apart; between processes only the part of a long frame's way that its receiver sees, and what a send was held up, counts as wire. On the virtual clock coding takes what device.codec says."}
	f, ok := barsOf(t, "time of a step", figure.Axis{Label: map[bool]string{true: "virtual", false: "wall"}[t.Virtual] + " time of a step", Unit: figure.Seconds}, []string{"compute", "encode", "decode", "wire", "wait", "rest"}, func(tr *Trial) []float64 {
		sums := make([]float64, 6)
		n := 0.0
		for _, r := range tr.Ranks {
			if r.Role != "worker" || r.Steps == 0 {
				continue
			}
			x, steps := r.Spent(), float64(r.TimedSteps())
			for i, part := range []float64{x.Compute, x.Encode, x.Decode, x.Wire, x.Wait, x.Rest} {
				sums[i] += part / steps
			}
			n++
		}
		for i := range sums {
			sums[i] /= max(n, 1)
		}
		return sums
	})
	if ok {
		s.Panels = []figure.Figure{f}
	}
	shown, note := t.shown()
	s.Notes = note
	for _, c := range shown {
		if len(c.Trials) > 0 && len(c.Trials[0].Ranks) > 0 && c.Trials[0].Ranks[0].Time == nil {
			s.Notes = append(s.Notes, c.Label+": from before encoding and the wire were told; compute has encoding in it, and wait the wire")
		}
	}
	return s
}
