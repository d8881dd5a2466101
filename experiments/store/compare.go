package store

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/stats"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train/record"
)

// Maybe is a number that may not be known: NaN and infinities are null in JSON.
type Maybe float64

// MarshalJSON implements json.Marshaler.
func (m Maybe) MarshalJSON() ([]byte, error) {
	if x := float64(m); !math.IsNaN(x) && !math.IsInf(x, 0) {
		return json.Marshal(x)
	}
	return []byte("null"), nil
}

// Compared is a group beside the baseline.
type Compared struct {
	*Group  `json:"-"`
	Label   string            `json:"label"`
	Keys    map[string]string `json:"keys"`
	N       int               `json:"n"`              // repeats that know the field
	Of      int               `json:"of"`             // repeats that are done or failed
	Mean    Maybe             `json:"mean"`           // of the field
	Half    Maybe             `json:"half"`           // half its 95 % interval, by Student's t
	Diff    Maybe             `json:"diff"`           // against the baseline
	DHalf   Maybe             `json:"dhalf"`          // half its 95 % interval
	P       Maybe             `json:"p"`              // of no difference, corrected for the number of tests
	Same    bool              `json:"same"`           // its runs are the baseline's to the last bit: there is nothing to test
	Paired  int               `json:"paired"`         // seeds in common with the baseline; 0: compared by Welch's test
	Bytes   Maybe             `json:"bytes"`          // mean
	Seconds Maybe             `json:"seconds"`        // mean, on the net's clock
	To      Way               `json:"-"`              // the target
	Reached int               `json:"reached"`        // repeats that reached the target
	TSec    Maybe             `json:"target_seconds"` // median over all repeats
	TBytes  Maybe             `json:"target_bytes"`
	TSteps  Maybe             `json:"target_updates"`
	TTokens Maybe             `json:"target_tokens,omitempty"` // of texts
}

// Comparison sets groups beside a baseline.
type Comparison struct {
	Facet   string      `json:"facet,omitempty"` // environment, where there are several
	Field   Field       `json:"-"`
	Name    string      `json:"field"`
	Target  record.Goal `json:"target,omitzero"`
	Varying []string    `json:"varying"`         // keys in which the groups differ
	Usual   []string    `json:"usual,omitempty"` // what labels leave out
	Groups  []*Compared `json:"groups"`          // the baseline first
	Scaling []Scaling   `json:"scaling,omitempty"`

	left []*Run // of groups that came to nothing
}

// Comparable keeps the runs that came to something: those that are done, and those
// that failed. One that was stopped or goes on has the figures of a part.
func Comparable(runs []*Run) (out []*Run) {
	for _, r := range runs {
		if r.IsDone() || r.State == Failed {
			out = append(out, r)
		}
	}
	return out
}

// Compare sets groups beside one of them, as [Test] does. Groups none of whose runs
// is done or failed are named below the table. target is what is to be reached; none: that of
// the runs, if they agree.
func Compare(groups []*Group, baseline int, f Field, target record.Goal) (*Comparison, error) {
	if len(groups) == 0 {
		return nil, fmt.Errorf("no runs to compare")
	}
	c := &Comparison{Field: f, Name: f.Name}
	var all []*Run
	for _, g := range groups {
		all = append(all, g.Runs...)
	}
	c.Varying, c.Usual = Varying(all), Usual(groups)
	if c.Target = CommonTarget(all); target.Asked() {
		var err error
		if c.Target, err = TargetOf(target, all); err != nil {
			return nil, err
		}
	}
	if target.Asked() || all[0].Config.Target.OfBest {
		f = f.to(c.Target)
	}
	base := groups[baseline]
	order := append([]*Group{base}, slices.Delete(slices.Clone(groups), baseline, baseline+1)...)
	bytes, _ := FieldNamed("bytes")
	seconds, _ := FieldNamed("seconds")
	order = slices.DeleteFunc(order, func(g *Group) bool {
		if g == base || len(Comparable(g.Runs)) > 0 {
			return false
		}
		c.left = append(c.left, g.Runs...)
		return true
	})
	for i, d := range Test(base, order, f) {
		g := order[i]
		s := g.Summary(f)
		x := &Compared{Group: g, Label: g.Label, Keys: g.Keys, N: s.N, Of: len(Comparable(g.Runs)), Mean: Maybe(s.Mean), Half: Maybe(s.Half), P: Maybe(d.P), Diff: Maybe(d.Mean), DHalf: Maybe(d.Half), Same: d.Same}
		if d.Paired {
			x.Paired = d.N
		}
		x.Bytes = Maybe(g.Summary(bytes).Mean)
		x.Seconds = Maybe(g.Summary(seconds).Mean)
		if c.Target.Asked() {
			var err error
			if x.To, err = g.Reach(c.Target); err != nil {
				return nil, err
			}
			x.Reached = x.To.Seconds.Reached
			x.TSec, x.TBytes, x.TSteps = Maybe(x.To.Seconds.Median), Maybe(x.To.Bytes.Median), Maybe(x.To.Updates.Median)
			if x.To.Texts {
				x.TTokens = Maybe(x.To.Tokens.Median)
			}
		}
		c.Groups = append(c.Groups, x)
	}
	c.Scaling = scalings(groups)
	return c, nil
}

