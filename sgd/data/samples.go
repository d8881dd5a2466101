package data

import "github.com/gradlab/gradlab/sgd"

// Samples is a store of labelled samples in a fixed order: what a set of one's own
// has to provide. Serve does the rest.
type Samples interface {
	// Len is how many samples there are, at least 1.
	Len() int
	// Shape is the geometry of a sample, Classes how many labels there are.
	Shape() sgd.Shape
	Classes() int
	// Read writes sample i, 0 to Len()−1, into x (Shape().Len() values) and returns
	// its label, 0 to Classes()−1. It gives the same values each time, and is safe for
	// concurrent use.
	Read(i int, x []float32) (label int32, err error)
}

// Serve pairs two stores as a set: shuffled by o.Seed with one order an epoch, and cut
// as o.Limit, o.TestLimit and o.Validation say. Samples are not augmented. The caller
// sets Hash, which must be another one for other samples.
func Serve(train, test Samples, o Options) sgd.Dataset {
	return dataset(served{train}, served{test}, o, false)
}

// served is a store of somebody else's as the sources here read it.
type served struct{ s Samples }

func (s served) len() int         { return s.s.Len() }
func (s served) shape() sgd.Shape { return s.s.Shape() }
func (s served) classes() int     { return s.s.Classes() }

func (s served) read(i int, _ jitter, x []float32) (int32, error) { return s.s.Read(i, x) }
