package parts

import (
	"fmt"
	"hash/fnv"
	"math"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/data"
)

// Spiral is points on the arms of a spiral: the class is the arm. No line separates them.
type Spiral struct {
	N    int `doc:"training samples, 10 or more"`
	Arms int `doc:"classes, 2 or more"`
}

var _ = data.Sets.Add("spiral", "points on the arms of a spiral; the class is the arm", Spiral{N: 600, Arms: 3})

// Validate checks the options.
func (s Spiral) Validate() error {
	if s.N < 10 || s.N > 1<<24 || s.Arms < 2 || s.Arms > s.N/2 {
		return fmt.Errorf("options n=%d, arms=%d: want 10 to %d samples, and 2 arms or more with two samples each", s.N, s.Arms, 1<<24)
	}
	return nil
}

// Open implements data.Set. There are no files and nothing to augment. A quarter as many
// points, between the others, are the test set.
func (s Spiral) Open(o data.Options) (sgd.Dataset, error) {
	if err := s.Validate(); err != nil {
		return sgd.Dataset{}, err
	}
	ds := data.Serve(arms{s.N, s.Arms, 0}, arms{max(s.N/4, 1), s.Arms, 0.5}, o)
	h := fnv.New64a()
	fmt.Fprintf(h, "spiral %d %d", s.N, s.Arms)
	ds.Hash = h.Sum64()
	return ds, nil
}

// arms implements data.Samples; offset moves the points along their arm.
type arms struct {
	n, arms int
	offset  float64
}

func (a arms) Len() int { return a.n }
func (a arms) Sample() sgd.Sample {
	return sgd.Sample{Shape: sgd.Shape{C: 1, H: 1, W: 2}, Classes: a.arms}
}

func (a arms) Read(i int, to data.Item) error {
	arm := i % a.arms
	r := (float64(i/a.arms) + 1 + a.offset) / float64(a.n/a.arms+2)
	sin, cos := math.Sincos(4*r + 2*math.Pi*float64(arm)/float64(a.arms))
	to.X[0], to.X[1], to.Y[0] = float32(r*cos), float32(r*sin), int32(arm)
	return nil
}
