package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// MNISTCNN is the convolutional net of TensorFlow's MNIST tutorial:
//
//	conv 5×5 → 32 – pool 2 – conv 5×5 → 64 – pool 2 – 1024 – dropout – classes
//
// with padded convolutions and ReLUs: 3,274,634 parameters and 13.9 million
// multiply-adds on 1×28×28. Weights begin as TensorFlow lays them out, Glorot
// uniform: asynchronous Adam, whose first steps are large and all alike, drives
// the ReLUs of a He start into death.
type MNISTCNN struct {
	Dropout   float64 `doc:"share of the 1024 units dropped in training"`
	Smoothing float64 `doc:"label smoothing in [0, 1)"`
}

var _ = Models.Add("mnistcnn", "two convolutions and a wide dense layer, 3.3 M parameters", MNISTCNN{Dropout: 0.4})

// Validate checks the options.
func (m MNISTCNN) Validate() error {
	if !(m.Dropout >= 0 && m.Dropout < 1) {
		return fmt.Errorf("dropout must be in [0, 1), not %g", m.Dropout)
	}
	return checkSmoothing(m.Smoothing)
}

// New builds the model for inputs of at least 4×4.
func (m MNISTCNN) New(in sgd.Sample) (sgd.Model, error) {
	if err := checkSide("mnistcnn", in, 4); err != nil {
		return nil, err
	}
	// ReLU and maximum commute, and behind the pool there is a quarter to do.
	return New(in, m.Smoothing,
		Conv{Out: 32, Kernel: 5, Pad: 2, Init: Glorot}, MaxPool{Kernel: 2}, ReLU{},
		Conv{Out: 64, Kernel: 5, Pad: 2, Init: Glorot}, MaxPool{Kernel: 2}, ReLU{},
		Dense{Out: 1024, Init: Glorot}, ReLU{}, Dropout{Rate: m.Dropout}, Dense{Out: in.Classes, Init: Glorot})
}