// Goal is what the run was to reach and is compared by.
func (r *Run) Goal() record.Goal {
	if r.Config.Weightless {
		return record.Goal{}
	}
	g, err := r.Config.Goal(r.Metrics)
	if err != nil && len(r.Metrics) > 0 { // a folder that somebody has changed
		return record.Goal{Metric: r.Metrics[0]}
	}
	return g
}

// CommonTarget is the target that all runs have, or none; and the metric by which all of them
// are compared, or else the first one that all have. A share of the best is that of the best
// of these runs. Runs without weights have none.
func CommonTarget(runs []*Run) (g record.Goal) {
	for _, r := range runs {
		switch o := r.Goal(); {
		case o.Metric.Name == "":
		case g.Metric.Name == "":
			g = o
		case o.Metric != g.Metric:
			return record.Goal{Metric: shared(runs)}
		case o.Value != g.Value || o.OfBest != g.OfBest:
			g.Value, g.OfBest = 0, false
		}
	}
	return resolve(g, runs)
}

// shared is the first metric that all runs have, or else the first there is.
func shared(runs []*Run) sgd.Metric {
	all := MetricsOf(runs)
	for _, m := range all {
		if !slices.ContainsFunc(runs, func(r *Run) bool { return len(r.Metrics) > 0 && !slices.Contains(r.Metrics, m) }) {
			return m
		}
	}
	return all[0]
}

// TargetOf is a goal that is asked for of runs: one that names no metric is of that by which
// they are compared. Its value is known: a share of the best is that of the best evaluation
// of all runs that are done, and it is none where there is no evaluation. The error says what
// metrics the runs have.
func TargetOf(goal record.Goal, runs []*Run) (record.Goal, error) {
	metrics := MetricsOf(runs)
	if goal.Metric.Name == "" {
		goal.Metric = CommonTarget(runs).Metric
	}
	goal, err := goal.Among(metrics)
	return resolve(goal, runs), err
}

// resolve makes a value of a share of the best.
func resolve(goal record.Goal, runs []*Run) record.Goal {
	if !goal.OfBest {
		return goal
	}
	best, found := 0.0, false
	for _, r := range runs {
		if !r.IsDone() {
			continue
		}
		if b, known := r.Result.Best[goal.Metric.Name]; known && (!found || goal.Metric.Better(b.Value, best)) {
			best, found = b.Value, true
		}
	}
	return goal.Resolve(best)
}

// Against is a group's difference from a baseline.
type Against struct {
	stats.Difference      // P corrected for the number of tests
	Paired           bool // by seed; else by Welch's test
	Same             bool // the runs are the baseline's to the last bit
}

// Test sets groups beside one of them in a field, by pairs of seeds where two or
// more are common, else by Welch's test. It is one family of tests, corrected by
// Holm's method. Groups with the same trajectories and the same values (a codec on
// another topology, say) are one test; what is the baseline's own takes none. The
// baseline's own place has NaN throughout.
func Test(base *Group, groups []*Group, f Field) []Against {
	nan := math.NaN()
	out := make([]Against, len(groups))
	at, keys := map[string]int{}, make([]string, len(groups))
	var p []float64
	own := base.trajectory(f)
	for i, g := range groups {
		if g == base {
			out[i].Difference = stats.Difference{Mean: nan, Half: nan, P: nan, Error: nan, Freedom: nan}
			continue
		}
		out[i].Difference, out[i].Paired = stats.Compare(base.BySeed(f), g.BySeed(f))
		key := g.trajectory(f)
		if out[i].Same = key != "" && key == own; out[i].Same {
			out[i].P = nan
			continue
		}
		if key == "" {
			key = fmt.Sprint("only ", i)
		}
		if keys[i] = key; !has(at, key) {
			at[key] = len(p)
			p = append(p, out[i].P)
		}
	}
	p = stats.Holm(p)
	for i, key := range keys {
		if key != "" {
			out[i].P = p[at[key]]
		}
	}
	return out
}

func has(m map[string]int, key string) bool { _, ok := m[key]; return ok }

// trajectory names what the group's runs came to, seed by seed: the parameters at
// their ends, and a field. "" if that is not known of every run.
func (g *Group) trajectory(f Field) string {
	var b strings.Builder
	for _, r := range g.Runs {
		if !r.IsDone() {
			continue
		}
		if r.Result.ParamsSHA256 == "" {
			return ""
		}
		fmt.Fprintf(&b, "%d %s %v\n", r.Config.Seed, r.Result.ParamsSHA256, f.Value(r))
	}
	return b.String()
}

