package nn

import (
	"fmt"

	"github.com/gradlab/gradlab/sgd"
)

// Logistic is softmax regression: one dense layer on the flattened input,
// convex in its parameters.
type Logistic struct {
	Smoothing float64 `doc:"label smoothing in [0, 1)"`
}

// MLP is dense layers with ReLUs between them, on the flattened input.
type MLP struct {
	Hidden    []int   `doc:"units of each hidden layer"`
	Dropout   float64 `doc:"share of hidden units dropped in training"`
	Smoothing float64 `doc:"label smoothing in [0, 1)"`
}

var (
	_ = Models.Add("logistic", "softmax regression, convex", Logistic{})
	_ = Models.Add("mlp", "dense layers with ReLUs", MLP{Hidden: []int{512, 256}})
)

// Validate checks the options.
func (m Logistic) Validate() error { return checkSmoothing(m.Smoothing) }

// New builds the model for any input shape.
func (m Logistic) New(in sgd.Sample) (sgd.Model, error) {
	return New(in, m.Smoothing, Dense{Out: in.Classes, Init: Glorot})
}

// Validate checks the options.
func (m MLP) Validate() error {
	for _, h := range m.Hidden {
		if h < 1 {
			return fmt.Errorf("hidden layers need at least one unit, not %d", h)
		}
	}
	if !(m.Dropout >= 0 && m.Dropout < 1) {
		return fmt.Errorf("dropout must be in [0, 1), not %g", m.Dropout)
	}
	return checkSmoothing(m.Smoothing)
}

// New builds the model for any input shape.
func (m MLP) New(in sgd.Sample) (sgd.Model, error) {
	var layers Sequential
	for _, h := range m.Hidden {
		layers = append(layers, Dense{Out: h}, ReLU{})
		if m.Dropout > 0 {
			layers = append(layers, Dropout{Rate: m.Dropout})
		}
	}
	return New(in, m.Smoothing, append(layers, Dense{Out: in.Classes, Init: Glorot})...)
}
