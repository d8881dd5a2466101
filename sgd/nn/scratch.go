package nn

import (
	"math"

	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/sgd"
)

// scratch is a net's working memory.
type scratch struct {
	*run
	net   *Net          // of the run
	whole *Net          // of the largest samples
	sizes map[*Net]*run // of the nets that passes were made of
	other []int32       // of mixed samples: see sgd.Batch
	share []float32
	seen  []float32 // samples as a look shows them
	mean  []float32 // outputs over looks
}

func newScratch(n *Net) *scratch {
	s := &scratch{net: n, whole: n.family()}
	s.run = s.newRun(n)
	return s
}

// gradPass runs forward, loss and backward. The run's parameters, gradient and
// callbacks are set.
func (s *scratch) gradPass(in input, labels []int32) (loss float64, err error) {
	defer s.finish()
	s.train = true
	s.start(in, len(labels)/s.net.in.Labels())
	if err := s.goAhead(); err != nil {
		return 0, err
	}
	scale, repeats := s.net.options.LossScale, s.net.options.repeats()
	ready := s.ready
	if scale != 1 {
		s.ready = nil // gradients are not final before they are unscaled
	}
	for ; ; scale /= 2 {
		loss = s.lossPass(labels, scale)
		if err := s.goBack(); err != nil {
			return 0, err
		}
		if scale == 1 && !repeats {
			return loss, nil
		}
		if s.unscale(scale) || !repeats || scale <= 1 || math.IsNaN(loss-loss) {
			break
		}
	}
	if s.ready = ready; ready == nil {
		return loss, nil
	}
	for i := len(s.stages) - 1; i >= 0; i-- {
		if err := s.tell(&s.stages[i], back); err != nil {
			return 0, err
		}
	}
	return loss, nil
}

// lossPass returns the mean loss and sets the gradient of the logits, scaled.
func (s *scratch) lossPass(labels []int32, scale float64) (loss float64) {
	all := microbatch{hi: s.n}
	logits, dz := s.value(&all, s.net.out, bufX, true), s.gradient(&all, s.logits, bufDY, false)
	classes, mean := s.net.in.Classes, 1/float64(len(labels))
	for i, y := range labels {
		lo, hi := i*classes, (i+1)*classes
		loss += crossEntropy(logits[lo:hi], int(y), s.net.smoothing, scale*mean, dz[lo:hi])
		if len(s.share) > 0 {
			loss += mixLabel(logits[lo:hi], int(y), int(s.other[i]), s.net.smoothing, 1-float64(s.share[i]), scale*mean, dz[lo:hi])
		}
	}
	s.keepGradient(&all, s.logits, dz)
	return loss * mean
}

// outputs are the logits of n samples, averaged over the looks at them.
func (s *scratch) outputs(in input, n int) ([]float32, error) {
	once := func(in input) ([]float32, error) {
		s.start(in, n)
		if err := s.goAhead(); err != nil {
			return nil, err
		}
		return s.value(&microbatch{hi: n}, s.net.out, bufX, true), nil
	}
	if len(s.net.looks) < 2 {
		return once(in)
	}
	x := in.x[:n*s.net.in.Len()]
	sum := grow(&s.mean, n*s.net.in.Classes)
	clear(sum)
	seen, total := grow(&s.seen, len(x)), float32(0)
	for _, l := range s.net.looks {
		l.at(seen, x, s.net.in.Shape)
		logits, err := once(input{x: seen})
		if err != nil {
			return nil, err
		}
		f32.Axpy(sum, l.weight, logits)
		total += l.weight
	}
	f32.Scale(sum, 1/total)
	return sum, nil
}

// evalPass scores samples chunk by chunk. The run's parameters are set.
func (s *scratch) evalPass(in input, labels []int32) (score sgd.Score, err error) {
	defer s.finish()
	s.train = false
	classes, size, each := s.net.in.Classes, s.net.in.Len(), s.net.in.Labels()
	var of []func(z []float32, y int) float64 // nil: it follows from the loss
	loss, metrics := 0, s.net.Metrics()
	for i, m := range metrics {
		if of = append(of, measures[m]); m == sgd.Loss {
			loss = i
		}
	}
	score.Sums = make([]float64, len(of))
	one := make([]float64, len(of)) // of the sample in progress, where samples have several labels
	if each > 1 {
		score.Squares = make([]float64, len(of))
	}
	chunk := max(evalLeast, min(evalFloats/max(1, s.passes.acts), evalMost))
	for len(labels) > 0 {
		n := min(len(labels)/each, chunk)
		logits, err := s.outputs(in, n)
		if err != nil {
			return sgd.Score{}, err
		}
		for i, y := range labels[:n*each] {
			z := logits[i*classes : (i+1)*classes]
			for k, f := range of {
				if f == nil {
					continue
				}
				x := f(z, int(y)) / float64(each)
				score.Sums[k] += x
				one[k] += x
			}
			if (i+1)%each == 0 {
				for k := range score.Squares {
					score.Squares[k] += float64(one[k] * one[k])
				}
				clear(one)
			}
		}
		score.N += n
		in, labels = in.from(n*size), labels[n*each:]
	}
	for k, f := range of {
		if f == nil {
			factor := metrics[k].LossFactor(s.net.in)
			score.Sums[k], score.Squares[k] = score.Sums[loss]*factor, score.Squares[loss]*factor*factor
		}
	}
	return score, nil
}

// finish lets go of what the caller owns.
func (s *scratch) finish() {
	s.ctx, s.params, s.grad, s.need, s.ready, s.input = nil, nil, nil, nil, nil, input{}
	s.meet, s.failed = nil, nil
}