// IsSame reports whether two groups came to the same, seed by seed: the same parameters
// at their ends, and the same values of a field.
func (g *Group) IsSame(o *Group, f Field) bool {
	own := g.trajectory(f)
	return own != "" && own == o.trajectory(f)
}

// Distance is how far it was to a target; NaN if the run never got there. Tokens are those of
// texts, 0 of other runs.
type Distance struct{ Seconds, Bytes, Updates, Tokens float64 }

// Way is how far it was to a target, over repeats.
type Way struct {
	Seconds, Bytes, Updates, Tokens stats.Reach
	Texts                           bool // there are tokens
}

// ToTarget is how far it was to the first evaluation that reaches a goal.
func (r *Run) ToTarget(goal record.Goal) (Distance, error) {
	c, err := r.Curve()
	if err != nil {
		return Distance{}, err
	}
	if e, ok := experiments.FirstAt(c.Evals, goal); ok {
		return Distance{e.Seconds, float64(r.Crossed(e.BytesUp, e.BytesDown)), float64(e.Step), float64(r.Tokens(e.Samples))}, nil
	}
	nan := math.NaN()
	return Distance{nan, nan, nan, nan}, nil
}

// Tokens is how many tokens so many samples of the run have; 0 of samples that are no texts.
func (r *Run) Tokens(samples uint64) uint64 {
	if r.Result == nil {
		return 0
	}
	return samples * uint64(r.Result.SampleTokens)
}

// Reach is how far it was to a goal, over the repeats that are done or failed.
func (g *Group) Reach(goal record.Goal) (way Way, err error) {
	var s, b, u, t []float64
	for _, r := range Comparable(g.Runs) {
		d, err := r.ToTarget(goal)
		if err != nil {
			return way, err
		}
		s, b, u, t = append(s, d.Seconds), append(b, d.Bytes), append(u, d.Updates), append(t, d.Tokens)
		way.Texts = way.Texts || r.Tokens(1) > 0
	}
	way.Seconds, way.Bytes, way.Updates, way.Tokens = stats.Reaching(s), stats.Reaching(b), stats.Reaching(u), stats.Reaching(t)
	return way, nil
}

// to is the field, of which the way to a target is that to this goal and not to each
// run's own.
func (f Field) to(goal record.Goal) Field {
	way := map[string]func(Distance) float64{
		"target_seconds": func(d Distance) float64 { return d.Seconds },
		"target_bytes":   func(d Distance) float64 { return d.Bytes },
		"target_tokens":  func(d Distance) float64 { return d.Tokens },
	}[f.Name]
	if way != nil {
		f.get = func(r *Run) (any, bool) {
			d, err := r.ToTarget(goal)
			return way(d), err == nil && !math.IsNaN(way(d))
		}
	}
	return f
}

// Scaling is throughput over workers for groups that are otherwise alike.
type Scaling struct {
	Label      string        `json:"label"`
	Points     []stats.Point `json:"points"` // samples a second on the net's clock, mean of the repeats
	Efficiency []float64     `json:"efficiency"`
	Amdahl     *stats.Law    `json:"amdahl,omitempty"` // three points or more
	USL        *stats.Law    `json:"usl,omitempty"`    // four points or more
}

// scalings finds groups that differ in workers alone.
func scalings(groups []*Group) []Scaling {
	rate, _ := FieldNamed("rate")
	byRest := map[string]*Scaling{}
	var order []string
	for _, g := range groups {
		v := g.Values(rate)
		if len(v) == 0 {
			continue
		}
		c := g.Runs[0].Config
		n := c.Workers
		c.Workers, c.Seed = 1, 1
		k := c.Hash()
		if byRest[k] == nil {
			byRest[k] = &Scaling{Label: without(g, "workers")}
			order = append(order, k)
		}
		if byRest[k].Label == Alone {
			byRest[k].Label = without(g, "workers")
		}
		byRest[k].Points = append(byRest[k].Points, stats.Point{N: n, Throughput: stats.Summarize(v).Mean})
	}
	var out []Scaling
	for _, k := range order {
		s := *byRest[k]
		if len(s.Points) < 2 {
			continue
		}
		slices.SortFunc(s.Points, func(a, b stats.Point) int { return a.N - b.N })
		s.Efficiency = stats.Efficiency(s.Points)
		if len(s.Points) >= 3 {
			if l, err := stats.Amdahl(s.Points); err == nil {
				s.Amdahl = &l
			}
		}
		if len(s.Points) >= 4 {
			if l, err := stats.USL(s.Points); err == nil {
				s.USL = &l
			}
		}
		out = append(out, s)
	}
	return out
}

// without is a group's label without one of its keys.
func without(g *Group, key string) string {
	if _, ok := g.Keys[key]; ok && len(g.Keys) == 1 {
		return g.Runs[0].Recipe
	}
	var parts []string
	for _, p := range strings.Fields(g.Label) {
		if !strings.HasPrefix(p, key+"=") {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, " ")
}
