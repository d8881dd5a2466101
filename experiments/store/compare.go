package store

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradlab/gradlab/experiments/stats"
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
	N       int               `json:"n"`       // repeats that know the field
	Of      int               `json:"of"`      // repeats
	Mean    Maybe             `json:"mean"`    // of the field
	Half    Maybe             `json:"half"`    // half its 95 % interval, by Student's t
	Diff    Maybe             `json:"diff"`    // against the baseline
	DHalf   Maybe             `json:"dhalf"`   // half its 95 % interval
	P       Maybe             `json:"p"`       // of no difference, corrected for the number of comparisons
	Paired  int               `json:"paired"`  // seeds in common with the baseline; 0: compared by Welch's test
	Bytes   Maybe             `json:"bytes"`   // mean
	Seconds Maybe             `json:"seconds"` // mean, on the net's clock
	ToTime  stats.Reach       `json:"-"`       // seconds to the target
	ToBytes stats.Reach       `json:"-"`
	ToSteps stats.Reach       `json:"-"`
	Reached int               `json:"reached"`        // repeats that reached the target
	TSec    Maybe             `json:"target_seconds"` // median over all repeats
	TBytes  Maybe             `json:"target_bytes"`
	TSteps  Maybe             `json:"target_updates"`
}

// Comparison sets groups beside a baseline.
type Comparison struct {
	Field   Field       `json:"-"`
	Name    string      `json:"field"`
	Target  float64     `json:"target,omitempty"`
	Varying []string    `json:"varying"`         // keys in which the groups differ
	Usual   []string    `json:"usual,omitempty"` // what labels leave out
	Groups  []*Compared `json:"groups"`          // the baseline first
	Scaling []Scaling   `json:"scaling,omitempty"`
}

// Comparable keeps the runs that came to something: those with a result, and those
// that failed.
func Comparable(runs []*Run) (out []*Run) {
	for _, r := range runs {
		if r.Result != nil || r.State == Failed {
			out = append(out, r)
		}
	}
	return out
}

// Compare sets groups beside one of them. Differences are paired by seed where
// two seeds or more are common, and p-values are corrected for their number by
// Holm's method. target is an accuracy, 0: that of the runs, if they agree.
func Compare(groups []*Group, baseline int, f Field, target float64) (*Comparison, error) {
	if len(groups) == 0 {
		return nil, fmt.Errorf("no runs to compare")
	}
	c := &Comparison{Field: f, Name: f.Name, Target: target}
	var all []*Run
	for _, g := range groups {
		all = append(all, g.Runs...)
	}
	c.Varying, c.Usual = Varying(all), Usual(groups)
	if target == 0 {
		c.Target = commonTarget(all)
	} else {
		f = f.to(target)
	}
	base := groups[baseline]
	order := append([]*Group{base}, slices.Delete(slices.Clone(groups), baseline, baseline+1)...)
	bytes, _ := FieldNamed("bytes")
	seconds, _ := FieldNamed("seconds")
	var p []float64
	for _, g := range order {
		v := g.Values(f)
		s := stats.Summarize(v)
		x := &Compared{Group: g, Label: g.Label, Keys: g.Keys, N: s.N, Of: len(g.Runs), Mean: Maybe(s.Mean), Half: Maybe(s.Half), P: Maybe(math.NaN()), Diff: Maybe(math.NaN()), DHalf: Maybe(math.NaN())}
		x.Bytes = Maybe(stats.Summarize(g.Values(bytes)).Mean)
		x.Seconds = Maybe(stats.Summarize(g.Values(seconds)).Mean)
		if g != base {
			d := stats.Paired(base.BySeed(f), g.BySeed(f))
			if d.N >= 2 {
				x.Paired = d.N
			} else {
				d = stats.Welch(base.Values(f), v)
			}
			x.Diff, x.DHalf = Maybe(d.Mean), Maybe(d.Half)
			p = append(p, d.P)
		}
		if c.Target > 0 {
			if err := x.reach(c.Target); err != nil {
				return nil, err
			}
		}
		c.Groups = append(c.Groups, x)
	}
	for i, q := range stats.Holm(p) {
		c.Groups[i+1].P = Maybe(q)
	}
	c.Scaling = scalings(groups)
	return c, nil
}

// commonTarget is the target that all runs have, or 0.
func commonTarget(runs []*Run) float64 {
	for _, r := range runs {
		if r.Config.Target != runs[0].Config.Target {
			return 0
		}
	}
	return runs[0].Config.Target
}

func (x *Compared) reach(target float64) error {
	var when, bytes, steps []float64
	for _, r := range x.Runs {
		t, err := r.ToTarget(target)
		if err != nil {
			return err
		}
		when, bytes, steps = append(when, t.Seconds), append(bytes, t.Bytes), append(steps, t.Updates)
	}
	x.ToTime, x.ToBytes, x.ToSteps = stats.Reaching(when), stats.Reaching(bytes), stats.Reaching(steps)
	x.Reached = x.ToTime.Reached
	x.TSec, x.TBytes, x.TSteps = Maybe(x.ToTime.Median), Maybe(x.ToBytes.Median), Maybe(x.ToSteps.Median)
	return nil
}

// Distance is how far it was to a target; NaN if the run never got there.
type Distance struct{ Seconds, Bytes, Updates float64 }

// ToTarget is how far it was to the first evaluation at or above an accuracy.
func (r *Run) ToTarget(accuracy float64) (Distance, error) {
	c, err := r.Metrics()
	if err != nil {
		return Distance{}, err
	}
	for _, e := range c.Evals {
		if e.Accuracy >= accuracy {
			return Distance{e.Seconds, float64(r.Crossed(e.BytesUp, e.BytesDown)), float64(e.Step)}, nil
		}
	}
	nan := math.NaN()
	return Distance{nan, nan, nan}, nil
}

// to is the field, of which the way to a target is that to this accuracy and not to
// each run's own.
func (f Field) to(accuracy float64) Field {
	way := map[string]func(Distance) float64{
		"target_seconds": func(d Distance) float64 { return d.Seconds },
		"target_bytes":   func(d Distance) float64 { return d.Bytes },
	}[f.Name]
	if way != nil {
		f.get = func(r *Run) (any, bool) {
			d, err := r.ToTarget(accuracy)
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
