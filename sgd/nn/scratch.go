package nn

import "github.com/gradlab/gradlab/sgd"

// scratch is a net's working memory in arithmetic T: the pass in progress and
// the layers with their activations.
type scratch[T Float] struct {
	run[T]
	net  *Net
	root block[T]
}

func newScratch[T Float](n *Net) *scratch[T] {
	s := &scratch[T]{net: n, root: instance[T](n.root)}
	s.layout, s.width = &n.layout, n.width
	return s
}

// gradPass runs forward, loss and backward. The run's parameters, gradient and
// callbacks are set.
func (s *scratch[T]) gradPass(x []T, labels []int32) (float64, error) {
	defer s.end()
	s.train = true
	s.begin(len(labels))
	logits, err := s.root.forward(&s.run, x)
	if err != nil {
		return 0, err
	}
	classes, scale := s.net.classes, 1/float64(len(labels))
	dz := s.take(len(logits))
	var loss float64
	for i, y := range labels {
		lo, hi := i*classes, (i+1)*classes
		loss += crossEntropy(logits[lo:hi], int(y), s.net.smoothing, scale, dz[lo:hi])
	}
	if _, err := s.root.backward(&s.run, dz, true, false); err != nil {
		return 0, err
	}
	return loss * scale, nil
}

// evalPass scores x chunk by chunk. The run's parameters are set.
func (s *scratch[T]) evalPass(x []T, labels []int32) (score sgd.Score, err error) {
	defer s.end()
	s.train = false
	classes, size := s.net.classes, s.net.in.Len()
	for len(labels) > 0 {
		n := min(len(labels), evalChunk)
		s.begin(n)
		logits, err := s.root.forward(&s.run, x[:n*size])
		if err != nil {
			return sgd.Score{}, err
		}
		for i, y := range labels[:n] {
			z := logits[i*classes : (i+1)*classes]
			score.Loss += crossEntropy(z, int(y), 0, 1, nil)
			if correct(z, int(y)) {
				score.Correct++
			}
		}
		score.N += n
		x, labels = x[n*size:], labels[n:]
	}
	return score, nil
}

// end lets go of what the caller owns.
func (s *scratch[T]) end() {
	s.ctx, s.params, s.grad, s.need, s.ready = nil, nil, nil, nil, nil
}
