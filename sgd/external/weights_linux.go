package external

import (
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/nn"
)

var _ sgd.Portable = (*Model)(nil)

// Weights implements sgd.Portable: a safetensors file whose tensors have the names and shapes
// that the program gave, those of its state_dict if it serves a torch.nn.Module.
func (m *Model) Weights(params []float32) ([]byte, error) {
	return nn.EncodeWeights(m.layout, m.files, params)
}

// SetWeights implements sgd.Portable; nn.Net.SetWeights says what a file may have.
func (m *Model) SetWeights(params []float32, file []byte) error {
	return nn.DecodeWeights(m.layout, m.files, params, file)
}

// From implements sgd.Portable: m itself, whose program is not asked for first parameters
// any more.
func (m *Model) From(file []byte) (sgd.Model, error) {
	first := make([]float32, m.layout.Size())
	if err := m.SetWeights(first, file); err != nil {
		return nil, err
	}
	m.first = first
	return m, nil
}
