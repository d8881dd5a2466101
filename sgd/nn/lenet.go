package nn

import "github.com/gradlab/gradlab/sgd"

// LeNet5 has the layers of LeCun et al. 1998 with ReLUs and max pooling:
//
//	conv 5×5 → 6 – pool 2 – conv 5×5 → 16 – pool 2 – 120 – 84 – classes
//
// 28×28 images are padded to 32×32 as in the paper (61,706 parameters). Below
// 12 pixels the second convolution is padded too, so that 8×8 digits fit.
type LeNet5 struct {
	Smoothing float64 `doc:"label smoothing in [0, 1)"`
}

var _ = Models.Add("lenet5", "LeNet-5 with ReLUs and max pooling", LeNet5{})

// Validate checks the options.
func (m LeNet5) Validate() error { return checkSmoothing(m.Smoothing) }

// New builds the model for inputs of at least 4×4.
func (m LeNet5) New(in sgd.Sample) (sgd.Model, error) {
	if err := checkSide("lenet5", in, 4); err != nil {
		return nil, err
	}
	first, second := 2, 0
	switch side := min(in.H, in.W); {
	case side >= 32:
		first = 0
	case side < 12:
		second = 2
	}
	// ReLU and maximum commute, and behind the pool there is a quarter to do.
	return New(in, m.Smoothing,
		Conv{Out: 6, Kernel: 5, Pad: first}, MaxPool{Kernel: 2}, ReLU{},
		Conv{Out: 16, Kernel: 5, Pad: second}, MaxPool{Kernel: 2}, ReLU{},
		Dense{Out: 120}, ReLU{}, Dense{Out: 84}, ReLU{}, Dense{Out: in.Classes, Init: Glorot})
}
