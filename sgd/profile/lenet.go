package profile

import "github.com/gradlab/gradlab/sgd"

// LeNet is LeNet-5 (LeCun, Bottou, Bengio and Haffner 1998) as it is trained today:
// every filter of the second layer sees all six channels, the last layer is dense.
type LeNet struct {
	Classes int `doc:"outputs of the classifier"`
}

var _ = Profiles.Add("lenet", "LeNet-5, 28×28, 0.06 M parameters", LeNet{Classes: 10})

// Validate checks the options.
func (s LeNet) Validate() error { return checkClasses(s.Classes) }

// Profile implements Spec.
func (s LeNet) Profile() *Profile {
	b := begin("lenet", 28, bias)
	b.p.Input = sgd.Shape{C: 1, H: 28, W: 28}
	b.x = b.p.Input
	b.same(6, 5, 5)
	b.pool(2, 2, valid)
	b.conv(16, 5, 5, 1, valid)
	b.pool(2, 2, valid)
	b.affine(120)
	b.affine(84)
	b.affine(s.Classes)
	return b.p
}
