package nn

import "github.com/gradlab/gradlab/sgd"

// CIFAR10Full is Caffe's cifar10_full net:
//
//	conv 5×5 → 32 – max 3/2 – ReLU – LRN – conv 5×5 → 32 – ReLU – mean 3/2 – LRN
//	– conv 5×5 → 64 – ReLU – mean 3/2 – classes
//
// with its initial weights, N(0, 10⁻⁸) in the first convolution and N(0, 10⁻⁴)
// elsewhere: 89,578 parameters on 3×32×32. Experiments on softsync (Gupta et
// al. 2016) use this net.
type CIFAR10Full struct {
	Smoothing float64 `doc:"label smoothing in [0, 1)"`
}

var _ = Models.Add("cifar10_full", "Caffe's cifar10_full, 90 k parameters", CIFAR10Full{})

// Validate checks the options.
func (m CIFAR10Full) Validate() error { return checkSmoothing(m.Smoothing) }

// New builds the model for inputs of at least 8×8.
func (m CIFAR10Full) New(in sgd.Sample) (sgd.Model, error) {
	if err := checkSide("cifar10_full", in, 8); err != nil {
		return nil, err
	}
	lrn := LRN{Size: 3, Alpha: 5e-5, Beta: 0.75}
	mean := AvgPool{Kernel: 3, Stride: 2, Ceil: true}
	return New(in, m.Smoothing,
		Conv{Out: 32, Kernel: 5, Pad: 2, Init: Gauss(1e-4)}, MaxPool{Kernel: 3, Stride: 2, Ceil: true}, ReLU{}, lrn,
		Conv{Out: 32, Kernel: 5, Pad: 2, Init: Gauss(0.01)}, ReLU{}, mean, lrn,
		Conv{Out: 64, Kernel: 5, Pad: 2, Init: Gauss(0.01)}, ReLU{}, mean,
		Dense{Out: in.Classes, Init: Gauss(0.01)})
}
