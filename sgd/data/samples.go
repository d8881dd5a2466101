package data

import "github.com/gradlab/gradlab/sgd"

// Samples is a store of labelled samples in a fixed order: what a set of one's own
// has to provide. Serve does the rest.
type Samples interface {
	// Len is how many samples there are, at least 1.
	Len() int
	// Sample is the form of each.
	Sample() sgd.Sample
	// Read writes sample i, 0 to Len()−1. It gives the same values each time, and is safe
	// for concurrent use.
	Read(i int, to Item) error
}

// Item is where a sample is read to: Sample().Shape.Len() numbers X or, of samples that are
// tokens, as many Tokens; and Sample().Labels() labels Y.
type Item struct {
	X      []float32
	Tokens []int32
	Y      []int32
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
func (s served) form() sgd.Sample { return s.s.Sample() }

func (s served) read(i int, _ jitter, to Item) error { return s.s.Read(i, to) }
