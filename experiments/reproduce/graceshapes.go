package reproduce

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/profile"
)

// The gradients that GRACE's five benchmarks send, tensor by tensor, from their
// sources (sands-lab/grace-benchmarks, tensorflow/…). Running statistics never
// travel and are not listed.

// profileShapes are those of a profile.
func profileShapes(name string) sgd.Layout { return profile.Profiles.MustParse(name).Profile().Layout }

// shapes is a layout under construction.
type shapes struct{ sgd.Layout }

// dense is a matrix and a bias: in×out values, and one more an output. A
// convolution counts the taps of an output as in.
func (s *shapes) dense(name string, in, out int) {
	s.Add(name+".weight", sgd.Weight, out, in)
	s.Add(name+".bias", sgd.Bias, 1, out)
}

// ncfShapes is NeuMF on MovieLens-20M (Recommendation/NCF): 138,493 users and
// 26,744 items, the factors of both halves side by side in one table each, and an
// MLP 256-256-128-64 whose output joins the 64 factors.
func ncfShapes() sgd.Layout {
	const users, items, factors = 138493, 26744, 64
	var s shapes
	layers := []int{256, 256, 128, 64}
	s.Add("users", sgd.Weight, users, factors+layers[0]/2)
	s.Add("items", sgd.Weight, items, factors+layers[0]/2)
	for i, out := range layers[1:] {
		s.dense(fmt.Sprintf("dense%d", i+1), layers[i], out)
	}
	s.dense("output", factors+layers[len(layers)-1], 1)
	return s.Layout
}

// lstmShapes is the language model of Penn Treebank (LanguageModeling): 10,000
// words, two LSTM layers of 650 cells, a dense layer over the words. The table of
// embeddings is left out: its gradient is a list of rows, which took a way of its
// own, and GRACE's total is that of the others to the byte.
func lstmShapes() sgd.Layout {
	const words, cells = 10000, 650
	var s shapes
	for i := range 2 {
		s.dense(fmt.Sprintf("lstm%d", i+1), cells+cells, 4*cells) // four gates see input and output
	}
	s.dense("output", cells, words)
	return s.Layout
}
