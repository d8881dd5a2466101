package experiments

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/gradlab/gradlab/experiments/config"
	"github.com/gradlab/gradlab/internal/f32"
	"github.com/gradlab/gradlab/internal/regular"
	"github.com/gradlab/gradlab/sgd"
	"github.com/gradlab/gradlab/sgd/train"
)

// startHash tells the weights that ranks begin with from others, where a file has
// them; "" elsewhere.
func startHash(c config.Config, j *train.Job) string {
	if c.Init == "none" {
		return ""
	}
	params := make([]float32, j.Model.Layout().Size())
	j.Model.Init(params, c.Seed)
	sum := sha256.Sum256(f32.AppendBytes(nil, params))
	return fmt.Sprintf("%x", sum[:8])
}

// Weights encodes the final parameters of the run in folder as a safetensors file
// with the names and shapes of its model, PyTorch's where it is a network: see sgd.Portable.
func Weights(folder string) ([]byte, error) {
	c, err := readConfig(folder)
	if err != nil {
		return nil, err
	}
	ds, err := RecordedData(folder)
	if err != nil {
		return nil, err
	}
	c.Init, c.Timing = "none", "model" // neither changes what a weight is
	if c.Weightless {
		return nil, fmt.Errorf("%s is a run without weights", folder)
	}
	r, err := c.Resolve()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	m, err := r.ModelFor(ds.Train)
	if err != nil {
		return nil, err
	}
	p, ok := m.(sgd.Portable)
	if !ok {
		return nil, fmt.Errorf("model %s has no layers whose weights a file could hold", c.Model)
	}
	b, err := regular.ReadFile(filepath.Join(folder, "model.safetensors"), regular.Any)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no final parameters: the run is not over", folder)
	}
	if err != nil {
		return nil, err
	}
	params := make([]float32, m.Layout().Size())
	if err := p.SetWeights(params, b); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(folder, "model.safetensors"), err)
	}
	return p.Weights(params)
}
