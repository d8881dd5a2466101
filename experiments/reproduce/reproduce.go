// Package reproduce holds studies: published results and laws, computed again
// point by point, with a verdict on each. A study is a file: an option struct
// enrolled under its name, which `gradlab reproduce NAME` runs.
package reproduce

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/gradlab/gradlab/experiments"
	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/experiments/figure"
	"github.com/gradlab/gradlab/registry"
)

// Study computes a result again.
type Study interface {
	// Group is the subject that the study belongs to.
	Group() Group
	// Mechanisms are what the study is about, at least one: without any of them a
	// judged point that held must be missed, or it proved nothing.
	Mechanisms() []Mechanism
	// Run fails only if it cannot be carried out; a claim that does not hold is
	// a Point that is not OK.
	Run(ctx context.Context, lab *Lab) (*Report, error)
}

// Studies holds every study by name.
// A [registry.Table] has Parse for spec text, Add to enrol one, and Names.
var Studies = registry.New[Study]("study")

// Lab is where a study is carried out.
type Lab struct {
	Quick bool   // the same claims at a smaller size
	Out   string // folder for figures and runs
	Runs  experiments.Options
	Logf  func(format string, args ...any) // hears how it goes; may be nil
	// Without names a mechanism of the study that is taken out; "" is none.
	Without string

	removed *removal
	flights flights
	memory  *memory       // of what was measured, where studies share it
	slots   chan struct{} // cores, where studies share them
}

func (l *Lab) logf(format string, args ...any) {
	if l.Logf != nil {
		l.Logf(format, args...)
	}
}

// Kind says what a point proves.
type Kind string

const (
	// Claim is a point whose value follows from nothing that was fitted to the
	// source it is compared with.
	Claim Kind = "claim"
	// HeldOut is one of a set of points of which others were fitted.
	HeldOut Kind = "held out"
	// Fitted is one a parameter was fitted to. It is not judged.
	Fitted Kind = "fitted"
	// Derived rests on figures of the same row of the source. It is not judged.
	Derived Kind = "derived"
	// Hypothesis is an ordering that rests on recalled figures. It is answered
	// either way and not judged.
	Hypothesis Kind = "hypothesis"
)

// Judged says whether a point of this kind can fail a study.
func (k Kind) Judged() bool { return k == Claim || k == HeldOut }

// Point is one figure: what was published or follows from a law, and ours.
type Point struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit,omitempty"`
	Published float64 `json:"published"` // NaN: no figure, but an ordering
	Ours      float64 `json:"ours"`
	Least     float64 `json:"least"` // ours is right from here
	Most      float64 `json:"most"`  // to here
	Kind      Kind    `json:"kind"`
	OK        bool    `json:"ok"`
}

// MarshalJSON writes figures that are not finite, of what never came about, as
// null.
func (p Point) MarshalJSON() ([]byte, error) {
	type plain Point
	number := func(x float64) *float64 {
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return nil
		}
		return &x
	}
	return json.Marshal(struct {
		plain
		Published *float64 `json:"published"`
		Ours      *float64 `json:"ours"`
		Least     *float64 `json:"least"`
		Most      *float64 `json:"most"`
	}{plain(p), number(p.Published), number(p.Ours), number(p.Least), number(p.Most)})
}

// Report is the outcome of a study.
type Report struct {
	Study   string         `json:"study"`
	Title   string         `json:"title"`
	Source  string         `json:"source"` // of what is published
	Quick   bool           `json:"quick"`
	Without string         `json:"without,omitempty"` // the mechanism that was taken out
	Stated  []string       `json:"stated,omitempty"`  // parameters, and where they are from
	Points  []Point        `json:"points"`
	Tables  []figure.Table `json:"tables,omitempty"` // figures beside the points
	// Predicted are published points that were not fitted, each with its 90 % interval.
	Predicted []Predicted `json:"predicted,omitempty"`
	Figures   []string    `json:"figures,omitempty"` // files
	Notes     []string    `json:"notes,omitempty"`
	Seconds   float64     `json:"seconds"` // that it took, since it was last begun; for who runs it to fill in
}

// Failed counts the points judged that do not hold.
func (r *Report) Failed() (n int) {
	for _, p := range r.Points {
		if p.Kind.Judged() && !p.OK {
			n++
		}
	}
	return n
}

// NotBorneOut are the hypotheses of the source that do not hold here, and how many
// there are.
func (r *Report) NotBorneOut() (names []string, of int) {
	for _, p := range r.Points {
		if p.Kind == Hypothesis {
			if of++; !p.OK {
				names = append(names, p.Name)
			}
		}
	}
	return names, of
}

// within adds a point that is right up to a relative error.
func (r *Report) within(k Kind, name, unit string, published, ours, relative float64) {
	d := relative * math.Abs(published)
	r.between(k, name, unit, published, ours, published-d, published+d)
}

// exactly adds a point that is right if it is the same.
func (r *Report) exactly(k Kind, name, unit string, published, ours float64) {
	r.between(k, name, unit, published, ours, published, published)
}

// between adds a point that is right from least to most.
func (r *Report) between(k Kind, name, unit string, published, ours, least, most float64) {
	r.add(Point{Name: name, Unit: unit, Published: published, Ours: ours, Least: least, Most: most, Kind: k})
}

// add adds a point, with its verdict.
func (r *Report) add(p Point) {
	p.OK = p.Ours >= p.Least && p.Ours <= p.Most
	r.Points = append(r.Points, p)
}

// holds adds a statement that is true or not.
func (r *Report) holds(k Kind, statement string, ok bool) {
	ours := 0.0
	if ok {
		ours = 1
	}
	r.between(k, statement, "true", 1, ours, 1, 1)
}

// Run runs the study called name.
func Run(ctx context.Context, name string, lab *Lab) (*Report, error) {
	s, err := Studies.Parse(name)
	if err != nil {
		return nil, err
	}
	if err := lab.without(s); err != nil {
		return nil, fmt.Errorf("study %s: %w", name, err)
	}
	if lab.memory == nil {
		lab.memory = &memory{dir: lab.Out}
	}
	if lab.Runs.Places.Shelf == nil {
		lab.Runs.Places.Shelf = &config.Shelf{}
	}
	r, err := s.Run(ctx, lab)
	if err != nil {
		return nil, fmt.Errorf("study %s: %w", name, err)
	}
	if lab.removed != nil && !lab.removed.took {
		return nil, fmt.Errorf("study %s: mechanism %q is in none of its runs, so that nothing was taken out", name, lab.Without)
	}
	r.Study, r.Quick, r.Without = name, lab.Quick, lab.Without
	return r, nil
}
