package profile

// CIFAR10Full is Caffe's cifar10_full, the network of Gupta et al. 2016 and Zhang
// et al. 2016: the profile of the model cifar10_full.
type CIFAR10Full struct {
	Classes int `doc:"outputs of the classifier"`
}

var _ = Profiles.Add("cifar10_full", "Caffe's cifar10_full, 32×32, 0.09 M parameters", CIFAR10Full{Classes: 10})

// Validate checks the options.
func (s CIFAR10Full) Validate() error { return checkClasses(s.Classes) }

// Profile implements Spec.
func (s CIFAR10Full) Profile() *Profile {
	b := begin("cifar10_full", 32, bias)
	b.same(32, 5, 5)
	b.pool(3, 2, same)
	b.same(32, 5, 5)
	b.pool(3, 2, same)
	b.same(64, 5, 5)
	b.pool(3, 2, same)
	b.affine(s.Classes)
	return b.p
}
