package profile

import "github.com/gradlab/gradlab/sgd"

// DenseNet40 is DenseNet-40 of growth 12 at 32×32 as tf_cnn_benchmarks has it, and GRACE
// measured it: every convolution has a bias, and what joins two blocks leaves 24
// channels, where Huang et al. 2017 keep all. So it has 0.36 million parameters, not 1.0.
type DenseNet40 struct{ Classifier }

var _ = Profiles.Add("densenet40", "DenseNet-40 of growth 12 as GRACE measured it, 32×32, 0.36 M parameters", DenseNet40{Classifier{11}})

// Profile implements Spec.
func (s DenseNet40) Profile() *Profile {
	const growth, layers = 12, 12
	b := begin("densenet40", 32, bias)
	b.same(16, 3, 3)
	for block := range 3 {
		if block > 0 {
			b.batchNorm()
			b.same(2*growth, 1, 1)
			b.pool(2, 2, valid)
		}
		for range layers {
			b.batchNorm()
			in := b.x
			b.same(growth, 3, 3)
			b.x.C += in.C // what came in stays beside what is new
		}
	}
	b.batchNorm()
	return b.end(s.Classes)
}

// batchNorm is a batch norm by itself.
func (b *builder) batchNorm() {
	b.shifts++
	for _, kind := range []string{"scale", "shift"} {
		b.add(numbered("bn", b.shifts, kind), sgd.Norm, 1, b.x.C, 0)
	}
}
