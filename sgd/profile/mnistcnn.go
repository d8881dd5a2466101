package profile

import "github.com/gradlab/gradlab/sgd"

// MNISTCNN is the CNN for MNIST of Gagliano 2018, the profile of the model
// mnistcnn.
type MNISTCNN struct {
	Classes int `doc:"outputs of the classifier"`
}

var _ = Profiles.Add("mnistcnn", "two convolutions and a wide dense layer, 28×28, 3.3 M parameters", MNISTCNN{Classes: 10})

// Validate checks the options.
func (s MNISTCNN) Validate() error { return checkClasses(s.Classes) }

// Profile implements Spec.
func (s MNISTCNN) Profile() *Profile {
	b := begin("mnistcnn", 28, bias)
	b.p.Input = sgd.Shape{C: 1, H: 28, W: 28}
	b.x = b.p.Input
	b.same(32, 5, 5)
	b.pool(2, 2, same)
	b.same(64, 5, 5)
	b.pool(2, 2, same)
	b.affine(1024)
	b.affine(s.Classes)
	return b.p
}
