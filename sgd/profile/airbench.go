package profile

import "github.com/gradlab/gradlab/sgd"

// Airbench94 is the network of airbench94 for CIFAR-10 (Jordan 2024): model
// airbench94. Its whitening convolution is frozen, so that it is computed and not
// sent.
type Airbench94 struct {
	Classes int `doc:"outputs of the classifier"`
}

var _ = Profiles.Add("airbench94", "the network of airbench94, 32×32, 2.0 M parameters", Airbench94{Classes: 10})

// Validate checks the options.
func (s Airbench94) Validate() error { return checkClasses(s.Classes) }

// Profile implements Spec.
func (s Airbench94) Profile() *Profile {
	b := begin("airbench94", 32, shift)
	b.x = sgd.Shape{C: 24, H: 31, W: 31} // behind 2×2 windows without padding
	b.add("whiten.bias", sgd.Bias, 1, b.x.C, 2*2*3*float64(b.x.Len()))
	for _, width := range []int{64, 256, 256} {
		b.same(width, 3, 3)
		b.pool(2, 2, valid)
		b.same(width, 3, 3)
	}
	b.pool(3, 3, valid)
	b.norm = none
	b.same(s.Classes, 1, 1) // a dense layer without bias
	return b.p
}
